"""A consistent copy of a live home.

These functions wait for the disk: in a program with an event loop they belong on a thread.
"""

import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import cast

import apsw

from nexus import __version__, clock, ids
from nexus.errors import CareError, LedgerFullError
from nexus.home import LEDGERS, PRIVATE_DIRECTORY, Home
from nexus.ledgers import files
from nexus.ledgers.backup import encryption
from nexus.ledgers.backup.manifest import ENGINE, File, Ledger, Manifest, Tree, engine_problems, examine
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.staging import as_it_is, hold_trial, snapshots

_BUSY_TIMEOUT_S = 30
Progress = Callable[[int, int], None]

# How much is copied between two reports of progress: 4 MiB.
_PAGES_AT_A_TIME = 1024


@contextmanager
def snapshot(home: Home) -> Generator[sqlite3.Connection | None]:
    """Open a connection that sees the engine's database as it is now; None where there is none."""
    if not home.engine_file.is_file():
        yield None
        return
    with closing(sqlite3.connect(home.engine_file, timeout=_BUSY_TIMEOUT_S, isolation_level=None)) as source:
        with _explain_failures(home):
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        yield source


def copy(source: sqlite3.Connection, target: Path, home: Home) -> File:
    """Copy what the snapshot sees, and check it."""
    files.new(target).close()
    with _explain_failures(home), closing(sqlite3.connect(target)) as made:
        source.backup(made)
        # A backup holds one file for each database, and no log beside it.
        made.execute("PRAGMA journal_mode = DELETE")
    if problems := engine_problems(target):
        raise CareError(problems[0], hint="Run `nexus doctor`; a restored backup of it would not work.")
    files.sync_file(target)
    return File(size_bytes=target.stat().st_size, sha256=files.sha256(target), mode="0600")


@contextmanager
def _explain_failures(home: Home) -> Generator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise CareError(
            f"The engine's database at {home.engine_file} could not be copied: {error}",
            hint="Run `nexus doctor`: it checks the file and the disk.",
        ) from error


def make(
    home: Home,
    destination: Path,
    progress: Progress = lambda done, total: None,
    *,
    encrypt_to: Iterable[str] = (),
) -> Manifest:
    """Copy a home, which others may be writing to, into a new folder: complete, or not at all.

    With public keys to encrypt to, it becomes one file that only their holders can read.
    """
    destination = destination.expanduser().resolve()
    keys = list(encrypt_to)
    recipients = encryption.parse_recipients(keys) if keys else []
    _refuse_unusable(home.require(), destination)
    if recipients and destination.exists():
        raise CareError(f"{destination} already exists", hint="An encrypted backup is one new file.")
    building = destination.with_name(f".{destination.name}.unfinished-{ids.new('bak')}")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        try:
            if recipients:
                with encryption.private_folder(home) as folder:
                    manifest = _fill(home, folder, progress)
                    manifest.write(folder)
                    encryption.encrypt(folder, building, recipients)
            else:
                building.mkdir(mode=PRIVATE_DIRECTORY)
                manifest = _fill(home, building, progress)
                manifest.write(building)
                files.sync_folders(building)
            # Takes the place of an empty folder; one that was filled meanwhile is refused.
            building.rename(destination)
        except BaseException:
            files.remove(building)
            building.unlink(missing_ok=True)
            raise
        files.sync_file(destination.parent)
        if not recipients:  # a ledger is repaired from what can be read without a key
            record_backup(home, destination)
    except (OSError, LedgerFullError) as error:
        raise CareError(
            f"Can't create the backup at {destination}: {files.reason(error)}",
            hint="Nothing was kept. Choose a writable folder with enough disk space.",
        ) from error
    return manifest


def _refuse_unusable(home: Home, destination: Path) -> None:
    parent = destination if destination.is_dir() else destination.parent
    example = parent / clock.now().strftime("nexus-%Y-%m-%d")
    hint = f"Use a new folder: `nexus backup {example}`."
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise CareError(f"{destination} is not an empty folder", hint=hint)
    if destination.is_mount():
        raise CareError(f"{destination} is the root of a disk; a backup needs a folder", hint=hint)
    for own in (home.data, home.state):
        if destination.is_relative_to(own.resolve()):
            raise CareError(
                f"{destination} is inside the home",
                hint="Use a folder outside the home, preferably on another disk.",
            )


