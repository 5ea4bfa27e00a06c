"""Approvals in the runtime ledger: tool calls that wait for the owner, and what was decided.

An approval is about one exact call: its row holds the call's hash, and a call that differs gets a row of its
own. A call that was allowed for its session or always leaves a rule: its row, with the calls that it allows.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import apsw

from nexus import ids
from nexus.ledgers import sql
from nexus.ledgers.text import storable, storable_or_none

Status = Literal["waiting", "allowed", "denied", "withdrawn"]
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
    call_hash: str
    """Of the tool, its exact arguments and the state of the file that it would change."""
    reason: str
    """Why the owner is asked."""
    tainted_by: str | None
    """The text of somebody else that its run had read, where it is asked about for that."""
    preview: str
    """What the call would change in a file, as a diff."""
    status: Status
    scope: Scope | None
    pattern: str | None
    """The calls that are allowed from now on, where that is more than this one."""
    started_at: str | None
    """When the call was made after all: from then on it may have had an effect."""
    created_at: str
    level: str
    """The access of whoever the call is made for."""

    @property
    def may_become_rule(self) -> bool:
        """Whether more than this call can be allowed: not for guests, nor after reading others' text."""
        return self.level == "owner" and self.tainted_by is None


def hash_call(tool: str, arguments: Mapping[str, Any], state: str = "") -> str:
    """Return what tells one call from every other, and from the same call on another file."""
    exact = [tool, arguments, state] if state else [tool, arguments]
    return hashlib.sha256(json.dumps(exact, sort_keys=True).encode()).hexdigest()


def ask(
    connection: apsw.Connection,
    *,
    request_id: str,
    execution_id: str,
    call_key: str,
    tool: str,
    arguments: Mapping[str, Any],
    reason: str = "",
    tainted_by: str | None = None,
    preview: str = "",
    state: str = "",
) -> Approval:
    """Record that a call waits; the same call again finds what was decided.

    Another call in its place has nothing of that: the question about the first is withdrawn.
    """
    call_hash = hash_call(tool, arguments, state)
    values = {
        "id": ids.new("apr"),
        "request_id": request_id,
        "execution_id": execution_id,
        "call_key": call_key,
        "tool": tool,
        "arguments": _exact(arguments),
        "call_hash": call_hash,
        "reason": storable(reason),
        "tainted_by": storable_or_none(tainted_by),
        "preview": storable(preview),
    }
    connection.execute(sql.queries("runtime")["withdraw_approvals"], (execution_id, call_key, call_hash))
    connection.execute(sql.queries("runtime")["ask_approval"], values)
    return _all(connection, "approval_of_call", (execution_id, call_key, call_hash))[0]


def _exact(arguments: Mapping[str, Any]) -> str:
    """JSON that gives back the very same arguments, and that a search finds names in."""
    text = json.dumps(arguments, ensure_ascii=False)
    return text if storable(text) == text else json.dumps(arguments)


def is_unmade(connection: apsw.Connection, execution_id: str, call_key: str) -> bool:
    """Whether there is a question about a call of a run, and the call was never begun."""
    return bool(connection.execute(sql.queries("runtime")["is_unmade"], (execution_id, call_key)).get)


def get(connection: apsw.Connection, approval_id: str) -> Approval | None:
    """Return one approval."""
    found = _all(connection, "approval", (approval_id,))
    return found[0] if found else None


def list_waiting(connection: apsw.Connection, session_label: str | None = None) -> list[Approval]:
    """Return the calls that wait, the oldest first; of one session, or of all."""
    return _all(connection, "waiting_approvals", {"session_label": session_label})


def rules(connection: apsw.Connection, approval: Approval) -> list[str]:
    """Return the rules that may serve a call: those that the owner gave, and for their own calls only."""
    if not approval.may_become_rule:
        return []
    values = {"session_label": approval.session_label, "request_id": approval.request_id}
    return [row[0] for row in sql.rows(connection, sql.queries("runtime")["approval_rules"], values)]


def decide(
    connection: apsw.Connection, approval_id: str, *, scope: Scope | None, pattern: str | None = None
) -> bool:
    """Allow a call, or deny it where there is no scope.

    The first decision stands, and only while its run waits: False otherwise.
    """
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
    found = [sql.make(Approval, row) for row in rows]
    return [replace(each, arguments=json.loads(cast("str", each.arguments))) for each in found]
