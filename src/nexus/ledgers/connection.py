"""Opening one of the six files: which file, which schema, which pragmas.

Only apsw's SQLite may open a ledger in this program. The operating system's file locks belong to the
process, so a second SQLite library in it, closing the same file, would drop the first one's locks.
"""

import ctypes
import random
import time
from contextlib import suppress
from pathlib import Path

import apsw

from nexus.config import LedgersConfig
from nexus.errors import LedgerCorruptError
from nexus.home import LEDGERS
from nexus.ledgers import migrate
from nexus.ledgers.failures import hint_of_damage, translate_errors

_WAL_LIMIT_BYTES = 64 * 1024 * 1024
_LONGEST_WAIT_MS = 5
# With names as URIs a second ledger can be attached read-only, beside a transaction on the first.
_FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
_READ_FLAGS = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def connect(
    path: Path,
    ledger: str,
    settings: LedgersConfig,
    *,
    writes: bool,
    vfs: str | None = None,
    checkpoints: bool = True,
) -> apsw.Connection:
    """Return an open connection at the newest schema. One that does not write refuses every change.

    Without `checkpoints` it leaves the WAL as it is, for a program that follows it.
    """
    with translate_errors(ledger, path):
        refuse_empty(path, ledger)
        connection = apsw.Connection(str(path), flags=_FLAGS, vfs=vfs)
        try:
            connection.set_busy_handler(_Patience(settings.busy_timeout_ms))
            version = migrate.known_version(connection, ledger)
            _use_wal(connection)
            keep_wal(connection)
            if not checkpoints:
                connection.wal_autocheckpoint(0)
            if version != migrate.latest(ledger):
                refuse_unknown(path.parent)
                migrate.upgrade(connection, ledger)
            # The vectors can be made again from the other ledgers, so they need no sync for each write.
            synchronous = "normal" if ledger == "embeddings" else settings.synchronous
            connection.execute(
                f"""
                PRAGMA foreign_keys = ON;
                PRAGMA synchronous = {synchronous};
                PRAGMA cache_size = -{settings.cache_kib};
                PRAGMA temp_store = MEMORY;
                PRAGMA query_only = {"OFF" if writes else "ON"};
                """
            ).fetchall()  # a pragma that answers with a row would keep the ones after it from running
        except BaseException:
            connection.close()
            raise
        return connection


def refuse_empty(path: Path, ledger: str) -> None:
    """No ledger is ever empty: one without a byte was truncated, and a new schema in it would hide that."""
    if path.is_file() and path.stat().st_size == 0:
        raise LedgerCorruptError(
            f"The {ledger} ledger at {path} is damaged: its file is empty",
            hint=hint_of_damage(ledger),
        )


def keep_wal(connection: apsw.Connection) -> None:
    """Let the last one to close empty the WAL and leave it: readers on a read-only mount cannot make one."""
    wanted = ctypes.c_int(1)
    connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(wanted))
    connection.pragma("journal_size_limit", _WAL_LIMIT_BYTES)


def refuse_unknown(data: Path) -> None:
    """Refuse a home with a ledger that this program doesn't know, while the Nexus that wrote it can open all.

    Each file is opened when it is first used, so a newer one would be found in the middle of something.
    """
    for name in LEDGERS:
        # A file that is missing or damaged is reported when it is used.
        with suppress(apsw.Error, LedgerCorruptError):
            path = data / f"{name}.db"
            if path.with_name(f"{path.name}-wal").exists():
                connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
                keep_wal(connection)
            else:
                # Nobody has it open: it can be read where it lies, and nothing is written beside it.
                connection = apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=_READ_FLAGS)
            try:
                migrate.known_version(connection, name)
            finally:
                connection.close()


class _Patience:
    """Waits for another process's lock, in short steps of uneven length.

    The steps of SQLite's own timeout grow to 100 ms, and beside processes that write all the time a
    step that long misses every gap between their transactions: one of four waited for seconds.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_s = timeout_ms / 1000
        self._began = 0.0

    def __call__(self, waits: int) -> bool:
        now = time.monotonic()
        if waits == 0:
            self._began = now
        if now - self._began >= self._timeout_s:
            return False
        time.sleep(min(waits + 1, _LONGEST_WAIT_MS) / 1000 * random.uniform(0.5, 1))  # noqa: S311 - no secret
        return True


def _use_wal(connection: apsw.Connection) -> None:
    """Switch a file that an older program left in another mode to WAL, where readers and a writer coexist."""
    if connection.pragma("journal_mode") != "wal":
        # Changing it needs the file alone. Where that is not to be had, all works, and the next one tries.
        with suppress(apsw.BusyError):
            connection.pragma("journal_mode", "wal")
