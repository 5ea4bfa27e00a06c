"""What a home has besides its ledgers, in one SQLite file: it can be copied as they are, change by change.

Both functions wait for the disk: call them on a thread.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw

from nexus.home import Home

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS files (
  path      TEXT PRIMARY KEY,   -- below the home
  mode      INTEGER NOT NULL,
  mtime_ns  INTEGER NOT NULL,
  content   BLOB                -- NULL for a directory
) STRICT
"""
# The ledgers are copied as they are. Tokens and keys stay on their host, as they stay out of backups.
_PACKED: Final = ("config.toml", "state")
_BUSY_MS: Final = 30_000


def pack(home: Home, database: Path) -> int:
    """Bring the packed files up to those of a home; returns how many changed. Links are left out."""
    known: dict[str, tuple[int, int, int]] = {}
    changed = 0
    with closing(_open_database(database)) as connection:
        # Litestream writes to it, too, and a transaction that reads first could not wait for that.
        connection.execute("BEGIN IMMEDIATE")
        for path, mode, mtime_ns, size in connection.execute(
            "SELECT path, mode, mtime_ns, coalesce(length(content), 0) FROM files"
        ):
            known[path] = (mode, mtime_ns, size)
        for entry in _walk_entries(home.root):
            path = str(entry.relative_to(home.root))
            try:
                found = entry.lstat()
                is_file = stat.S_ISREG(found.st_mode)
                now = (found.st_mode, found.st_mtime_ns if is_file else 0, found.st_size if is_file else 0)
                is_known = known.get(path) == now
                content = entry.read_bytes() if is_file and not is_known else None
            except FileNotFoundError:
                continue  # It went meanwhile, as git's lock files do.
            known.pop(path, None)
            if is_known:
                continue
            connection.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", (path, now[0], now[1], content)
            )
            changed += 1
        connection.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in known])
        connection.execute("COMMIT")
    return changed + len(known)


def unpack(database: Path, home: Home) -> None:
    """Lay packed files out in a home."""
    with closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        for path, mode, mtime_ns, content in connection.execute(
            "SELECT path, mode, mtime_ns, content FROM files ORDER BY path"
        ):
            target = home.root / path
            if ".." in target.parts or not target.is_relative_to(home.root):
                continue
            if content is None:
                target.mkdir(mode=0o700, parents=True, exist_ok=True)
            else:
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                target.write_bytes(content)
                os.utime(target, ns=(mtime_ns, mtime_ns))
            target.chmod(stat.S_IMODE(mode))


def read_file(database: Path, path: str) -> bytes:
    """One packed file; empty where there is none."""
    with closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        return connection.execute("SELECT content FROM files WHERE path = ?", (path,)).get or b""


def _open_database(database: Path) -> apsw.Connection:
    connection = apsw.Connection(str(database))
    connection.set_busy_timeout(_BUSY_MS)
    database.chmod(0o600)
    connection.pragma("journal_mode", "wal")
    # Litestream does, which follows it.
    connection.wal_autocheckpoint(0)
    connection.execute(_SCHEMA)
    return connection


def _walk_entries(root: Path) -> Iterator[Path]:
    for name in _PACKED:
        top = root / name
        if top.exists():
            yield top
        for place, folders, files in os.walk(top):
            here = Path(place)
            folders[:] = [each for each in folders if not (here / each).is_symlink()]
            yield from (here / each for each in [*folders, *files] if not (here / each).is_symlink())
