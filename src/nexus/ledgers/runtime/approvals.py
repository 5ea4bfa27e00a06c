"""Approvals in the runtime ledger: tool calls that wait for the owner, and what was decided.

A call that was allowed for its session or always leaves a rule: its row, with the pattern that it allows.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import apsw

from nexus import ids
from nexus.ledgers import sql
from nexus.ledgers.text import storable

Status = Literal["waiting", "allowed", "denied"]
Scope = Literal["once", "session", "always"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    """A call that waits or waited for the owner."""

    id: str
    request_id: str
    execution_id: str
    call_key: str
    session_label: str
    """The session of the message at the root: where the owner is asked."""
    tool: str
    arguments: Mapping[str, Any]
    status: Status
    scope: Scope | None
    pattern: str | None
    """The calls that are allowed from now on, where that is more than this one."""
    started_at: str | None
    """When the call was made after all: from then on it may have had an effect."""
    created_at: str


def ask(
    connection: apsw.Connection,
    *,
    request_id: str,
    execution_id: str,
    call_key: str,
    tool: str,
    arguments: Mapping[str, Any],
) -> Approval:
    """Record that a call waits; the same call again finds what was decided."""
    values = {
        "id": ids.new("apr"),
        "request_id": request_id,
        "execution_id": execution_id,
        "call_key": call_key,
        "tool": tool,
        "arguments": storable(json.dumps(arguments, ensure_ascii=False)),
    }
    connection.execute(sql.queries("runtime")["ask_approval"], values)
    found = _all(connection, "approval_of_call", (execution_id, call_key))
    return found[0]


def get(connection: apsw.Connection, approval_id: str) -> Approval | None:
    """One approval."""
    found = _all(connection, "approval", (approval_id,))
    return found[0] if found else None


def waiting(connection: apsw.Connection, session_label: str | None = None) -> list[Approval]:
    """The calls that wait, the oldest first; of one session, or of all."""
    return _all(connection, "waiting_approvals", {"session_label": session_label})


def rules(connection: apsw.Connection, session_label: str) -> list[str]:
    """The patterns of calls that were allowed for a session, or always."""
    return [
        row[0] for row in sql.rows(connection, sql.queries("runtime")["approval_rules"], (session_label,))
    ]


def decide(
    connection: apsw.Connection, approval_id: str, *, scope: Scope | None, pattern: str | None = None
) -> bool:
    """Allow a call, or deny it where there is no scope. The first decision stands: False for a later one."""
    values = {
        "id": approval_id,
        "status": "denied" if scope is None else "allowed",
        "scope": scope,
        "pattern": pattern,
    }
    connection.execute(sql.queries("runtime")["decide_approval"], values)
    return connection.changes() > 0


def start(connection: apsw.Connection, approval_id: str) -> bool:
    """Record that a call that was allowed is about to be made; False where it was made before."""
    connection.execute(sql.queries("runtime")["start_approved"], (approval_id,))
    return connection.changes() > 0


def _all(connection: apsw.Connection, query: str, values: Any) -> list[Approval]:
    rows = sql.rows(connection, sql.queries("runtime")[query], values)
    return [_approval(dict(zip(Approval.__slots__, row, strict=True))) for row in rows]


def _approval(values: dict[str, Any]) -> Approval:
    return Approval(**{**values, "arguments": json.loads(values["arguments"])})
