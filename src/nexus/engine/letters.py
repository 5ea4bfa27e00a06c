"""Dead letters: runs that crashed their process each time, and wait for a person."""

from dataclasses import dataclass

from nexus.engine import records, store
from nexus.engine.database import Database, moment
from nexus.engine.errors import EngineStateError, UnknownExecutionError
from nexus.engine.states import FINAL


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A run that was given up."""

    execution_id: str
    work: str
    key: str
    attempts: int
    error: str
    created_at: str
    died_at: str


def dead(database: Database, limit: int = 50) -> list[DeadLetter]:
    """The newest first."""
    return [
        DeadLetter(
            execution_id=row.execution_id,
            work=row.work,
            key=row.key,
            attempts=row.starts,
            error=records.GAVE_UP,
            created_at=moment(row.created_at),
            died_at=moment(row.updated_at),
        )
        for row in store.given_up(database, limit)
    ]


def count(database: Database) -> int:
    return store.count_given_up(database)


def close(database: Database, execution_id: str) -> bool:
    """Take a run that crashed its process off the list: it was dealt with. False: it is not on it."""
    return store.close_given_up(database, execution_id)


def retry(database: Database, execution_id: str) -> str:
    """Run an execution that has ended once more, as a new one at the end of its queue; returns its id."""
    execution = records.get(database, execution_id)
    if execution is None:
        raise UnknownExecutionError(
            f"Unknown execution {execution_id}", hint="List them with `nexus engine executions`."
        )
    if execution.state not in FINAL:
        raise EngineStateError(
            f"{execution_id} is {execution.state}; only finished runs can be retried",
            hint=f"Cancel it first with `nexus engine cancel {execution_id}`.",
        )
    with database.write() as connection:
        work, payload, options = store.stored(database, connection, execution_id)
        new = store.new_execution(
            work,
            payload,
            key=options["key"],
            lane=options["lane"],
            version=execution.version or "1",
            timeout_ms=options["timeout_ms"],
        )
        store.insert(database, connection, [new])
        database.notify(connection)
    store.close_given_up(database, execution_id)
    return new.id
