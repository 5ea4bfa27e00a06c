"""Building a home's new content inside its folder, and moving it into place in one go.

A home exists from the moment its data/ does. So data/ leaves first and arrives last: whoever looks,
also after a crash in between, finds the old home, the new one, or none, and never a mixture.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from nexus import clock, ids
from nexus.errors import CareError, LedgerFullError
from nexus.home import PRIVATE_DIRECTORY, Home, HomeLock
from nexus.ledgers import files

_UNFINISHED: Final = ".unfinished-"
_ARRIVAL: Final = ("config.toml", "state", "data")


def occupied(home: Home) -> bool:
    """Whether there is anything at a home's place but what an interrupted attempt left."""
    if not home.root.is_dir():
        return home.root.exists()
    return any(not _may_go(entry, home) for entry in home.root.iterdir())


@contextmanager
def staged(home: Home) -> Generator[Home]:
    """A place inside the home's folder, held alone, where new content is built; empty again at the end."""
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
                if fresh and not occupied(home):
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
    home.create()
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
    """A new folder for the old content: beside the home, or inside where the home is a disk of its own."""
    name = f"before-restore-{clock.timestamp(clock.now()).replace(':', '-')}"
    beside = home.root.with_name(f"{home.root.name}.{name}")
    same_disk = home.root.stat().st_dev == home.root.parent.stat().st_dev
    kept = beside if same_disk and os.access(home.root.parent, os.W_OK) else home.root / name
    kept.mkdir(mode=PRIVATE_DIRECTORY)
    return kept


def _may_go(entry: Path, home: Home) -> bool:
    return entry == home.lock_file or entry.name.startswith(_UNFINISHED)
