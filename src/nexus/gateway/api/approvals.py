"""Approvals: tool calls that wait for the owner."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from nexus.broker.approvals import Decision, subject, suggested
from nexus.gateway.dependencies import Home
from nexus.ledgers.runtime import approvals

router = APIRouter(prefix="/approvals", tags=["approvals"])
ApprovalId = Annotated[str, Path(description="Approval id, `apr_…`.")]


class Approval(BaseModel):
    """A tool call that waits, or that was decided."""

    id: str
    request_id: str
    execution_id: str
    session: str
    tool: str
    arguments: dict[str, Any]
    subject: str = Field(description="Command, path or URL, or all arguments.")
    always: str = Field(description="What `always` would allow.")
    status: approvals.Status
    scope: approvals.Scope | None
    created_at: str


class Approvals(BaseModel):
    """Calls that wait, oldest first."""

    approvals: list[Approval]


class Decided(BaseModel):
    """A decision."""

    decision: Decision = Field(
        description="`once`, `session`: the tool in this session, `always`: calls like this one, or `deny`."
    )


@router.get("")
async def list_approvals(
    home: Home,
    session: Annotated[str | None, Query(max_length=200, description="Only of this session.")] = None,
) -> Approvals:
    """List tool calls that wait for your approval."""
    found = await home.broker.approvals.waiting(session)
    return Approvals(approvals=[_shown(each) for each in found])


@router.post("/{approval_id}")
async def decide_approval(home: Home, approval_id: ApprovalId, decided: Decided) -> Approval:
    """Allow or deny a tool call. The first decision counts."""
    return _shown(await home.broker.approvals.decide(approval_id, decided.decision))


def _shown(found: approvals.Approval) -> Approval:
    return Approval(
        id=found.id,
        request_id=found.request_id,
        execution_id=found.execution_id,
        session=found.session_label,
        tool=found.tool,
        arguments=dict(found.arguments),
        subject=subject(found.arguments),
        always=suggested(found.tool, found.arguments),
        status=found.status,
        scope=found.scope,
        created_at=found.created_at,
    )
