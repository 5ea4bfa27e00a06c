"""Requests: what was asked, what was done for it and what it cost."""

from typing import Annotated, Any, Self

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from nexus.gateway.api.paging import Cursor, Limit
from nexus.gateway.dependencies import Home
from nexus.gateway.views import requests as views
from nexus.gateway.views.page import Page
from nexus.gateway.views.requests import RequestLine
from nexus.ledgers.runtime.requests import Status
from nexus.ledgers.runtime.trace import Node
from nexus.runs import Totals

router = APIRouter(prefix="/requests", tags=["requests"])


class Step(BaseModel):
    """Something that was done: a request, a run, an automation, a stage, a call of a model or a tool."""

    kind: str
    id: str
    name: str
    status: str
    started_at: str | None
    duration_ms: float | None = Field(description="Null while it is under way.")
    error: str | None
    detail: dict[str, Any]
    usage: Totals = Field(description="What it cost itself.")
    total: Totals = Field(description="What it and everything below it cost.")
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
    principal: str | None = Field(description="On whose behalf.")
    parent_request_id: str | None
    trace: Step


@router.get("")
async def list_requests(
    home: Home,
    status: Annotated[Status | None, Query(description="Only those that stand like this.")] = None,
    channel: Annotated[str | None, Query(max_length=200, description="Only those of a channel.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[RequestLine]:
    """Requests of people and channels, the newest first, each with what it and its workers cost."""
    return await views.listed(home.ledgers, status=status, channel=channel, cursor=cursor, limit=limit)


@router.get("/{request_id}")
async def get_request(
    home: Home,
    request_id: Annotated[
        str, Path(max_length=100, description="Its id, or that of an event, run or span of it.")
    ],
) -> Trace:
    """One request: what was asked and answered, and the trace of everything that was done for it."""
    found = await views.trace(home.ledgers, request_id)
    return Trace(
        asked=found.asked,
        answered=found.answered,
        principal=found.principal,
        parent_request_id=found.parent,
        trace=Step.of(found.node),
    )
