"""The engine's database in a backup: another SQLite file of the home, whose tables are not ours to know.

It is opened with Python's own `sqlite3`, as the engine does: a process that serves the home may make the
backup, and two SQLite libraries on one file in one process would drop each other's locks.
"""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from nexus.errors import CareError
from nexus.home import Home
from nexus.ledgers import files
from nexus.ledgers.backup import verification
from nexus.ledgers.backup.manifest import File

_BUSY_TIMEOUT_S = 30


@contextmanager
def snapshot(home: Home) -> Generator[sqlite3.Connection | None]:
    """A connection that sees the engine's database as it is now; None where there is none."""
    if not home.engine_file.is_file():
        yield None
        return
    with closing(sqlite3.connect(home.engine_file, timeout=_BUSY_TIMEOUT_S, isolation_level=None)) as source:
        with _told(home):
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        yield source


def copy(source: sqlite3.Connection, target: Path, home: Home) -> File:
    """Copy what the snapshot sees, and check it."""
    files.new(target).close()
    with _told(home), closing(sqlite3.connect(target)) as made:
        source.backup(made)
        # A backup holds one file for each database, and no log beside it.
        made.execute("PRAGMA journal_mode = DELETE")
    if problems := verification.engine_problems(target):
        raise CareError(problems[0], hint="Run `nexus doctor`; a restored backup of it would not work.")
    files.sync_file(target)
    return File(size_bytes=target.stat().st_size, sha256=files.sha256(target), mode="0600")


@contextmanager
def _told(home: Home) -> Generator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise CareError(
            f"The engine's database at {home.engine_file} could not be copied: {error}",
            hint="Run `nexus doctor`: it checks the file and the disk.",
        ) from error
