"""Executions as people and programs read them: what waits, what runs where, what ended and how."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nexus.engine import serializer, store
from nexus.engine.database import Database, moment
from nexus.engine.states import State

GAVE_UP = "The process crashed each time it ran this"
_TOGETHER = 500


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One execution, as it stands."""

    id: str
    work: str
    lane: str
    key: str
    state: State
    executor_id: str | None
    version: str | None
    starts: int
    """How often it was started; more than once after a takeover."""
    enqueued_at: str
    started_at: str | None
    ended_at: str | None
    result: Any
    error: str | None
    trace: str | None


def get(database: Database, execution_id: str) -> Execution | None:
    """One execution, whole."""
    row = store.get(database, execution_id)
    return None if row is None else _execution(row)


def states(database: Database, execution_ids: Sequence[str]) -> dict[str, State]:
    """The states of those of some executions that are recorded. A failure may be a time-out: see `get`."""
    found: dict[str, State] = {}
    for first in range(0, len(execution_ids), _TOGETHER):
        found |= store.states(database, execution_ids[first : first + _TOGETHER])
    return found


def recent(
    database: Database,
    *,
    state: State | None = None,
    lane: str | None = None,
    key: str | None = None,
    limit: int = 50,
) -> list[Execution]:
    """Executions, the newest first."""
    return [_execution(row) for row in store.recent(database, state=state, lane=lane, key=key, limit=limit)]


def steps(database: Database, execution_id: str) -> list[dict[str, Any]]:
    """The recorded steps of one execution, in order."""
    return [
        {
            "number": row.number,
            "name": row.name,
            "failed": bool(row.failed),
            "started_at": _moment(row.started_ms),
            "ended_at": _moment(row.ended_ms),
        }
        for row in store.steps(database, execution_id)
    ]


def queues(database: Database) -> list[dict[str, Any]]:
    """For each lane: what waits, what runs, over how many keys, and since when the oldest waits."""
    lanes: dict[str, dict[str, Any]] = {}
    for row in store.queues(database):
        empty = {"queued": 0, "waiting_keys": 0, "delayed": 0, "running": 0, "oldest_waits_since": None}
        entry = lanes.setdefault(row.lane, {"lane": row.lane, **empty})
        entry[row.state] = row[2]
        if row.state == "queued":
            entry["waiting_keys"] = row[3]
            entry["oldest_waits_since"] = _moment(row.oldest_ms)
    return [lanes[name] for name in sorted(lanes)]


def _execution(row: store.Row) -> Execution:
    outcome: dict[str, Any] = serializer.loads(row.output) if row.output else {}
    state, end = row.state, _end(row.error)
    if end is not None:
        state = end.kind
        outcome = {"started_ms": end.started_ms, "ended_ms": end.ended_ms}
    gave_up = GAVE_UP if row.was_given_up else None
    return Execution(
        id=row.id,
        work=row.work or "",
        lane=row.lane or "",
        key=row.key or "",
        state=state,
        executor_id=row.executor_id,
        version=row.version,
        starts=row.starts or 0,
        enqueued_at=_moment(row.created_ms) or "",
        started_at=_moment(outcome.get("started_ms") or row.started_ms),
        ended_at=_moment(outcome.get("ended_ms") or row.ended_ms),
        result=outcome.get("value"),
        error=gave_up if end is None else f"{end.type}: {end.message}".removeprefix(": "),
        trace=None if end is None else end.trace or None,
    )


def _end(error: str | None) -> serializer.End | None:
    if not error:
        return None
    loaded = serializer.loads(error)
    if isinstance(loaded, serializer.Ended):
        return loaded.end
    return serializer.End(kind="failed", type=type(loaded).__qualname__, message=str(loaded))


def _moment(milliseconds: int | None) -> str | None:
    return moment(milliseconds) if milliseconds else None
