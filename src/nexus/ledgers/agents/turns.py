"""Turns in the agents ledger: opened when a run begins, ended once. The run's id is the key of its turn."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import apsw

from nexus import ids
from nexus.ledgers import sql
from nexus.ledgers.agents import sessions
from nexus.ledgers.text import storable_or_none

Kind = Literal["exchange", "summary"]
End = Literal["done", "failed", "cancelled"]


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTurn:
    """A turn that messages and tool calls can be added to."""

    id: str
    session_id: str
    position: int
    first_position: int
    """Where its first message stands, or will stand: what lies before is its history."""


def begin(
    connection: apsw.Connection,
    *,
    session_label: str,
    execution_id: str,
    request_id: str,
    role: str,
    model: str | None = None,
    thread_id: str | None = None,
    fork_of: str | None = None,
    fork_through: str | None = None,
    replaces: str | None = None,
) -> OpenTurn:
    """Open the turn of a run, in its session, which is made if it is new (see `sessions.ensure`).

    A run that is resumed finds the turn that it opened. With `replaces`, the turn of that run
    and those after it are no part of the history any more; they stay in the ledger.
    """
    session = sessions.ensure(
        connection,
        session_label,
        role=role,
        model=model,
        thread_id=thread_id,
        fork_of=fork_of,
        fork_through=fork_through,
    )
    return _begin(connection, session.id, execution_id, request_id, "exchange", replaces=replaces)


def begin_summary(
    connection: apsw.Connection,
    *,
    session_label: str,
    execution_id: str,
    request_id: str,
    role: str,
    summarises_through: int,
) -> OpenTurn:
    """Open the turn in which a run sums its session up, before its own turn.

    Once it has ended as done, its messages stand in the history for every turn up to the position
    `summarises_through`; the turns after that follow it. Nothing is removed.
    """
    session = sessions.ensure(connection, session_label, role=role)
    return _begin(
        connection, session.id, execution_id, request_id, "summary", summarises_through=summarises_through
    )


def stands(connection: apsw.Connection, execution_id: str) -> bool | None:
    """Whether the turn of a run is part of its session's history; None if it has no turn."""
    found = connection.execute(sql.queries("agents")["turn_stands"], (execution_id,)).get
    return None if found is None else bool(found)


def start_over(
    connection: apsw.Connection, session_label: str, request_id: str, thread_id: str | None = None
) -> None:
    """Restart the history of a session: later turns don't see those of earlier requests. Nothing is removed.

    A request that still waits for its turn is an earlier one too. It may be the first of its session.
    """
    session = sessions.ensure(connection, session_label, role="manager", thread_id=thread_id)
    queries = sql.queries("agents")
    position = connection.execute(queries["next_turn_position"], {"session_id": session.id}).get
    values = {
        "id": ids.new("trn"),
        "session_id": session.id,
        "position": position,
        "request_id": request_id,
    }
    connection.execute(queries["start_over"], values)


def find(connection: apsw.Connection, execution_id: str, kind: Kind = "exchange") -> OpenTurn | None:
    """Return the turn of a kind that a run has opened, if it has."""
    queries = sql.queries("agents")
    known = connection.execute(queries["turn_of_execution"], (execution_id, kind)).fetchone()
    if known is None:
        return None
    id_, of_session, position, first = cast("tuple[str, str, int, int | None]", known)
    if first is None:
        first = cast("int", connection.execute(queries["next_position"], (of_session,)).get)
    return OpenTurn(id=id_, session_id=of_session, position=position, first_position=first)


def failed_summaries(connection: apsw.Connection, turn: OpenTurn) -> int:
    """Count how many tries to sum a session up failed in a row before this one."""
    found = connection.execute(
        sql.queries("agents")["failed_summaries"], {"session_id": turn.session_id, "position": turn.position}
    )
    return cast("int", found.get)


def through(
    connection: apsw.Connection, session_label: str, execution_id: str, *, limit: int
) -> list[tuple[str, str]]:
    """Return the exchanges that ended well, up to that of a run: runs and requests, the newest first."""
    values = {"label": session_label, "through": execution_id, "limit": limit}
    rows = connection.execute(sql.queries("agents")["turns_through"], values).fetchall()
    return cast("list[tuple[str, str]]", rows)


def of_requests(
    connection: apsw.Connection, session_label: str, request_ids: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the exchanges of some requests that ended well: their runs and requests, in order."""
    values = (session_label, json.dumps(list(request_ids)))
    rows = connection.execute(sql.queries("agents")["turns_of_requests"], values).fetchall()
    return cast("list[tuple[str, str]]", rows)


def end(connection: apsw.Connection, turn_id: str, status: End, *, error: str | None = None) -> bool:
    """Record how a turn ended, and that calls still under way did not. False: already finished."""
    queries = sql.queries("agents")
    connection.execute(
        queries["end_turn"],
        {"id": turn_id, "status": status, "error": storable_or_none(error)},
    )
    ended = connection.changes() > 0
    if ended:
        connection.execute(queries["end_calls_of_turn"], (turn_id,))
    return ended


def of_run(connection: apsw.Connection, execution_id: str) -> dict[Kind, int | None]:
    """Return the kinds of the turns that a run has opened, and up to which position a summary sums up."""
    rows = connection.execute(sql.queries("agents")["turns_of_run"], (execution_id,))
    return dict(cast("list[tuple[Kind, int | None]]", rows.fetchall()))


def end_of_run(connection: apsw.Connection, execution_id: str, status: End, error: str | None) -> None:
    """End what a run that is over left open."""
    queries = sql.queries("agents")
    for (id_,) in connection.execute(queries["open_turns_of_run"], (execution_id,)).fetchall():
        end(connection, cast("str", id_), status, error=error)


def _begin(
    connection: apsw.Connection,
    session_id: str,
    execution_id: str,
    request_id: str,
    kind: Kind,
    *,
    summarises_through: int | None = None,
    replaces: str | None = None,
) -> OpenTurn:
    queries = sql.queries("agents")
    known = find(connection, execution_id, kind)
    if known is None:
        connection.execute(
            queries["open_turn"],
            {
                "id": ids.new("trn"),
                "session_id": session_id,
                "position": connection.execute(queries["next_turn_position"], {"session_id": session_id}).get,
                "kind": kind,
                "request_id": request_id,
                "execution_id": execution_id,
                "summarises_through": summarises_through,
                "replaces": replaces,
            },
        )
        connection.execute(queries["touch_session"], (session_id,))
        known = find(connection, execution_id, kind)
        assert known is not None  # noqa: S101 - an invariant, for the reader and the type checker
    return known
