"""Requests as JSON: what an async invocation keeps until its turn comes, and what a script is handed."""

from dataclasses import asdict
from typing import Any

from nexus.request import Access, Agent, Event, Grant, Request, Stage


def request_to_json(request: Request) -> dict[str, Any]:
    """The whole request, rights and enrichment included."""
    tools = request.access.tools
    access = {**asdict(request.access), "tools": None if tools is None else sorted(tools)}
    return {**asdict(request), "access": access}


def request_from_json(value: dict[str, Any]) -> Request:
    """The request again. Whatever is not said about its rights is not allowed."""
    access: dict[str, Any] = dict(value["access"])
    access["tools"] = None if access["tools"] is None else frozenset(access["tools"])
    access["sessions"] = tuple(access["sessions"])
    access["directories"] = tuple(Grant(**grant) for grant in access["directories"])
    fields: dict[str, Any] = {
        **value,
        "event": Event(**value["event"]),
        "agent": Agent(**value["agent"]),
        "access": Access(**access),
        "trace": [Stage(**stage) for stage in value["trace"]],
    }
    return Request(**fields)
