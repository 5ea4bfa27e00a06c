"""Executions in the runtime ledger: what was asked of a session, and what came of it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import apsw

from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.ledgers.runtime import reservations
from nexus.ledgers.text import storable, storable_or_none

Mode = Literal["followup", "collect", "steer", "interrupt"]
Status = Literal["queued", "running", "done", "failed", "timeout", "cancelled"]
FINAL: frozenset[Status] = frozenset({"done", "failed", "timeout", "cancelled"})


@dataclass(frozen=True, kw_only=True, slots=True)
class NewExecution:
    """A run that is asked for."""

    id: str
    request_id: str
    session_label: str
    lane: str
    work: str
    mode: Mode
    input: Any
    timeout_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """A run."""

    id: str
    request_id: str
    session_label: str
    lane: str
    work: str
    mode: Mode
    input: Any
    taken_by: str | None
    status: Status
    result: Any
    error: str | None
    enqueued_at: str
    started_at: str | None
    ended_at: str | None
    timeout_ms: int | None
    waiting_since: str | None
    """Since when no provider answers it."""
    waiting_for: str | None
    "Last provider error."


def enqueue(connection: apsw.Connection, execution: NewExecution) -> Execution:
    """Record a run before it is promised. One whose id is known already is left as it is."""
    queries = sql.queries("runtime")
    connection.execute(
        queries["enqueue_execution"],
        {
            "id": execution.id,
            "request_id": execution.request_id,
            "session_label": execution.session_label,
            "lane": execution.lane,
            "work": execution.work,
            "mode": execution.mode,
            # Escaped, so that text that UTF-8 cannot carry is stored all the same.
            "input": json.dumps(execution.input),
            "timeout_ms": execution.timeout_ms,
        },
    )
    recorded = get(connection, execution.id)
    if recorded is None:
        raise UsageError(f"There is no request {execution.request_id} that a run could belong to")
    if _identity(recorded) != _identity(execution):
        raise UsageError(f"The id {execution.id} names another run, of the session {recorded.session_label}")
    return recorded


def get(connection: apsw.Connection, execution_id: str) -> Execution | None:
    """Return one run, whole."""
    row = connection.execute(sql.queries("runtime")["execution"], (execution_id,)).fetchone()
    return None if row is None else _execution(row)


def of_request(connection: apsw.Connection, request_id: str, session_label: str) -> list[Execution]:
    """Return the runs that a request had in a session, in the order in which they were asked for."""
    values = {"request_id": request_id, "session_label": session_label}
    rows = connection.execute(sql.queries("runtime")["executions_of_request"], values)
    return [_execution(row) for row in rows]


def count_begun_below(connection: apsw.Connection, label: str, since: str) -> int:
    """Count how many were asked for since a time in sessions whose labels begin like that."""
    found = connection.execute(sql.queries("runtime")["executions_below"], {"label": label, "since": since})
    return cast("int", found.get)


def begin(connection: apsw.Connection, execution_id: str) -> Execution | None:
    """Mark a run as running; one that has ended stays as it is. None where it was forgotten."""
    connection.execute(sql.queries("runtime")["begin_execution"], (execution_id,))
    reservations.bill_abandoned(connection, execution_id)
    return get(connection, execution_id)


def end(
    connection: apsw.Connection,
    execution_id: str,
    status: Status,
    *,
    result: Any = None,
    error: str | None = None,
) -> bool:
    """Record how a run ended, and with it the requests that it answered.

    The first end stands; False where it had one already.
    """
    queries = sql.queries("runtime")
    text = storable_or_none(error)
    connection.execute(
        queries["end_execution"],
        {"id": execution_id, "status": status, "result": json.dumps(result), "error": text},
    )
    ended = connection.changes() > 0
    if ended:
        drop_steps(connection, execution_id)
        reservations.bill_abandoned(connection, execution_id)
    if ended and status in {"failed", "timeout"}:
        # What it had taken on was not answered: those runs answer for themselves.
        connection.execute(queries["release_taken"], (execution_id,))
    if ended:
        connection.execute(queries["end_dispatch_of_run"], {"run": execution_id, "status": status})
        _end_requests(connection, execution_id, status, text)
    return ended


def _end_requests(connection: apsw.Connection, execution_id: str, status: Status, error: str | None) -> None:
    values = {
        "run": execution_id,
        "status": "failed" if status == "timeout" else status,
        "error": error or (None if status == "done" else f"Its run ended as {status}."),
    }
    queries = sql.queries("runtime")
    connection.execute(queries["end_requests_of_run"], values)
    connection.execute(queries["end_requests_heard_by_run"], values)


def prepare(connection: apsw.Connection, execution_id: str, context: Any) -> None:
    """Record the context of a run as it is now: that is what it goes on with, also after a crash."""
    values = {"id": execution_id, "context": json.dumps(context)}
    connection.execute(sql.queries("runtime")["prepare_execution"], values)


def take(connection: apsw.Connection, taker: Execution, mode: Mode) -> list[str]:
    """Let a run answer for those of a mode that wait behind it: their ids, in order.

    Only what acts for the same principal with the same access may join: the run goes on with its own rights.
    Taking again gives the same and what has come since, so a run that is resumed loses none.
    """
    queries = sql.queries("runtime")
    connection.execute(
        queries["take_waiting"], {"taker": taker.id, "session_label": taker.session_label, "mode": mode}
    )
    return list_taken(connection, taker, mode)


def list_taken(connection: apsw.Connection, taker: Execution, mode: Mode) -> list[str]:
    """Return the runs of a mode that a run has taken, in order."""
    rows = connection.execute(sql.queries("runtime")["taken"], (taker.id, mode))
    return [cast("str", row[0]) for row in rows]


def list_interrupted_by(connection: apsw.Connection, execution_id: str) -> list[str]:
    """Return the unfinished runs of a session that a later one may stop, in order."""
    rows = connection.execute(sql.queries("runtime")["interrupted_by"], (execution_id,))
    return [cast("str", row[0]) for row in rows]


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """A message that a run answered."""

    event_id: str
    trust: str
    """The access level of its sender."""


def load_said_to(connection: apsw.Connection, execution_ids: Sequence[str]) -> dict[str, list[Said]]:
    """Return the messages that some runs answered, those that they took included, in order."""
    found: dict[str, list[Said]] = {}
    given = {"ids": json.dumps(list(execution_ids))}
    for run, event_id, trust in cast(
        "Any", connection.execute(sql.queries("runtime")["said_to_runs"], given)
    ):
        found.setdefault(run, []).append(Said(event_id=event_id, trust=trust))
    return found


def list_begun_in(
    connection: apsw.Connection, session_label: str, after: str, *, with_cancelled: bool = False
) -> list[str]:
    """Return the runs of a session after another one, without those cancelled or answered by others."""
    values = {"session_label": session_label, "after": after, "with_cancelled": with_cancelled}
    rows = connection.execute(sql.queries("runtime")["begun_in_session"], values)
    return [cast("str", row[0]) for row in rows]


def newest_in(connection: apsw.Connection, session_label: str) -> str | None:
    """Return the run of a session that was asked for last."""
    return cast(
        "str | None", connection.execute(sql.queries("runtime")["newest_in_session"], (session_label,)).get
    )


def wait_for_provider(connection: apsw.Connection, execution_id: str, reason: str) -> str | None:
    """Record that a run waits until a provider answers; returns since when."""
    values = {"id": execution_id, "reason": storable(reason)}
    connection.execute(sql.queries("runtime")["wait_for_provider"], values)
    found = get(connection, execution_id)
    return found and found.waiting_since


def provider_answers(connection: apsw.Connection, execution_id: str) -> None:
    """Record that a run goes on."""
    connection.execute(sql.queries("runtime")["provider_answers"], (execution_id,))


def predecessor(connection: apsw.Connection, execution_id: str) -> str | None:
    """Return the run of the same session that comes just before another and has not ended."""
    found = connection.execute(sql.queries("runtime")["predecessor"], {"id": execution_id}).get
    return cast("str | None", found)


def withdraw(connection: apsw.Connection, execution_id: str) -> None:
    """Take back a run that was refused: it has not begun, and must never run."""
    connection.execute(sql.queries("runtime")["withdraw_execution"], (execution_id,))


def list_unfinished(connection: apsw.Connection) -> list[str]:
    """Return every run that has not ended, in the order in which they were recorded."""
    return [cast("str", row[0]) for row in connection.execute(sql.queries("runtime")["unfinished"])]


def list_unfinished_in(connection: apsw.Connection, session_label: str) -> list[str]:
    """Return the runs of a session that have not ended, in order."""
    rows = connection.execute(sql.queries("runtime")["unfinished_in_session"], (session_label,))
    return [cast("str", row[0]) for row in rows]


def list_unfinished_below(connection: apsw.Connection, label: str) -> list[str]:
    """Return the runs that have not ended of all sessions whose labels begin like that, in order."""
    rows = connection.execute(sql.queries("runtime")["unfinished_below"], {"label": label})
    return [cast("str", row[0]) for row in rows]


def find_known(connection: apsw.Connection, execution_ids: Sequence[str]) -> set[str]:
    """Return those of these runs that are recorded."""
    rows = connection.execute(sql.queries("runtime")["known_executions"], (json.dumps(list(execution_ids)),))
    return {cast("str", row[0]) for row in rows}


def _identity(execution: NewExecution | Execution) -> tuple[str, str, str]:
    return execution.request_id, execution.session_label, execution.work


def is_first(connection: apsw.Connection, execution: Execution) -> bool:
    """Whether no other run of its session has begun before."""
    values = {"session_label": execution.session_label, "id": execution.id}
    return connection.execute(sql.queries("runtime")["earlier_execution_in"], values).get is None


def _execution(row: Any) -> Execution:
    values: dict[str, Any] = dict(zip(Execution.__slots__, row, strict=True))
    return Execution(**{**values, "input": _value(values["input"]), "result": _value(values["result"])})


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A part of a run that is done."""

    execution_id: str
    name: str
    number: int
    """Of those of its name: 0, 1, 2, … in the order in which they are begun."""
    failed: bool
    outcome: str
    """What it gave, or how it failed, as the broker writes it."""


def record_step(connection: apsw.Connection, step: Step) -> Step:
    """Record a step of a run that has not ended; returns the one that stands, which is the first."""
    queries = sql.queries("runtime")
    connection.execute(
        queries["record_step"],
        (step.execution_id, step.name, step.number, int(step.failed), storable(step.outcome)),
    )
    if connection.changes():
        return step
    recorded = find_steps(connection, step.execution_id)
    return next((each for each in recorded if (each.name, each.number) == (step.name, step.number)), step)


def find_steps(connection: apsw.Connection, execution_id: str) -> list[Step]:
    """Return every recorded step of a run, in order."""
    rows = connection.execute(sql.queries("runtime")["steps"], (execution_id,))
    return [
        Step(execution_id=execution_id, name=name, number=number, failed=bool(failed), outcome=outcome)
        for name, number, failed, outcome in cast("list[tuple[str, int, int, str]]", rows)
    ]


def drop_steps(connection: apsw.Connection, execution_id: str) -> None:
    """Remove the steps of a run that has ended: nothing repeats it any more."""
    connection.execute(sql.queries("runtime")["drop_steps"], (execution_id,))
