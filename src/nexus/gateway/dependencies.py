"""What endpoints ask for in their arguments."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Annotated, Final, cast

from fastapi import Depends, Request
from starlette.types import ASGIApp, Scope

from nexus.app import App
from nexus.gateway.browsers import Keys
from nexus.gateway.metrics import Metrics

SERVED: Final = "nexus.served"
"""Under this name a host tells in the scope of a request which of its homes it is for."""


@dataclass(eq=False)
class Served:
    """An open home, as the gateway serves it."""

    app: App
    keys: Keys
    stack: AsyncExitStack
    """What runs while it is served, such as sessions of MCP clients."""
    metrics: Metrics = field(default_factory=Metrics)
    mcp: ASGIApp | None = None
    making_mcp: asyncio.Lock = field(default_factory=asyncio.Lock)


def served_by(request: Request) -> Served:
    """The home that a request is for: the one that its host found, or the only one."""
    return served_of(request.scope)


def served_of(scope: Scope) -> Served:
    """The same, where there is no request yet."""
    return cast("Served", scope.get(SERVED) or scope["app"].state.served)


def _home(request: Request) -> App:
    return served_by(request).app


def _keys(request: Request) -> Keys:
    return served_by(request).keys


def _metrics(request: Request) -> Metrics:
    return served_by(request).metrics


Home = Annotated[App, Depends(_home)]
"""The home that is served: `async def list_sessions(home: Home)`."""
HomeKeys = Annotated[Keys, Depends(_keys)]
HomeMetrics = Annotated[Metrics, Depends(_metrics)]
