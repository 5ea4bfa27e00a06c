"""Taking the bytes of what was removed out of a ledger's file, its indexes and its WAL.

A full-text index keeps the words of removed rows until its parts are merged; pages that were freed
keep what stood on them until the file is written anew; the WAL keeps both until it is emptied.
"""

import os
import shutil
from pathlib import Path
from typing import Final, cast

import apsw

from nexus.errors import CareError, LedgerBusyError, LedgerFullError
from nexus.home import Home
from nexus.ledgers.database import Database
from nexus.ledgers.tables import full_text

# Where SQLite puts the copy from which it writes a file anew, in its order.
_TEMPORARY: Final = ("SQLITE_TMPDIR", "TMPDIR")
_TEMPORARY_DIRECTORIES: Final = ("/var/tmp", "/usr/tmp", "/tmp")  # noqa: S108  SQLite's own choice
# Rows still come and go while the copy is made.
_MARGIN_BYTES: Final = 16 * 1024 * 1024


def require_space(home: Home, ledgers: list[str]) -> None:
    """Refuse before anything is removed, where a ledger could not be written anew."""
    largest = max((home.ledger(name).stat().st_size for name in ledgers), default=0) + _MARGIN_BYTES
    temporary = _temporary_directory()
    needed = {home.data: largest}
    if temporary.stat().st_dev == home.data.stat().st_dev:
        needed[home.data] += largest
    else:
        needed[temporary] = largest
    for place, size_bytes in needed.items():
        if shutil.disk_usage(place).free < size_bytes:
            raise CareError(
                f"Forgetting needs {size_bytes // 2**20} MiB free at {place}, to write the databases anew",
                hint="Free that much and try again. Nothing was removed.",
            )


async def scrub(database: Database) -> str:
    """Write a ledger anew without what was removed from it, and empty its WAL.

    Returns what could not be done, and why; nothing where all was.
    """
    file = database.path.name
    try:
        await database.maintain(_rewrite)
    except LedgerBusyError:
        return f"the free pages of {file} (another process keeps writing to it)"
    except LedgerFullError:
        return f"the free pages of {file} (the disk is full)"
    if not await database.maintain(_empty_wal):
        return f"{file}-wal (another process keeps reading an old state)"
    return ""


def _rewrite(connection: apsw.Connection) -> None:
    for index in full_text(connection):
        connection.execute(f"INSERT INTO {index} ({index}) VALUES ('optimize')")  # noqa: S608 - names are constants of the program, values are bound
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'").get:
        # The planner's statistics hold samples of what stood in the indexes.
        connection.execute("ANALYZE")
    # In memory, the copy of a large ledger would not fit.
    connection.pragma("temp_store", "FILE")
    try:
        connection.execute("VACUUM")
    finally:
        connection.pragma("temp_store", "MEMORY")


def _empty_wal(connection: apsw.Connection) -> bool:
    busy, _, _ = cast(
        "tuple[int, int, int]", connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    )
    return not busy


def _temporary_directory() -> Path:
    wanted = [os.environ[name] for name in _TEMPORARY if os.environ.get(name)]
    for place in (*wanted, *_TEMPORARY_DIRECTORIES):
        if Path(place).is_dir() and os.access(place, os.W_OK | os.X_OK):
            return Path(place)
    return Path.cwd()
