"""What forgetting cannot reach: files of the home, outside the ledgers, that still name the target."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nexus.home import LEDGERS, Home
from nexus.ledgers.forgetting.names import Names, fold

_CHUNK_BYTES: Final = 1024 * 1024
# A name that lies across two chunks is found in the second one, which begins with the end of the first.
_OVERLAP_BYTES: Final = 1024
# Shorter names turn up in any bytes.
_LEAST_IN_BYTES: Final = 4
_BINARY: Final = re.compile(rb"\0")


def files(home: Home, names: Names) -> list[Path]:
    """The files below the home that hold one of the names, relative to it."""
    if not names.all:
        return []
    return [path.relative_to(home.root) for path in _candidates(home) if _holds(path, names)]


def _candidates(home: Home) -> Iterator[Path]:
    ledgers = {f"{home.ledger(name)}{end}" for name in LEDGERS for end in ("", "-wal", "-shm")}
    for path in sorted(home.root.rglob("*")):
        if path.is_file() and not path.is_symlink() and str(path) not in ledgers:
            yield path


def _holds(path: Path, names: Names) -> bool:
    long = [fold(name) for name in names.all if len(name) >= _LEAST_IN_BYTES]
    try:
        with path.open("rb") as stream:
            before = b""
            while chunk := stream.read(_CHUNK_BYTES):
                text = (before + chunk).decode("utf-8", "replace")
                # In binary files, such as databases, words stand without edges.
                if _BINARY.search(chunk):
                    if any(name in fold(text) for name in long):
                        return True
                elif names.found(text):
                    return True
                before = chunk[-_OVERLAP_BYTES:]
    except OSError:
        # What cannot be read cannot be cleared of suspicion.
        return True
    return False
