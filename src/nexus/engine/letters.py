"""Dead letters: work that failed at every attempt or crashed its process, and waits for a person."""

from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa

from nexus.engine import ids, records, serializer, tables
from nexus.engine.database import Database, moment
from nexus.engine.enqueue import CHANNEL
from nexus.engine.errors import EngineStateError, UnknownExecutionError
from nexus.engine.states import FINAL

# What is a job's stands among the jobs.
_CRASHED = """s.status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
  AND s.workflow_uuid NOT IN (SELECT execution_id FROM {t}nexus_jobs)"""


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
    statement = database.sql(
        f"""SELECT execution_id, work, job_key, attempt, error, created_at, updated_at
        FROM {{t}}nexus_jobs WHERE state = 'dead'
        UNION ALL
        SELECT s.workflow_uuid, {_work(database)}, s.queue_partition_key, s.recovery_attempts,
          '{records.GAVE_UP}', s.created_at, s.updated_at
        FROM {{t}}workflow_status AS s WHERE {_CRASHED}
        ORDER BY 7 DESC LIMIT :limit"""  # noqa: S608 - names are constants of the program, values are bound
    )
    with database.read() as connection:
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
            for row in connection.execute(statement, {"limit": limit})
        ]


def count(database: Database) -> int:
    with database.read() as connection:
        return cast(
            "int",
            connection.execute(
                database.sql(
                    f"""SELECT (SELECT count(*) FROM {{t}}nexus_jobs WHERE state = 'dead')
                      + (SELECT count(*) FROM {{t}}workflow_status AS s WHERE {_CRASHED})"""  # noqa: S608 - names are constants of the program, values are bound
                )
            ).scalar_one(),
        )


def close(database: Database, execution_id: str) -> bool:
    """Take a run that crashed its process off the list: it was dealt with. False: it is not on it."""
    statement = database.sql(
        """UPDATE {t}workflow_status SET status = 'ERROR', completed_at = {now}
        WHERE workflow_uuid = :id AND status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'"""
    )
    with database.write() as connection:
        return connection.execute(statement, {"id": execution_id}).rowcount > 0


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
        new = _copy(database, connection, execution_id, execution)
        tables.insert(database, connection, [new])
        connection.execute(
            database.sql(
                """UPDATE {t}nexus_jobs
                SET state = 'waiting', attempt = 1, error = NULL, execution_id = :new, updated_at = {now}
                WHERE execution_id = :old AND state = 'dead'"""
            ),
            {"new": new.id, "old": execution_id},
        )
        if database.is_postgres:
            connection.execute(database.sql(f"SELECT pg_notify('{CHANNEL}', 'work')"))
    return new.id


def bury_deadly(database: Database) -> int:
    """Put aside jobs that took their process down too often; returns how many. Blocking."""
    statement = database.sql(
        """UPDATE {t}nexus_jobs SET state = 'dead', updated_at = {now},
          error = :error
        WHERE state = 'waiting' AND execution_id IN
          (SELECT workflow_uuid FROM {t}workflow_status WHERE status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')"""
    )
    with database.write() as connection:
        return connection.execute(statement, {"error": records.GAVE_UP}).rowcount


def _work(database: Database) -> str:
    return "s.attributes ->> 'work'" if database.is_postgres else "json_extract(s.attributes, '$.work')"


def _copy(
    database: Database, connection: sa.Connection, execution_id: str, execution: records.Execution
) -> tables.NewExecution:
    stored = connection.execute(
        database.sql("SELECT inputs FROM {t}workflow_input WHERE workflow_uuid = :id"), {"id": execution_id}
    ).scalar_one()
    inputs = cast("dict[str, Any]", serializer.loads(stored))
    options = cast("dict[str, Any]", inputs["args"][2])
    options["attempt"] = 1
    return tables.NewExecution(
        id=ids.new(),
        work=execution.work,
        lane=options["lane"],
        key=options["key"],
        inputs=serializer.dumps(inputs),
        version=execution.version or "1",
    )
