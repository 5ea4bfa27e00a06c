"""The HTTP API, under /api: everything that the dashboard and the command line can do, for programs."""

from contextlib import AsyncExitStack

from fastapi import APIRouter, FastAPI

from nexus.app import App
from nexus.gateway.api import executions, login, messages, sessions
from nexus.gateway.errors import RESPONSES

_ROUTERS = (messages.router, executions.router, sessions.router, login.router)


async def join(server: FastAPI, app: App, stack: AsyncExitStack) -> None:
    """Put the API under /api."""
    api = APIRouter(prefix="/api", responses=RESPONSES)
    for router in _ROUTERS:
        api.include_router(router)
    server.include_router(api)
