"""What a backup says about itself: its ledgers with their rows, its files, and the hash of each.

It is written last, so a folder without one is a backup that was not finished.
"""

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self, cast

import apsw

from nexus.errors import CareError, LedgerCorruptError, NexusError
from nexus.home import LEDGERS
from nexus.ledgers import files, migrate, sql, tables
from nexus.ledgers.failures import translate_errors

FORMAT: Final = "nexus-backup"
FORMAT_VERSION: Final = 1
NAME: Final = "manifest.json"
ENGINE: Final = "data/engine.db"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """One database of a backup."""

    schema_version: int
    size_bytes: int
    sha256: str
    rows: dict[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One file of a backup that is not a ledger; `mode` is what it had in the home."""

    size_bytes: int
    sha256: str
    mode: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """config.toml and state/. Links are kept here only, so that a backup holds plain files alone."""

    files: dict[str, File] = field(default_factory=dict[str, File])
    directories: dict[str, str] = field(default_factory=dict[str, str])
    links: dict[str, str] = field(default_factory=dict[str, str])
    left_out: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Everything that restoring needs to know before it trusts a backup."""

    nexus_version: str
    created_at: str
    ledgers: dict[str, Ledger]
    tree: Tree
    # The engine's database, where it lies in the home and there is one.
    engine: File | None = None

    @property
    def databases(self) -> dict[str, Ledger | File]:
        """Every database by its path in the backup."""
        found: dict[str, Ledger | File] = {f"data/{name}.db": part for name, part in self.ledgers.items()}
        return found | ({ENGINE: self.engine} if self.engine else {})

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in (*self.databases.values(), *self.tree.files.values()))

    @property
    def rows(self) -> int:
        return sum(sum(ledger.rows.values()) for ledger in self.ledgers.values())

    def write(self, folder: Path) -> None:
        content = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(self)}
        with files.new(folder / NAME) as stream:
            stream.write(json.dumps({**content, "sha256": _hash(content)}, indent=2).encode())
            files.sync(stream)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the manifest of a backup, or an error that says why the folder cannot be used as one."""
        try:
            return cls._parse(json.loads((folder / NAME).read_bytes()))
        except (FileNotFoundError, NotADirectoryError) as error:
            if not folder.is_dir():
                raise CareError(f"No such folder: {folder}", hint="Check the path.") from error
            raise CareError(
                f"{folder} is not a complete backup: {NAME} is missing",
                hint="Check the path, or use another backup.",
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CareError(f"{folder / NAME} is damaged", hint="Use another backup.") from error

    @classmethod
    def _parse(cls, content: dict[str, Any]) -> Self:
        if content.pop("sha256") != _hash(content):
            raise ValueError("these are not the bytes that were written")
        if (content.pop("format"), content.pop("format_version")) != (FORMAT, FORMAT_VERSION):
            raise CareError(
                "The backup was created by a newer Nexus",
                hint="Install that version or a later one.",
            )
        tree = content.pop("tree")
        ledgers = {name: Ledger(**ledger) for name, ledger in content.pop("ledgers").items()}
        kept = {path: File(**file) for path, file in tree.pop("files").items()}
        engine = content.pop("engine", None)
        manifest = cls(
            **content,
            ledgers=ledgers,
            tree=Tree(**tree, files=kept),
            engine=File(**engine) if engine else None,
        )
        if set(ledgers) != set(LEDGERS):
            raise ValueError("a home has six ledgers")
        # A manifest may come from anywhere: nothing that it names may lie outside of a home.
        for path in (*kept, *manifest.tree.directories, *manifest.tree.links):
            files.check_path(path)
        for mode in (*(file.mode for file in kept.values()), *manifest.tree.directories.values()):
            int(mode, 8)
        return manifest


def _hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


_READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def check(folder: Path) -> tuple[Manifest, list[str]]:
    """Return what a backup says about itself, and everything in which it differs from that."""
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


def require_intact(folder: Path) -> Manifest:
    """Return the manifest of a backup that is whole and that this program can use, or an error."""
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
    if 0 < recorded < sql.BASELINE:
        raise CareError(
            f"The backup is from before Nexus 0.1.0: its {name} ledger has schema {recorded}",
            hint="Restore it with the checkout that made it and run `nexus export home.jsonl.gz` there. Then "
            "run `nexus import home.jsonl.gz` with this program.",
        )
    if recorded > newest:
        return [f"the {name} ledger has schema {recorded}, newer than this program's {newest}: update Nexus"]
    try:
        with translate_errors(name, path):
            found = examine(path, name)
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


def examine(path: Path, name: str) -> tuple[int, dict[str, int]]:
    """Return the schema version and the rows of a ledger's file that is sound. It must have no WAL.

    The file is opened as one that nobody changes: nothing is written beside it, so a backup can be
    checked where it lies, on a disk that is write-protected too.
    """
    with closing(_at_rest(path)) as connection:
        version = migrate.version(connection, name)
        _require_sound(connection, name)
        return version, tables.counts(connection)


def require_sound(path: Path, name: str) -> None:
    """Refuse a ledger's file that is damaged. It must have no WAL."""
    with translate_errors(name, path), closing(_at_rest(path)) as connection:
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
