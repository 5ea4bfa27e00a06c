"""Building a home's new content beside the old, from a consistent snapshot, and putting it in place."""

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import apsw

from nexus import clock, ids
from nexus.errors import CareError, HomeBusyError, LedgerFullError
from nexus.home import PRIVATE_DIRECTORY, Home, HomeLock
from nexus.ledgers import files
from nexus.ledgers.connection import keep_wal
from nexus.ledgers.failures import translate_errors

_UNFINISHED: Final = ".unfinished-"
_ARRIVAL: Final = ("config.toml", "state", "data")
# What refers is caught before what it refers to. Each file's snapshot is taken a moment after the one
# before it, so whatever a row points at in a later file was there when the row was written and is still
# there. The way back (an event's resolved sender, the request that an answer belongs to) can miss only
# what was written in the milliseconds between the snapshots; no foreign key crosses files.
ORDER: Final = ("embeddings", "memory", "agents", "runtime", "identity", "events")

_BUSY_TIMEOUT_MS = 30_000


def is_occupied(home: Home) -> bool:
    """Whether there is anything at a home's place but what an interrupted attempt left."""
    if not home.root.is_dir():
        return home.root.exists()
    return any(
        entry != home.lock_file and not entry.name.startswith(_UNFINISHED) for entry in home.root.iterdir()
    )


@contextmanager
def stage(home: Home) -> Generator[Home]:
    """Make a place in the home's folder, held alone, to build new content in; empty again at the end."""
    fresh = not home.root.exists()
    try:
        home.root.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        with HomeLock(home, "alone"):
            for left in home.root.glob(f"{_UNFINISHED}*"):
                files.remove(left)
            place = Home(home.root / f"{_UNFINISHED}{ids.new('new')}")
            place.root.mkdir(mode=PRIVATE_DIRECTORY)
            try:
                yield place
            finally:
                files.remove(place.root)
                if fresh and not is_occupied(home):
                    files.remove(home.root)
    except (OSError, LedgerFullError) as error:
        raise CareError(
            f"Can't write the home at {home.root}: {files.reason(error)}",
            hint="The existing data is unchanged. Check permissions and free disk space.",
        ) from error


def move_in(place: Home, home: Home) -> Path | None:
    """Put what was built into the home's place; returns where the old content is kept, if there was any."""
    files.sync_folders(place.root)
    old = [name for name in reversed(_ARRIVAL) if os.path.lexists(home.root / name)]
    kept = _kept_beside(home) if old else None
    moves = [(home.root / name, kept / name) for name in old] if kept else []
    moves += [(place.root / name, home.root / name) for name in _ARRIVAL if (place.root / name).exists()]
    _move(moves)
    for folder in (home.root, home.root.parent, *([kept] if kept else [])):
        files.sync_file(folder)
    home.create_files()
    return kept


def _move(moves: list[tuple[Path, Path]]) -> None:
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            source.rename(target)
            done.append((source, target))
    except BaseException:
        for source, target in reversed(done):
            target.rename(source)
        raise


def _kept_beside(home: Home) -> Path:
    """Make a folder for the old content: beside the home, or inside if the home is a disk of its own."""
    name = f"before-restore-{clock.timestamp(clock.now()).replace(':', '-')}"
    beside = home.root.with_name(f"{home.root.name}.{name}")
    same_disk = home.root.stat().st_dev == home.root.parent.stat().st_dev
    kept = beside if same_disk and os.access(home.root.parent, os.W_OK) else home.root / name
    kept.mkdir(mode=PRIVATE_DIRECTORY)
    return kept


@contextmanager
def hold_trial(home: Home) -> Generator[Home]:
    """Hold the place in which a change is tried out on a copy; what is there is deleted before and after."""
    home.require().run.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    place = Home(home.run / "preview")
    held = os.open(home.run, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HomeBusyError(
                f"Another preview of {home.root} is running", hint="Wait until it has ended."
            ) from None
        files.remove(place.root)
        try:
            yield place
        finally:
            files.remove(place.root)
    finally:
        os.close(held)


def remove_left_trial(home: Home) -> None:
    """Delete the copy that a killed process left; one that is in use deletes itself."""
    with suppress(HomeBusyError), hold_trial(home):
        pass


@contextmanager
def snapshots(
    home: Home, open_: Callable[[Path, str], apsw.Connection]
) -> Generator[dict[str, apsw.Connection]]:
    """Open a connection to each ledger that sees this moment until the end; nobody waits for it."""
    with ExitStack() as stack:
        stack.enter_context(HomeLock(home.require(), "shared"))
        connections: dict[str, apsw.Connection] = {}
        for name in ORDER:
            with translate_errors(name, home.ledger(name)):
                connections[name] = open_(home.ledger(name), name)
            stack.callback(connections[name].close)
        # All at once and only now, because opening takes longer than beginning to read.
        for name, connection in connections.items():
            with translate_errors(name, home.ledger(name)):
                connection.execute("BEGIN")
                connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
        yield connections


def as_it_is(path: Path, ledger: str) -> apsw.Connection:
    """Open a file without migrating it."""
    # Not read-only: after a crash SQLite must be able to recover the WAL before anything can be read.
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    keep_wal(connection)
    connection.execute("PRAGMA query_only = ON")
    return connection
