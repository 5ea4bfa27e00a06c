"""What can be wrong with one ledger's file, told without changing it."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, cast

import apsw

from nexus.config import LedgersConfig
from nexus.errors import LedgerCorruptError, LedgerError
from nexus.ledgers import migrate, sql
from nexus.ledgers.connection import connect, keep_wal, refuse_empty
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.memory import seals

# Up to here the thorough check is quick enough to be run always.
_THOROUGH_UP_TO_BYTES = 256 * 1024 * 1024
_WAL_WARNING_BYTES = 512 * 1024 * 1024
_BUSY_TIMEOUT_MS = 10_000
# How many facts with broken seals are named.
_NAMED = 5

# What SQLite says of an index that does not fit its table, from which it can be made again.
_STALE_INDEX = ("missing from index", "wrong # of entries in index")

ProblemKind = Literal[
    "missing",
    "unreadable",
    "old-schema",
    "drift",
    "damaged",
    "dangling",
    "stale-index",
    "large-wal",
    "unfinished-forget",
    "broken-seal",
]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong with a ledger."""

    ledger: str
    kind: ProblemKind
    message: str
    hint: str = ""
    """What to do, where that depends on more than the kind."""


def inspect(path: Path, ledger: str, *, thorough: bool = False) -> Iterator[Problem]:
    """Look at a file from the outside in; stops where looking further makes no sense."""
    if not path.is_file():
        yield Problem(ledger=ledger, kind="missing", message=f"{path.name} is missing")
        return
    try:
        with translate_errors(ledger, path):
            refuse_empty(path, ledger)
            connection = _open(path)
            try:
                yield from _inspect_open(connection, path, ledger, thorough=thorough)
            finally:
                connection.close()
    except LedgerError as error:
        # What SQLite found is damage, and so is an empty file. What else we found, such as another ledger in
        # its place, has its own remedy.
        is_damage = isinstance(error, LedgerCorruptError) and (
            error.__cause__ is not None or not path.stat().st_size
        )
        kind = "damaged" if is_damage else "unreadable"
        yield Problem(ledger=ledger, kind=kind, message=error.message, hint=error.hint)


@contextmanager
def open_to_read(path: Path, ledger: str) -> Generator[apsw.Connection]:
    """Open a file that may be damaged for reading: whatever SQLite refuses is a LedgerError."""
    try:
        with translate_errors(ledger, path):
            connection = connect(path, ledger, LedgersConfig(), writes=False)
            try:
                yield connection
            finally:
                connection.close()
    except apsw.Error as error:
        raise LedgerError(f"The {ledger} ledger at {path} cannot be read: {error}") from error


def repair_drift(path: Path, ledger: str) -> list[str]:
    """Make the indexes, triggers and views that are missing; returns their names."""
    connection = _open(path)
    try:
        connection.execute("BEGIN IMMEDIATE")
        present = _objects(connection)
        missing = [name for name in _load_expected(ledger) if name not in present]
        for name in missing:
            kind, statement = _load_expected(ledger)[name]
            if kind != "table":
                connection.execute(statement)
        connection.execute("COMMIT")
        return [name for name in missing if _load_expected(ledger)[name][0] != "table"]
    finally:
        connection.close()


def reindex(path: Path) -> None:
    """Make every index again from its table."""
    connection = _open(path)
    try:
        connection.execute("REINDEX")
    finally:
        connection.close()


def _open(path: Path) -> apsw.Connection:
    # Not read-only: after a crash SQLite must be able to recover the WAL before anything can be read.
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    keep_wal(connection)
    return connection


def _inspect_open(
    connection: apsw.Connection, path: Path, ledger: str, *, thorough: bool
) -> Iterator[Problem]:
    found, known = migrate.known_version(connection, ledger), migrate.latest(ledger)
    if found < known:
        message = f"{path.name} has schema {found} of {known}; it will be migrated on next use"
        yield Problem(ledger=ledger, kind="old-schema", message=message)
    else:
        yield from _drift(connection, path, ledger)
    yield from _damage(connection, path, ledger, thorough=thorough)
    wal = path.with_name(path.name + "-wal")
    if wal.is_file() and wal.stat().st_size > _WAL_WARNING_BYTES:
        message = f"{wal.name} has grown to {wal.stat().st_size >> 20} MiB: some process reads without end"
        yield Problem(ledger=ledger, kind="large-wal", message=message)
    if ledger == "runtime" and found == known:
        unfinished = connection.execute("SELECT count(*) FROM forgets WHERE completed_at IS NULL").get
        if unfinished:
            message = f"{unfinished} deletion was interrupted"
            yield Problem(ledger=ledger, kind="unfinished-forget", message=message)
    if ledger == "memory" and found == known:
        yield from _broken_seals(connection, path, thorough=thorough)


def _broken_seals(connection: apsw.Connection, path: Path, *, thorough: bool) -> Iterator[Problem]:
    """Yield facts that something other than Nexus changed, removed or put in."""
    broken = list(seals.breaks(connection)) if _in_depth(path, thorough=thorough) else []
    if broken:
        named = ", ".join(f"number {each.seq} was {each.what}" for each in broken[:_NAMED])
        more = f", and {len(broken) - _NAMED:,} more" if len(broken) > _NAMED else ""
        message = f"{path.name}: facts do not match their seals: {named}{more}"
        yield Problem(ledger="memory", kind="broken-seal", message=message)
    before = seals.count_broken_before(connection)
    if before:
        message = f"{path.name}: {before:,} facts did not match their seals when `nexus forget` made new ones"
        yield Problem(ledger="memory", kind="broken-seal", message=message)


def _drift(connection: apsw.Connection, path: Path, ledger: str) -> Iterator[Problem]:
    present = _objects(connection)
    missing = [name for name in _load_expected(ledger) if name not in present]
    if missing:
        message = f"{path.name} lacks {', '.join(missing)}"
        yield Problem(ledger=ledger, kind="drift", message=message)


def _damage(connection: apsw.Connection, path: Path, ledger: str, *, thorough: bool) -> Iterator[Problem]:
    pragma = "integrity_check" if _in_depth(path, thorough=thorough) else "quick_check"
    for (line,) in connection.execute(f"PRAGMA {pragma}(5)"):
        if line != "ok":
            kind = "stale-index" if any(words in line for words in _STALE_INDEX) else "damaged"
            yield Problem(ledger=ledger, kind=kind, message=f"{path.name}: {line}")
    dangling = connection.execute("PRAGMA foreign_key_check").fetchall()
    if dangling:
        tables = ", ".join(sorted({str(row[0]) for row in dangling}))
        message = f"{path.name}: {len(dangling)} rows point at rows that are not there, in {tables}"
        yield Problem(ledger=ledger, kind="dangling", message=message)


def _in_depth(path: Path, *, thorough: bool) -> bool:
    return thorough or path.stat().st_size <= _THOROUGH_UP_TO_BYTES


def _objects(connection: apsw.Connection) -> dict[str, tuple[str, str]]:
    rows = connection.execute("SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return {name: (kind, statement) for name, kind, statement in cast("Iterator[tuple[str, str, str]]", rows)}


@cache
def _load_expected(ledger: str) -> dict[str, tuple[str, str]]:
    """Return everything that the newest schema makes, by name."""
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(sql.text(ledger, "schema.sql"))
        return _objects(connection)
    finally:
        connection.close()
