"""The engine's own tables beside DBOS's, and an execution before it is recorded. `interior` knows DBOS's."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nexus.engine import ids, serializer
from nexus.engine.database import SCHEMA, Database

_OWN_TABLES = (
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
      paused     BIGINT NOT NULL DEFAULT 0,  -- 1: paused; 2: dozing, it is started once more
      next_at    BIGINT NOT NULL,       -- the moment that has not been started yet
      updated_at BIGINT NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS nexus_schedules_next ON {t}nexus_schedules (next_at)",
    """CREATE TABLE IF NOT EXISTS {t}nexus_owner (
      -- The home whose work this is, where one has said so.
      id    BIGINT PRIMARY KEY CHECK (id = 1),
      owner TEXT NOT NULL
    )""",
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


def made(database: Database) -> bool:
    """Whether the tables are there. A new Postgres database is empty until a home is first served."""
    schema = SCHEMA if database.is_postgres else None
    found = set(sa.inspect(database.engine).get_table_names(schema=schema))
    return {"nexus_crashes", "nexus_jobs", "nexus_schedules"} <= found
