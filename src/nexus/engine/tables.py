"""The engine's own tables beside DBOS's, and the statements that read and change DBOS's.

Every statement that names a column of DBOS's tables is here, so that an upgrade is read in one place;
`tests/contract` holds them against the installed version.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from nexus.engine import ids, serializer
from nexus.engine.database import APPLICATION, SCHEMA, Database

WORKFLOW: Final = "nexus.execution"
QUEUE_PREFIX: Final = "nexus."

_OWN_TABLES = (
    """CREATE TABLE IF NOT EXISTS {t}nexus_leases (
      -- One row for each process that runs work. Without a row that has not expired, its work is taken over.
      executor_id TEXT PRIMARY KEY,
      host        TEXT NOT NULL,
      pid         BIGINT NOT NULL,
      version     TEXT NOT NULL,
      started_at  BIGINT NOT NULL,
      renewed_at  BIGINT NOT NULL,
      expires_at  BIGINT NOT NULL,
      place       TEXT                          -- the machine's boot and the pid's namespace
    )""",
    """CREATE TABLE IF NOT EXISTS {t}nexus_crashes (
      -- Unfinished executions whose process died: how often in a row without recording a further step.
      execution_id TEXT PRIMARY KEY,
      crashes      BIGINT NOT NULL,
      steps        BIGINT NOT NULL              -- recorded by the last crash
    )""",
    """CREATE TABLE IF NOT EXISTS {t}nexus_cancels (
      -- Running executions that somebody wants stopped; the process that runs one looks here.
      execution_id TEXT PRIMARY KEY,
      created_at   BIGINT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS {t}nexus_jobs (
      -- Unfinished background jobs: at most one for each work and key. A job that is done has no row.
      work         TEXT NOT NULL,
      job_key      TEXT NOT NULL,
      state        TEXT NOT NULL,               -- waiting, dead
      attempt      BIGINT NOT NULL,
      again        BIGINT NOT NULL DEFAULT 0,   -- asked for once more while it was running
      execution_id TEXT NOT NULL,               -- its newest attempt
      lane         TEXT NOT NULL,
      payload      TEXT NOT NULL,
      error        TEXT,
      created_at   BIGINT NOT NULL,
      updated_at   BIGINT NOT NULL,
      PRIMARY KEY (work, job_key)
    )""",
    "CREATE INDEX IF NOT EXISTS nexus_jobs_state ON {t}nexus_jobs (state, updated_at)",
    "CREATE UNIQUE INDEX IF NOT EXISTS nexus_jobs_execution ON {t}nexus_jobs (execution_id)",
    """CREATE TABLE IF NOT EXISTS {t}nexus_schedules (
      name       TEXT PRIMARY KEY,
      cron       TEXT NOT NULL,
      zone       TEXT NOT NULL,
      work       TEXT NOT NULL,
      payload    TEXT NOT NULL,
      lane       TEXT NOT NULL,
      missed     TEXT NOT NULL,         -- skip, once, all
      paused     BIGINT NOT NULL DEFAULT 0,
      next_at    BIGINT NOT NULL,       -- the moment that has not been started yet
      updated_at BIGINT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS {t}nexus_owner (
      -- The home whose work this is, where one has said so.
      id    BIGINT PRIMARY KEY CHECK (id = 1),
      owner TEXT NOT NULL
    )""",
    # What was running when its process was lost, and goes first.
    """CREATE INDEX IF NOT EXISTS nexus_interrupted ON {t}workflow_status (queue_name)
    WHERE status = 'ENQUEUED' AND recovery_attempts > 0""",
    # Results of steps that were not dropped yet: few, because they go soon after their execution's end.
    """CREATE INDEX IF NOT EXISTS nexus_step_results ON {t}operation_outputs (workflow_uuid)
    WHERE output IS NOT NULL""",
)


@dataclass(frozen=True, kw_only=True)
class NewExecution:
    """An execution before it is recorded."""

    id: str
    work: str
    lane: str
    key: str
    inputs: str
    version: str
    delay_until_ms: int | None = None


def new_execution(
    work: str,
    payload: Any,
    *,
    key: str,
    lane: str,
    version: str,
    timeout_ms: int | None = None,
    id_: str | None = None,
    attempt: int = 1,
    delay_until_ms: int | None = None,
) -> NewExecution:
    """An execution with its payload and options in the form that they are stored in."""
    options = {"lane": lane, "key": key, "timeout_ms": timeout_ms, "attempt": attempt}
    return NewExecution(
        id=id_ or ids.new(),
        work=work,
        lane=lane,
        key=key,
        inputs=serializer.dumps({"args": [work, payload, options], "kwargs": {}}),
        version=version,
        delay_until_ms=delay_until_ms,
    )


def create_own(database: Database) -> None:
    """Make the engine's own tables where they are missing."""
    with database.write() as connection:
        if database.is_postgres:
            # Two processes that start together would collide in the catalogue.
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(811402)"))
            connection.execute(sa.text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
        for statement in _OWN_TABLES:
            connection.execute(database.sql(statement))
        _add_column(database, connection, "nexus_leases", "place")


def _add_column(database: Database, connection: sa.Connection, table: str, column: str) -> None:
    """Bring a table that an older version made up to date."""
    schema = SCHEMA if database.is_postgres else None
    if column not in {each["name"] for each in sa.inspect(connection).get_columns(table, schema=schema)}:
        connection.execute(database.sql(f"ALTER TABLE {{t}}{table} ADD COLUMN {column} TEXT"))


def made(database: Database) -> bool:
    """Whether the tables are there. A new Postgres database is empty until a home is first served."""
    schema = SCHEMA if database.is_postgres else None
    found = set(sa.inspect(database.engine).get_table_names(schema=schema))
    return {"workflow_status", "nexus_leases", "nexus_jobs", "nexus_schedules"} <= found


def insert(database: Database, connection: sa.Connection, executions: Sequence[NewExecution]) -> None:
    """Record executions in the given order; one whose id is known already is left as it is."""
    # Later than all that waits before it, so that order holds within a millisecond and when the clock is
    # set back: under the write lock of SQLite than everything, in Postgres than what its key has.
    if database.is_postgres:
        latest = """(SELECT max(created_at) FROM {t}workflow_status WHERE queue_name = :queue
          AND queue_partition_key = :key AND status IN ('ENQUEUED', 'PENDING'))"""
        moment = f"greatest({{now}}, {latest} + 1)"
    else:
        moment = "max({now}, (SELECT coalesce(max(created_at), 0) + 1 FROM {t}workflow_status))"
    attributes = "CAST(:attributes AS JSONB)" if database.is_postgres else ":attributes"
    status = database.sql(
        f"""INSERT INTO {{t}}workflow_status
          (workflow_uuid, status, name, queue_name, queue_partition_key, priority, recovery_attempts,
           application_version, application_name, serialization, attributes, delay_until_epoch_ms,
           created_at, updated_at)
        VALUES (:id, :status, '{WORKFLOW}', :queue, :key, 0, 0,
           :version, '{APPLICATION}', '{serializer.NAME}', {attributes}, :delay,
           {moment}, {{now}})
        ON CONFLICT (workflow_uuid) DO NOTHING"""  # noqa: S608 - names are constants of the program, values are bound
    )
    inputs = database.sql(
        """INSERT INTO {t}workflow_input (workflow_uuid, inputs) VALUES (:id, :inputs)
        ON CONFLICT (workflow_uuid) DO NOTHING"""
    )
    connection.execute(status, [_row(execution) for execution in executions])
    connection.execute(inputs, [{"id": e.id, "inputs": e.inputs} for e in executions])


def _row(execution: NewExecution) -> dict[str, Any]:
    return {
        "id": execution.id,
        "status": "ENQUEUED" if execution.delay_until_ms is None else "DELAYED",
        "queue": QUEUE_PREFIX + execution.lane,
        "key": execution.key,
        "version": execution.version,
        "attributes": json.dumps({"work": execution.work}),
        "delay": execution.delay_until_ms,
    }


def cancel_waiting(database: Database, execution_id: str) -> bool:
    """Cancel an execution that has not begun. False: it has begun, has ended, or never was."""
    statement = database.sql(
        """UPDATE {t}workflow_status
        SET status = 'CANCELLED', updated_at = {now}, completed_at = {now}
        WHERE workflow_uuid = :id AND status IN ('ENQUEUED', 'DELAYED')"""
    )
    # A job whose only attempt will never run must not keep its key.
    job = database.sql("DELETE FROM {t}nexus_jobs WHERE execution_id = :id AND state = 'waiting'")
    with database.write() as connection:
        cancelled = connection.execute(statement, {"id": execution_id}).rowcount > 0
        if cancelled:
            connection.execute(job, {"id": execution_id})
        return cancelled


def delete(database: Database, connection: sa.Connection, execution_ids: Sequence[str]) -> None:
    """Remove all that is recorded about some executions, whatever their state."""
    for table, column in (
        ("operation_outputs", "workflow_uuid"),
        ("workflow_input", "workflow_uuid"),
        ("workflow_output", "workflow_uuid"),
        ("workflow_status", "workflow_uuid"),
        ("nexus_cancels", "execution_id"),
        ("nexus_jobs", "execution_id"),
        ("nexus_crashes", "execution_id"),
    ):
        statement = database.sql(f"DELETE FROM {{t}}{table} WHERE {column} IN :ids")  # noqa: S608 - names are constants of the program, values are bound
        connection.execute(
            statement.bindparams(sa.bindparam("ids", expanding=True)), {"ids": list(execution_ids)}
        )


def running_executors(connection: sa.Connection, database: Database) -> set[str]:
    """The executors that running work is recorded under."""
    statement = database.sql(
        """SELECT DISTINCT executor_id FROM {t}workflow_status
        WHERE status = 'PENDING' AND queue_partition_key IS NOT NULL AND executor_id IS NOT NULL"""
    )
    return {row[0] for row in connection.execute(statement)}


def running_of(database: Database, executor_id: str) -> list[str]:
    """The executions that are recorded as running under an executor."""
    statement = database.sql(
        """SELECT workflow_uuid FROM {t}workflow_status
        WHERE status = 'PENDING' AND queue_partition_key IS NOT NULL AND executor_id = :executor"""
    )
    with database.read() as connection:
        return [row[0] for row in connection.execute(statement, {"executor": executor_id})]


def requeue(connection: sa.Connection, database: Database, executor_ids: Iterable[str]) -> int:
    """Give the running work of these executors back to its queues, and end their right to record it."""
    statement = database.sql(
        """UPDATE {t}workflow_status
        SET status = 'ENQUEUED', owner_xid = NULL, started_at_epoch_ms = NULL, updated_at = {now}
        WHERE status = 'PENDING' AND queue_partition_key IS NOT NULL AND executor_id IN :executors"""
    ).bindparams(sa.bindparam("executors", expanding=True))
    return connection.execute(statement, {"executors": list(executor_ids)}).rowcount


def put_back(database: Database, execution_id: str, executor_id: str) -> bool:
    """Give one running execution of an executor back to its queue. False: it is not that executor's."""
    statement = database.sql(
        """UPDATE {t}workflow_status
        SET status = 'ENQUEUED', owner_xid = NULL, started_at_epoch_ms = NULL, updated_at = {now}
        WHERE workflow_uuid = :id AND status = 'PENDING' AND executor_id = :executor"""
    )
    with database.write() as connection:
        return connection.execute(statement, {"id": execution_id, "executor": executor_id}).rowcount > 0


def count_crashes(
    connection: sa.Connection, database: Database, executor_ids: Iterable[str], most: int
) -> int:
    """Count a crash for what these executors ran, and give up on what crashed too often in a row.

    A further recorded step is progress, and the count begins anew. Returns how many were given up.
    """
    running = """s.status = 'PENDING' AND s.queue_partition_key IS NOT NULL AND s.executor_id IN :executors"""
    count = database.sql(
        f"""INSERT INTO {{t}}nexus_crashes (execution_id, crashes, steps)
        SELECT s.workflow_uuid, 1, (SELECT count(*) FROM {{t}}operation_outputs AS o
                                    WHERE o.workflow_uuid = s.workflow_uuid)
        FROM {{t}}workflow_status AS s WHERE {running}
        ON CONFLICT (execution_id) DO UPDATE SET
          crashes = CASE WHEN excluded.steps > nexus_crashes.steps THEN 1 ELSE nexus_crashes.crashes + 1 END,
          steps = excluded.steps"""  # noqa: S608 - names are constants of the program, values are bound
    ).bindparams(sa.bindparam("executors", expanding=True))
    give_up = database.sql(
        f"""UPDATE {{t}}workflow_status AS s
        SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', owner_xid = NULL, updated_at = {{now}}
        WHERE {running}
          AND s.workflow_uuid IN (SELECT execution_id FROM {{t}}nexus_crashes WHERE crashes >= :most)"""  # noqa: S608 - names are constants of the program, values are bound
    ).bindparams(sa.bindparam("executors", expanding=True))
    values = {"executors": list(executor_ids)}
    connection.execute(count, values)
    return connection.execute(give_up, {**values, "most": most}).rowcount


def set_back_delays(database: Database) -> int:
    """Shorten waits that begin in the future, because the clock was set back; returns how many.

    Hosts of one database don't agree on the millisecond, so a moment is not the future yet.
    """
    statement = database.sql(
        """UPDATE {t}workflow_status
        SET delay_until_epoch_ms = {now} + delay_until_epoch_ms - updated_at, updated_at = {now}
        WHERE status = 'DELAYED' AND updated_at > {now} + 60000"""
    )
    with database.write() as connection:
        return connection.execute(statement).rowcount


def forget_crashes(database: Database) -> None:
    """Drop the counts of executions that have ended."""
    statement = database.sql(
        """DELETE FROM {t}nexus_crashes WHERE execution_id NOT IN (
          SELECT workflow_uuid FROM {t}workflow_status WHERE status IN ('ENQUEUED', 'DELAYED', 'PENDING'))"""
    )
    with database.write() as connection:
        connection.execute(statement)
