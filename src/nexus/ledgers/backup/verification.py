"""The check that a backup is whole and that this program can use it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import cast

import apsw

from nexus.errors import CareError, LedgerCorruptError, NexusError
from nexus.home import LEDGERS
from nexus.ledgers import files, migrate, tables
from nexus.ledgers.backup.manifest import ENGINE, File, Ledger, Manifest
from nexus.ledgers.failures import translated

_READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def check(folder: Path) -> tuple[Manifest, list[str]]:
    """What a backup says about itself, and everything in which it differs from that."""
    manifest = Manifest.read(folder)
    problems: list[str] = []
    for name in LEDGERS:
        path, ledger = folder / f"data/{name}.db", manifest.ledgers[name]
        problems += _bytes_differ(path, f"data/{name}.db", ledger) or ledger_problems(path, name, ledger)
    if manifest.engine is not None:
        path = folder / ENGINE
        problems += _bytes_differ(path, ENGINE, manifest.engine) or engine_problems(path)
    for path, file in manifest.tree.files.items():
        problems += _bytes_differ(folder / path, path, file)
    return manifest, problems


def verified(folder: Path) -> Manifest:
    """The manifest of a backup that is whole and that this program can use, or an error."""
    manifest, problems = check(folder)
    if problems:
        raise CareError(
            f"Backup {folder} is damaged: {'; '.join(problems)}",
            hint="Nothing changed. Use another backup; check it with `nexus backup --verify`.",
        )
    return manifest


def ledger_problems(path: Path, name: str, ledger: Ledger) -> list[str]:
    """Whether a ledger's file is sound and holds what its backup said."""
    recorded, newest = ledger.schema_version, migrate.latest(name)
    if recorded > newest:
        return [f"the {name} ledger has schema {recorded}, newer than this program's {newest}: update Nexus"]
    try:
        with translated(name, path):
            found = examined(path, name)
    except NexusError as error:
        return [error.message]
    if found != (ledger.schema_version, ledger.rows):
        return [f"the {name} ledger does not hold the rows that were copied"]
    return []


def engine_problems(path: Path) -> list[str]:
    """Whether a copy of the engine's database is sound."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
    try:
        found = [str(line) for (line,) in connection.execute("PRAGMA integrity_check(5)")]
    except sqlite3.DatabaseError as error:
        found = [str(error)]
    finally:
        connection.close()
    return [] if found == ["ok"] else [f"the engine's database is damaged: {'; '.join(found)}"]


def examined(path: Path, name: str) -> tuple[int, dict[str, int]]:
    """The schema version and the rows of a ledger's file that is sound. It must have no WAL.

    The file is opened as one that nobody changes: nothing is written beside it, so a backup can be
    checked where it lies, on a disk that is write-protected too.
    """
    with closing(_at_rest(path)) as connection:
        version = migrate.version(connection, name)
        _require_sound(connection, name)
        return version, tables.counts(connection)


def require_sound(path: Path, name: str) -> None:
    """Refuse a ledger's file that is damaged. It must have no WAL."""
    with translated(name, path), closing(_at_rest(path)) as connection:
        _require_sound(connection, name)


def _at_rest(path: Path) -> apsw.Connection:
    return apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=_READ_ONLY)


def _require_sound(connection: apsw.Connection, name: str) -> None:
    found = [cast("str", line) for (line,) in connection.execute("PRAGMA integrity_check(5)")]
    if found != ["ok"]:
        raise LedgerCorruptError(
            f"The {name} ledger is damaged: {'; '.join(found)}",
            hint="Run `nexus doctor`. The files can still be copied by hand while no program uses them.",
        )


def _bytes_differ(path: Path, name: str, recorded: File | Ledger) -> list[str]:
    if path.is_symlink() or not path.is_file():
        return [f"{name} is missing"]
    size_bytes = path.stat().st_size
    if size_bytes != recorded.size_bytes:
        return [f"{name} has {size_bytes} bytes instead of {recorded.size_bytes}"]
    return [] if files.sha256(path) == recorded.sha256 else [f"{name} is not the file that was copied"]
