"""The HTTP API, under /api: everything that the dashboard and the command line can do, for programs."""

from fastapi import APIRouter, Depends, FastAPI
from fastapi.security import HTTPBearer

from nexus.gateway.api import (
    approvals,
    automations,
    backfill,
    channels,
    executions,
    home,
    imports,
    login,
    memory,
    messages,
    recall,
    reminders,
    requests,
    sessions,
)
from nexus.gateway.errors import RESPONSES

_ROUTERS = tuple(
    room.router
    for room in (
        *(messages, executions, sessions, requests, memory, recall),
        *(approvals, automations, channels, reminders, imports, backfill, home, login),
    )
)
# It only tells the document how to get in: the guard has let nobody through without.
_TOKEN = HTTPBearer(scheme_name="token", description="What `nexus login --token` prints.", auto_error=False)


def routes() -> APIRouter:
    """Everything under /api."""
    api = APIRouter(prefix="/api", responses=RESPONSES, dependencies=[Depends(_TOKEN)])
    for router in _ROUTERS:
        api.include_router(router)
    return api


def join(server: FastAPI) -> None:
    """Put the API under /api."""
    server.include_router(routes())
