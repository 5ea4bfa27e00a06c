"""The dashboard: pages that are made here and work with next to no script in the browser."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from nexus.app import App
from nexus.errors import MissingError
from nexus.gateway.dashboard.pages import (
    automations,
    backfill,
    channels,
    chat,
    editor,
    entities,
    facts,
    imports,
    mcp_servers,
    memory,
    notifications,
    overview,
    people,
    reminders,
    requests,
    search,
    sessions,
    settings,
    setup,
)
from nexus.gateway.dashboard.render import MOST_AT_ONCE, get, page
from nexus.gateway.errors import OPENAI

_STATIC = Path(__file__).parent / "static"


class _Files(StaticFiles):
    """The few files of the dashboard. Their address changes with the program's version."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "private, max-age=86400"
        return response


def join(server: Starlette) -> None:
    """Add the dashboard to the gateway."""
    server.state.making = asyncio.Semaphore(MOST_AT_ONCE)
    server.router.routes.extend(routes())
    server.add_exception_handler(
        HTTPException, partial(_show_missing, otherwise=server.exception_handlers[HTTPException])
    )


def routes() -> list[BaseRoute]:
    """The pages. They find the home of a request by `dependencies.served_by`."""
    return [
        get("/favicon.ico", _show_icon),
        *overview.ROUTES,
        *search.ROUTES,
        *chat.ROUTES,
        *requests.ROUTES,
        *memory.ROUTES,
        *facts.ROUTES,
        *entities.ROUTES,
        *reminders.ROUTES,
        *imports.ROUTES,
        *backfill.ROUTES,
        *editor.ROUTES,
        *automations.ROUTES,
        *sessions.ROUTES,
        *channels.ROUTES,
        *people.ROUTES,
        *mcp_servers.ROUTES,
        *notifications.ROUTES,
        *settings.ROUTES,
        *setup.ROUTES,
        Mount("/static", _Files(directory=_STATIC), name="static"),
    ]


async def _show_missing(request: Request, error: Exception, otherwise: Any) -> Response:
    """Show a page for a person whose browser asks for what is not there; programs are told as ever."""
    told = cast("HTTPException", error)
    asks = "text/html" in request.headers.get("accept", "")
    if not asks or request.url.path.startswith(("/api/", OPENAI)) or request.url.path == "/mcp":
        return await otherwise(request, error)
    lost = MissingError("Page not found", hint="Use the menu to find a page.")
    return await page(request, "error.html", told.status_code, error=lost, active=None)


async def _show_icon(request: Request, app: App) -> Response:
    """Show the icon to pages that name none, such as the login."""
    return FileResponse(_STATIC / "icon.svg")
