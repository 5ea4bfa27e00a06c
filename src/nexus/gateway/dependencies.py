"""What endpoints ask for in their arguments."""

from typing import Annotated, cast

from fastapi import Depends, Request

from nexus.app import App
from nexus.gateway.browsers import Keys
from nexus.gateway.metrics import Metrics


def _home(request: Request) -> App:
    return cast("App", request.app.state.nexus)


def _keys(request: Request) -> Keys:
    return cast("Keys", request.app.state.keys)


def _metrics(request: Request) -> Metrics:
    return cast("Metrics", request.app.state.metrics)


Home = Annotated[App, Depends(_home)]
"""The home that is served: `async def list_sessions(home: Home)`."""
HomeKeys = Annotated[Keys, Depends(_keys)]
HomeMetrics = Annotated[Metrics, Depends(_metrics)]
