"""Every page of the dashboard and its address."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from nexus.app import App
from nexus.gateway.dashboard.endpoint import back, get
from nexus.gateway.dashboard.pages import (
    automations,
    chat,
    conclusions,
    entities,
    events,
    memory,
    requests,
    sessions,
    settings,
    usage,
)

_STATIC = Path(__file__).parent / "static"


class _Files(StaticFiles):
    """The few files of the dashboard. Their address changes with the program's version."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "private, max-age=86400"
        return response


async def join(server: Starlette, app: App, stack: AsyncExitStack) -> None:
    """Add the dashboard to the gateway."""
    server.router.routes.extend(routes())


def routes() -> list[BaseRoute]:
    """The pages. They find the home in `request.app.state.nexus`."""
    return [
        get("/", _home),
        get("/favicon.ico", _icon),
        *chat.ROUTES,
        *requests.ROUTES,
        *events.ROUTES,
        *memory.ROUTES,
        *entities.ROUTES,
        *conclusions.ROUTES,
        *automations.ROUTES,
        *sessions.ROUTES,
        *usage.ROUTES,
        *settings.ROUTES,
        Mount("/static", _Files(directory=_STATIC), name="static"),
    ]


async def _icon(request: Request, app: App) -> Response:
    """For pages that name none, such as the login."""
    return FileResponse(_STATIC / "icon.svg")


async def _home(request: Request, app: App) -> Response:
    return back("/chat")