@contextmanager
def private_copy(home: Home) -> Generator[Home]:
    """Copy the ledgers as they are now into a home of their own, to try something out; deleted at the end.

    Nothing of the home changes, not even a WAL that a crash left. There is one copy at a time.
    """
    with hold_trial(home) as place:
        _copy_ledgers(home, place)
        yield place


def _copy_ledgers(home: Home, place: Home) -> None:
    try:
        place.create_files()
        with snapshots(home, _open_untouched) as sources:
            for name, source in sources.items():
                for _ in _copy_ledger(source, place.ledger(name), name):
                    pass
    except (OSError, LedgerFullError) as error:
        raise CareError(
            f"Can't copy the ledgers to {place.root}: {files.reason(error)}",
            hint="Nothing was changed. The disk needs room for a second copy of them.",
        ) from error


def _open_untouched(path: Path, ledger: str) -> apsw.Connection:
    """Open a file and leave it as it is when closing, with its WAL or without one."""
    if path.with_name(f"{path.name}-wal").exists():
        connection = as_it_is(path, ledger)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        return connection
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _fill(home: Home, building: Path, progress: Progress) -> Manifest:
    created_at = clock.timestamp(clock.now())
    # The engine refers to runs in the runtime ledger, so it is caught before: a run that it does not know
    # yet is handed to it again when the home is served.
    with snapshot(home) as work, snapshots(home, as_it_is) as sources:
        engine_copy = copy(work, building / ENGINE, home) if work else None
        total = sum(
            cast("int", source.pragma("page_count")) * cast("int", source.pragma("page_size"))
            for source in sources.values()
        )
        done = 0
        for name, source in sources.items():
            for more in _copy_ledger(source, building / f"data/{name}.db", name):
                done += more
                progress(done, total)
        # After the ledgers, because these refer to files: an automation to its script.
        tree = _copy_tree(home, building)
    ledgers = {name: _describe_copy(building / f"data/{name}.db", name, home) for name in LEDGERS}
    return Manifest(
        nexus_version=__version__, created_at=created_at, ledgers=ledgers, tree=tree, engine=engine_copy
    )


def _copy_ledger(source: apsw.Connection, target: Path, ledger: str) -> Iterator[int]:
    """Copy one database through SQLite; tells how many bytes each step brought.

    The source is inside a read transaction, so every step sees the same snapshot and no write by
    another process makes SQLite start over.
    """
    files.new(target).close()
    with translate_errors(ledger, target):
        copy = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            copy.execute("PRAGMA synchronous = OFF")
            with copy.backup("main", source, "main") as work:
                copied, page_bytes = 0, cast("int", source.pragma("page_size"))
                while not work.done:
                    work.step(_PAGES_AT_A_TIME)
                    before, copied = copied, work.page_count - work.remaining
                    yield (copied - before) * page_bytes
        finally:
            copy.close()
    files.sync_file(target)


def _describe_copy(copy: Path, ledger: str, home: Home) -> Ledger:
    """Return what the manifest says about a copy; one that could not be restored is refused now."""
    # Damage in the copy is damage in the home, so that is what the message must name.
    with translate_errors(ledger, home.ledger(ledger)):
        version, rows = examine(copy, ledger)
    return Ledger(
        schema_version=version, size_bytes=copy.stat().st_size, sha256=files.sha256(copy), rows=rows
    )


def _copy_tree(home: Home, building: Path) -> Tree:
    tree = Tree()
    for entry in files.entries(home):
        # Agents work on meanwhile: a file that is gone by now is no longer part of the home.
        with suppress(FileNotFoundError):
            if entry.kind == "file":
                size_bytes, sha256 = files.copy(home.root / entry.path, building / entry.path)
                tree.files[entry.path] = File(size_bytes=size_bytes, sha256=sha256, mode=entry.mode)
            elif entry.kind == "directory":
                files.folder(building / entry.path)
                tree.directories[entry.path] = entry.mode
            elif entry.kind == "link":
                tree.links[entry.path] = str((home.root / entry.path).readlink())
            else:
                tree.left_out.append(entry.path)
    return tree


def record_backup(home: Home, folder: Path) -> None:
    """Remember where a backup was put."""
    known = [line for line in files.list_backups(home) if line != str(folder)]
    with suppress(OSError):  # the backup is whole without it
        lines = "".join(f"{line}\n" for line in [*known, folder])
        home.backups_file.write_text(lines, encoding="utf-8")
