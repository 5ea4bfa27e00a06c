"""What endpoints ask for in their arguments."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from fastapi import APIRouter, Depends, Query, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.routing import compile_path
from starlette.types import ASGIApp, Scope

from nexus.app import App
from nexus.gateway.errors import RESPONSES
from nexus.gateway.guard import Keys
from nexus.gateway.metrics import Metrics

if TYPE_CHECKING:
    from nexus.gateway.mcp import RemoteClients

SERVED: Final = "nexus.served"
"""Under this name a host tells in the scope of a request which of its homes it is for."""

# It only tells the document how to get in: the guard has let nobody through without.
_TOKEN = HTTPBearer(scheme_name="token", description="What `nexus login --token` prints.", auto_error=False)


class LateRoute(APIRoute):
    """A route whose models are built when it is first used: building all of them takes half a second."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.path, self.endpoint, self.methods = path, endpoint, set(options["methods"])
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self._options = options

    def __getattr__(self, name: str) -> Any:
        options = self.__dict__.pop("_options", None)
        if options is None:
            raise AttributeError(name)
        super().__init__(self.path, self.endpoint, **options)
        return getattr(self, name)


def api_router(tag: str, prefix: str = "") -> APIRouter:
    """A router for endpoints below `/api`. The gateway takes its routes as they are.

    Including it in another one would build each route again, at start and at the first request.
    """
    return APIRouter(
        prefix=f"/api{prefix}",
        tags=[tag],
        responses=RESPONSES,
        dependencies=[Depends(_TOKEN)],
        generate_unique_id_function=lambda route: route.name,
        route_class=LateRoute,
    )


@dataclass(eq=False)
class Served:
    """An open home, as the gateway serves it."""

    app: App
    keys: Keys
    stack: AsyncExitStack
    """What runs while it is served, such as sessions of MCP clients."""
    metrics: Metrics = field(default_factory=Metrics)
    mcp: ASGIApp | None = None
    remote_clients: "RemoteClients | None" = None
    """MCP clients that sign in with OAuth; None where the settings don't let them."""
    oauth: ASGIApp | None = None
    sign_ins: dict[str, asyncio.Future[str]] = field(default_factory=dict[str, "asyncio.Future[str]"])
    """Sign-ins to MCP servers that wait for a browser, by their state."""
    restart: Callable[[], None] | None = None
    """Opens the home again with its saved settings; None where its host decides when."""
    making_mcp: asyncio.Lock = field(default_factory=asyncio.Lock)


def served_by(request: Request) -> Served:
    """The home that a request is for: the one that its host found, or the only one."""
    return served_of(request.scope)


def served_of(scope: Scope) -> Served:
    """The same, where there is no request yet."""
    return cast("Served", scope.get(SERVED) or scope["app"].state.served)


def _app(request: Request) -> App:
    return served_by(request).app


def _keys(request: Request) -> Keys:
    return served_by(request).keys


def _metrics(request: Request) -> Metrics:
    return served_by(request).metrics


ServedApp = Annotated[App, Depends(_app)]
"""The open home that is served: `async def list_sessions(app: ServedApp)`."""
HomeKeys = Annotated[Keys, Depends(_keys)]
HomeMetrics = Annotated[Metrics, Depends(_metrics)]


Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the previous page.")]
Limit = Annotated[int, Query(ge=1, le=200, description="Page size.")]
