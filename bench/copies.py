"""Whether copies of homes are whole: each database is restored, and SQLite checks it."""

import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import apsw

_LITESTREAM = Path(sys.executable).with_name("litestream")


def damaged(copies: Path) -> list[str]:
    """What is wrong with the copies below a folder, a line for each database."""
    wrong: list[str] = []
    for pieces in sorted(copies.glob("**/ltx")):
        place = pieces.parent
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "restored.db"
            command = [_LITESTREAM, "restore", "-o", file, f"file://{place}"]
            told = subprocess.run(command, check=False, capture_output=True, text=True)
            if told.returncode:
                problem = told.stderr.strip().rpartition("\n")[2]
            else:
                with closing(apsw.Connection(str(file))) as connection:
                    problem = connection.execute("PRAGMA integrity_check(1)").get
        if problem != "ok":
            wrong.append(f"{place.relative_to(copies)}: {problem}")
    return wrong
