"""The HTTP API, under /api: everything that the dashboard and the command line can do, for programs."""

from fastapi import FastAPI

from nexus.gateway.api import (
    approvals,
    automations,
    backfill,
    channels,
    executions,
    home,
    imports,
    memory,
    messages,
    recall,
    reminders,
    requests,
    sessions,
)

_ROUTERS = (
    *(messages.router, executions.router, sessions.router, requests.router, memory.router),
    *(recall.router, recall.reflections_router, approvals.router, automations.router, channels.router),
    *(reminders.router, imports.router, backfill.router, home.router, home.login_router),
)


def join(server: FastAPI) -> None:
    """Put the API under /api."""
    for router in _ROUTERS:
        server.router.routes.extend(router.routes)
