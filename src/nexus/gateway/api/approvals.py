"""Approvals: tool calls that wait for the owner."""

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import BaseModel, Field

from nexus.broker.approvals import Decision
from nexus.broker.questions import NOT_A_BOUNDARY, code_of, describe_rule
from nexus.gateway.dependencies import ServedApp, api_router
from nexus.ledgers.runtime import approvals

router = api_router("approvals", "/approvals")
ApprovalId = Annotated[str, Path(description="Approval id, `apr_…`.")]


class Approval(BaseModel):
    """A tool call that waits, or that was decided."""

    id: str
    request_id: str
    execution_id: str
    session: str
    tool: str
    arguments: dict[str, Any]
    code: str = Field(description="What an answer on a channel calls it, such as `A48213`.")
    call_hash: str = Field(
        description="SHA-256 of the tool, its exact arguments and the file it would change."
    )
    reason: str = Field(description="Why you are asked.")
    tainted_by: str | None = Field(description="Text of somebody else that the run had read, if that is why.")
    preview: str = Field(description="What the call changes in a file, as a diff.")
    always: str | None = Field(
        description=f"What `always` would allow; null: only `once` and `deny` are possible. {NOT_A_BOUNDARY}"
    )
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
    call_hash: str = Field(
        max_length=64, description="The `call_hash` that you were shown: another call is not decided."
    )


@router.get("")
async def list_approvals(
    app: ServedApp,
    session: Annotated[str | None, Query(max_length=200, description="Only of this session.")] = None,
) -> Approvals:
    """List tool calls that wait for your approval."""
    found = await app.broker.approvals.waiting(session)
    return Approvals(approvals=[_describe(each) for each in found])


@router.post("/{approval_id}")
async def decide_approval(app: ServedApp, approval_id: ApprovalId, decided: Decided) -> Approval:
    """Allow or deny a tool call. The first decision counts."""
    return _describe(await app.broker.approvals.decide(approval_id, decided.decision, decided.call_hash))


def _describe(found: approvals.Approval) -> Approval:
    return Approval(
        id=found.id,
        request_id=found.request_id,
        execution_id=found.execution_id,
        session=found.session_label,
        tool=found.tool,
        arguments=dict(found.arguments),
        code=code_of(found),
        call_hash=found.call_hash,
        reason=found.reason,
        tainted_by=found.tainted_by,
        preview=found.preview,
        always=describe_rule(found) if found.may_become_rule else None,
        status=found.status,
        scope=found.scope,
        created_at=found.created_at,
    )
