"""Executions as people and programs read them: what waits, what runs where, what ended and how."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa

from nexus.engine import serializer
from nexus.engine.database import Database, moment
from nexus.engine.states import State
from nexus.engine.tables import QUEUE_PREFIX, WORKFLOW

_STATUS_OF: dict[State, str] = {
    "queued": "ENQUEUED",
    "delayed": "DELAYED",
    "running": "PENDING",
    "done": "SUCCESS",
    "failed": "ERROR",
    "timeout": "ERROR",
    "cancelled": "CANCELLED",
}
_STATE_OF: dict[str, State] = {
    "ENQUEUED": "queued",
    "DELAYED": "delayed",
    "PENDING": "running",
    "SUCCESS": "done",
    "ERROR": "failed",
    "CANCELLED": "cancelled",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
}
GAVE_UP = "The process crashed each time it ran this"
_GIVEN_UP = {"MAX_RECOVERY_ATTEMPTS_EXCEEDED": GAVE_UP}
_TOGETHER = 500
_COLUMNS = """s.workflow_uuid, s.status, s.queue_name, s.queue_partition_key, s.attributes, s.executor_id,
  s.application_version, s.recovery_attempts, s.created_at, s.started_at_epoch_ms, s.completed_at,
  o.output, o.error"""


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
    statement = database.sql(
        f"""SELECT {_COLUMNS} FROM {{t}}workflow_status s
        LEFT JOIN {{t}}workflow_output o ON o.workflow_uuid = s.workflow_uuid
        WHERE s.workflow_uuid = :id AND s.name = '{WORKFLOW}'"""  # noqa: S608 - names are constants of the program, values are bound
    )
    with database.read() as connection:
        row = connection.execute(statement, {"id": execution_id}).first()
    return None if row is None else _execution(tuple(row))


def states(database: Database, execution_ids: Sequence[str]) -> dict[str, State]:
    """The states of those of some executions that are recorded. A failure may be a time-out: see `get`."""
    statement = database.sql(
        "SELECT workflow_uuid, status FROM {t}workflow_status WHERE workflow_uuid IN :ids"
    ).bindparams(sa.bindparam("ids", expanding=True))
    found: dict[str, State] = {}
    with database.read() as connection:
        for first in range(0, len(execution_ids), _TOGETHER):
            some = list(execution_ids[first : first + _TOGETHER])
            found |= {row[0]: _STATE_OF[row[1]] for row in connection.execute(statement, {"ids": some})}
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
    conditions, values = [f"s.name = '{WORKFLOW}'"], cast("dict[str, Any]", {"limit": limit})
    if state == "cancelled":
        conditions.append("(s.status = 'CANCELLED' OR (s.status = 'ERROR' AND o.error LIKE :ended))")
    elif state is not None:
        conditions.append("s.status = :status")
        values["status"] = _STATUS_OF[state]
        if _STATUS_OF[state] == "ERROR":
            conditions.append("o.error LIKE :ended")
    values["ended"] = f'{{"nexus.ended": {{"kind": "{state}"%'
    if lane is not None:
        conditions.append("s.queue_name = :queue")
        values["queue"] = QUEUE_PREFIX + lane
    if key is not None:
        conditions.append("s.queue_partition_key = :key")
        values["key"] = key
    if not any(":ended" in condition for condition in conditions):
        del values["ended"]
    statement = database.sql(
        f"""SELECT {_COLUMNS} FROM {{t}}workflow_status s
        LEFT JOIN {{t}}workflow_output o ON o.workflow_uuid = s.workflow_uuid
        WHERE {" AND ".join(conditions)}
        ORDER BY s.created_at DESC, s.workflow_uuid DESC LIMIT :limit"""  # noqa: S608 - names are constants of the program, values are bound
    )
    with database.read() as connection:
        return [_execution(tuple(row)) for row in connection.execute(statement, values)]


def steps(database: Database, execution_id: str) -> list[dict[str, Any]]:
    """The recorded steps of one execution, in order."""
    statement = database.sql(
        """SELECT function_id, function_name, error, started_at_epoch_ms, completed_at_epoch_ms
        FROM {t}operation_outputs WHERE workflow_uuid = :id ORDER BY function_id"""
    )
    with database.read() as connection:
        rows = connection.execute(statement, {"id": execution_id}).fetchall()
    return [
        {
            "number": row[0],
            "name": row[1],
            "failed": row[2] is not None,
            "started_at": _moment(row[3]),
            "ended_at": _moment(row[4]),
        }
        for row in rows
    ]


def queues(database: Database) -> list[dict[str, Any]]:
    """For each lane: what waits, what runs, over how many keys, and since when the oldest waits."""
    statement = database.sql(
        """SELECT queue_name, status, count(*), count(DISTINCT queue_partition_key), min(created_at)
        FROM {t}workflow_status
        WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED') AND queue_partition_key IS NOT NULL
        GROUP BY queue_name, status"""
    )
    with database.read() as connection:
        rows = connection.execute(statement).fetchall()
    lanes: dict[str, dict[str, Any]] = {}
    for queue, status, count, keys, oldest in rows:
        lane = str(queue).removeprefix(QUEUE_PREFIX)
        entry = lanes.setdefault(
            lane,
            {
                "lane": lane,
                "queued": 0,
                "waiting_keys": 0,
                "delayed": 0,
                "running": 0,
                "oldest_waits_since": None,
            },
        )
        entry[_STATE_OF[status]] = count
        if status == "ENQUEUED":
            entry["waiting_keys"] = keys
            entry["oldest_waits_since"] = _moment(oldest)
    return [lanes[name] for name in sorted(lanes)]


def _execution(row: Sequence[Any]) -> Execution:
    (
        id_,
        status,
        queue,
        key,
        attributes,
        executor,
        version,
        starts,
        created,
        started,
        ended,
        output,
        error,
    ) = row
    state = _STATE_OF[status]
    stored: dict[str, Any] = json.loads(attributes) if isinstance(attributes, str) else (attributes or {})
    outcome: dict[str, Any] = serializer.loads(output) if output else {}
    end = _end(error)
    if end is not None:
        state = end.kind
        outcome = {"started_ms": end.started_ms, "ended_ms": end.ended_ms}
    return Execution(
        id=id_,
        work=stored.get("work", ""),
        lane=str(queue or "").removeprefix(QUEUE_PREFIX),
        key=key or "",
        state=state,
        executor_id=executor,
        version=version,
        starts=starts or 0,
        enqueued_at=_moment(created) or "",
        started_at=_moment(outcome.get("started_ms") or started),
        ended_at=_moment(outcome.get("ended_ms") or ended),
        result=outcome.get("value"),
        error=_GIVEN_UP.get(status) if end is None else f"{end.type}: {end.message}".removeprefix(": "),
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
