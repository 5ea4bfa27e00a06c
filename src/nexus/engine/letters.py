"""Dead letters: work that failed at every attempt or crashed its process, and waits for a person."""

from dataclasses import dataclass

from nexus.engine import records, store
from nexus.engine.database import Database, moment
from nexus.engine.errors import EngineStateError, UnknownExecutionError
from nexus.engine.states import FINAL


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A job or a run that was given up."""

    execution_id: str
    work: str
    key: str
    attempts: int
    error: str | None
    created_at: str
    died_at: str


def dead(database: Database, limit: int = 50) -> list[DeadLetter]:
    """The newest first."""
    statement = f"""SELECT execution_id, work, job_key, attempt, error, created_at, updated_at
    FROM {{t}}nexus_jobs WHERE state = 'dead'
    UNION ALL
    SELECT execution_id, work, job_key, attempt, '{records.GAVE_UP}', created_at, updated_at
    FROM {_crashed(database)}
    ORDER BY 7 DESC LIMIT :limit"""  # noqa: S608 - names are constants of the program, values are bound
    return [
        DeadLetter(
            execution_id=row[0],
            work=row[1],
            key=row[2],
            attempts=row[3],
            error=row[4],
            created_at=moment(row[5]),
            died_at=moment(row[6]),
        )
        for row in database.fetch(database.sql(statement), {"limit": limit})
    ]


def count(database: Database) -> int:
    statement = f"""SELECT (SELECT count(*) FROM {{t}}nexus_jobs WHERE state = 'dead')
      + (SELECT count(*) FROM {_crashed(database)})"""  # noqa: S608 - names are constants of the program, values are bound
    return int(database.fetch(database.sql(statement))[0][0])


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
        connection.execute(
            database.sql(
                """UPDATE {t}nexus_jobs
                SET state = 'waiting', attempt = 1, error = NULL, execution_id = :new, updated_at = {now}
                WHERE execution_id = :old AND state = 'dead'"""
            ),
            {"new": new.id, "old": execution_id},
        )
        database.notify(connection)
    return new.id


def bury_deadly(database: Database) -> int:
    """Put aside jobs that took their process down too often; returns how many. Blocking."""
    statement = f"""UPDATE {{t}}nexus_jobs SET state = 'dead', updated_at = {{now}}, error = :error
    WHERE state = 'waiting'
      AND execution_id IN (SELECT execution_id FROM {store.given_up(database)} AS given_up)"""  # noqa: S608 - names are constants of the program, values are bound
    return database.change(database.sql(statement), {"error": records.GAVE_UP})


def _crashed(database: Database) -> str:
    """Runs that were given up. What is a job's stands among the jobs."""
    return f"""{store.given_up(database)} AS given_up
    WHERE execution_id NOT IN (SELECT execution_id FROM {{t}}nexus_jobs)"""  # noqa: S608 - names are constants of the program, values are bound
