"""Requests: what was asked, what was done for it and what it cost."""

from typing import Annotated, Any, Self

from fastapi import Path, Query
from pydantic import BaseModel, Field

from nexus.gateway.dependencies import Cursor, Limit, ServedApp, api_router
from nexus.gateway.views import requests as views
from nexus.gateway.views.requests import RequestLine
from nexus.ledgers.events import ChangedAnswer
from nexus.ledgers.runtime.requests import Status
from nexus.ledgers.runtime.trace import Node
from nexus.memory.views.page import Page
from nexus.runs import Totals

router = api_router("requests", "/requests")


class Step(BaseModel):
    """Something that was done: a request, a run, an automation, a stage, a call of a model or a tool."""

    kind: str
    id: str
    name: str
    status: str
    started_at: str | None
    duration_ms: float | None = Field(description="Null while running.")
    error: str | None
    detail: dict[str, Any]
    usage: Totals = Field(description="Its own cost.")
    total: Totals = Field(description="Cost including everything below.")
    children: list["Step"]

    @classmethod
    def of(cls, node: Node) -> Self:
        return cls(
            kind=node.detail.get("kind", node.kind),
            id=node.id,
            name=node.name,
            status=node.status,
            started_at=node.started_at or None,
            duration_ms=node.duration_ms,
            error=node.error,
            detail={name: value for name, value in node.detail.items() if name != "kind"},
            usage=node.usage,
            total=node.total,
            children=[cls.of(child) for child in node.children],
        )


class Trace(BaseModel):
    """One request with everything that was done for it."""

    asked: str
    answered: str | None
    principal: str | None = Field(description="Who it acts for.")
    parent_request_id: str | None
    changes: list[ChangedAnswer] = Field(
        description="Answers that automations changed or withheld, with the originals."
    )
    trace: Step


@router.get("")
async def list_requests(
    app: ServedApp,
    status: Annotated[Status | None, Query(description="Filter by status.")] = None,
    channel: Annotated[str | None, Query(max_length=200, description="Filter by channel.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[RequestLine]:
    """List requests, newest first, with total cost."""
    return await views.load_page(app.ledgers, status=status, channel=channel, cursor=cursor, limit=limit)


@router.get("/{request_id}")
async def get_request(
    app: ServedApp,
    request_id: Annotated[
        str, Path(max_length=100, description="Id of the request, or of one of its events, runs or spans.")
    ],
) -> Trace:
    """Show a request, its answer and its trace."""
    found = await views.load_trace(app.ledgers, request_id)
    return Trace(
        asked=found.asked,
        answered=found.answered,
        principal=found.principal,
        parent_request_id=found.parent,
        changes=list(found.changes),
        trace=Step.of(found.node),
    )
