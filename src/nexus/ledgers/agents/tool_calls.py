"""Tool calls in the agents ledger: recorded before the tool runs, so that a crash leaves a trace of it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import apsw

from nexus import ids
from nexus.ledgers import sql
from nexus.ledgers.agents.turns import OpenTurn
from nexus.ledgers.text import storable, storable_or_none

_RECENT_CALLS = 2_000

Status = Literal["running", "done", "failed", "cancelled"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A call as it stood when it was begun."""

    id: str
    is_new: bool
    """False where an earlier attempt of the run had begun it already."""
    status: Status
    result: str | None
    error: str | None

    @property
    def is_interrupted(self) -> bool:
        """An earlier attempt began it and died before recording the result: it may have taken effect."""
        return self.status == "running" and not self.is_new


def begin(
    connection: apsw.Connection,
    turn: OpenTurn,
    *,
    offset: int,
    call_id: str,
    tool_name: str,
    arguments_json: str,
) -> ToolCall:
    """Record that a tool is about to run for the `offset`-th message of a turn.

    Begun again, it tells what became of it: a result that was recorded is not to be made twice.
    """
    queries = sql.queries("agents")
    position = turn.first_position + offset
    connection.execute(
        queries["begin_call"],
        {
            "id": ids.new("tcl"),
            "session_id": turn.session_id,
            "turn_id": turn.id,
            "position": position,
            "call_id": call_id,
            "tool_name": tool_name,
            "arguments": storable(arguments_json),
        },
    )
    is_new = connection.changes() > 0
    found = connection.execute(queries["call"], (turn.id, position, call_id)).fetchone()
    id_, status, result, error = cast("tuple[str, Status, str | None, str | None]", found)
    return ToolCall(id=id_, is_new=is_new, status=status, result=result, error=error)


def have_shown(connection: apsw.Connection, tools: Sequence[str], text: str) -> bool:
    """Whether a text was in what one of these tools gave lately."""
    values = {"tools": json.dumps(list(tools)), "text": text, "calls": _RECENT_CALLS}
    return bool(connection.execute(sql.queries("agents")["recent_result_contains"], values).get)


def end(
    connection: apsw.Connection,
    tool_call_id: str,
    status: Literal["done", "failed", "cancelled"],
    *,
    result: str | None = None,
    error: str | None = None,
) -> bool:
    """Record what a tool gave. The first end stands; False where it had one already."""
    connection.execute(
        sql.queries("agents")["end_call"],
        {
            "id": tool_call_id,
            "status": status,
            "result": storable_or_none(result),
            "error": storable_or_none(error),
        },
    )
    return connection.changes() > 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOutput:
    """What a tool gave to an agent."""

    tool: str
    arguments: str
    result: str


def results(connection: apsw.Connection, request_ids: Sequence[str], *, limit: int) -> list[ToolOutput]:
    """Return what tools gave to the agents that worked for some requests, the newest first."""
    values = {"requests": json.dumps(list(request_ids)), "limit": limit}
    rows = connection.execute(sql.queries("agents")["results_for_requests"], values)
    return [
        ToolOutput(tool=tool, arguments=arguments, result=result)
        for tool, arguments, result in cast("Any", rows)
    ]


def results_of(connection: apsw.Connection, request_id: str, tool: str) -> list[str]:
    """Return what a tool gave to the agents of a request, in the order of the calls."""
    values = {"request_id": request_id, "tool": tool}
    rows = connection.execute(sql.queries("agents")["results_of_tool"], values)
    return [str(row[0]) for row in rows]


def list_done(connection: apsw.Connection, turn: OpenTurn) -> list[tuple[int, str]]:
    """Return the calls of a turn that gave a result: each by the offset of its message, and its id."""
    rows = connection.execute(sql.queries("agents")["done_calls"], (turn.id,))
    return [(position - turn.first_position, call_id) for position, call_id in cast("Any", rows)]


def results_in(connection: apsw.Connection, session_label: str, tools: Sequence[str]) -> list[str]:
    """Return what some tools gave in a session, in the order of the calls; failed ones are left out."""
    given = (session_label, json.dumps(list(tools)))
    rows = connection.execute(sql.queries("agents")["results_in_session"], given)
    return [str(row[0]) for row in rows]
