"""Making the engine's database ready: DBOS's tables and ours."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from nexus.engine import dbos_runtime, owner, store
from nexus.engine.database import Database
from nexus.engine.settings import Settings

_PRIVATE = 0o600
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


def prepare_database(settings: Settings) -> Database:
    """The database, open and complete. Any number of processes may call this at once."""
    if settings.file is not None:
        with _alone(settings.file):
            _make(settings.file)
            return _complete(Database(settings))
    database = Database(settings)
    try:
        _complete(database)
        owner.claim_for_home(database, settings.home)
        _plant_statistics(database)
    except BaseException:
        database.close()
        raise
    return database


def is_prepared(database: Database) -> bool:
    """Whether the tables are there. A new Postgres database is empty until a home is first served."""
    found = set(sa.inspect(database.engine).get_table_names(schema=database.schema))
    return {"nexus_crashes", "nexus_schedules"} <= found


def _complete(database: Database) -> Database:
    dbos_runtime.migrate(database.url)
    with database.write() as connection:
        database.lock_schema(connection)
        for statement in _OWN_TABLES:
            connection.execute(database.sql(statement))
    store.make_indexes(database)
    return database


def _plant_statistics(database: Database) -> None:
    """Keep the claim's plan in Postgres right when there is suddenly much to do.

    The claim visits each waiting key through an index on it. While the planner believes that almost nothing
    waits, another index looks as good, and then each visit reads all that waits: with 10,000 waiting keys a
    claim took 50 s instead of a quarter of one. Real statistics say just that whenever they are gathered in
    a quiet moment. So they are taken once from a table where half of everything waits, and kept.
    """
    lanes = [lane.name for lane in database.settings.lanes]
    with database.write() as connection:
        database.lock_schema(connection)
        if set(lanes) - store.common_lanes(connection):
            store.plant(database, connection, lanes, database.settings.version)


def _make(path: Path) -> None:
    """A new file appears whole: DBOS's first migrations would not survive being cut short."""
    if path.exists() and path.stat().st_size:
        return
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    os.close(os.open(new, os.O_CREAT | os.O_RDWR, _PRIVATE))
    dbos_runtime.migrate(f"sqlite:///{new}")
    new.replace(path)


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """SQLite's tables are changed by one process at a time: DBOS's migrations are not one transaction."""
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
