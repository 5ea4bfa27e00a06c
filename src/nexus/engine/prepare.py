"""Making the engine's database ready: DBOS's tables and ours."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from nexus.engine import interior, owner, statistics, tables
from nexus.engine.database import Database
from nexus.engine.settings import Settings

_PRIVATE = 0o600


def prepared(settings: Settings) -> Database:
    """The database, open and complete. Any number of processes may call this at once."""
    if settings.is_postgres:
        database = Database(settings)
        try:
            interior.migrate(database.url)
            _complete(database)
            owner.claim_for_home(database, settings.home)
            statistics.ensure(database, settings)
        except BaseException:
            database.close()
            raise
        return database
    path = Path(settings.database)
    with _alone(path):
        _make(path)
        database = Database(settings)
        interior.migrate(database.url)
        _complete(database)
        return database


def _complete(database: Database) -> None:
    tables.create_own(database)
    interior.make_indexes(database)


def _make(path: Path) -> None:
    """A new file appears whole: DBOS's first migrations would not survive being cut short."""
    if path.exists() and path.stat().st_size:
        return
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    os.close(os.open(new, os.O_CREAT | os.O_RDWR, _PRIVATE))
    interior.migrate(f"sqlite:///{new}")
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
