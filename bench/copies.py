"""Whether copies of homes are whole: each database is restored, and SQLite checks it."""

import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import apsw

_BUSY_MS = 10_000
_LITESTREAM = Path(sys.executable).with_name("litestream")


def damaged(copies: Path) -> list[str]:
    """What is wrong with the copies below a folder, each with the database that it is in."""
    wrong: list[str] = []
    for pieces in sorted(copies.glob("**/ltx")):
        place = pieces.parent
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "restored.db"
            command = [_LITESTREAM, "restore", "-o", file, f"file://{place}"]
            told = subprocess.run(command, check=False, capture_output=True, text=True)
            failed = [told.stderr.strip().rpartition("\n")[2]] if told.returncode else problems(file)
        wrong += [f"{place.relative_to(copies)}: {each}" for each in failed]
    return wrong


def problems(file: Path) -> list[str]:
    """What SQLite itself finds wrong with a database, which others may use meanwhile."""
    try:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.set_busy_timeout(_BUSY_MS)
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
    except apsw.Error as error:
        found = [str(error)]
    return [each for each in found if each != "ok"]
