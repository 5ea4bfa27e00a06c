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
    login,
    memory,
    messages,
    recall,
    reflections,
    reminders,
    requests,
    sessions,
)

_ROOMS = (
    *(messages, executions, sessions, requests, memory, recall, reflections),
    *(approvals, automations, channels, reminders, imports, backfill, home, login),
)


def join(server: FastAPI) -> None:
    """Put the API under /api."""
    for room in _ROOMS:
        server.router.routes.extend(room.router.routes)
