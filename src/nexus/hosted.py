"""Whether a home is hosted: then its work is in its host's engine, with that of other homes.

The host records this in the home's `run`, which no backup contains: a restored copy isn't hosted.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from nexus.home import PRIVATE_FILE, Home


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a hosted home's work is."""

    id: str
    """The home's id in its host."""
    root: str
    """The host's folder."""

    @classmethod
    def of(cls, root: Path, id_: str) -> Self:
        return cls(id=id_, root=str(root))

    @property
    def engine(self) -> Path:
        """The database of the host's engine."""
        return Path(self.root) / "engine.db"


def place(home: Home) -> Place | None:
    """Return where a home's work is; None if it isn't hosted."""
    try:
        return Place(**json.loads(_file(home).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def has_copies(home: Home) -> bool:
    """Return whether Litestream copies a home, or did: it keeps a folder beside each ledger."""
    return any(home.data.glob(".*-litestream"))


def settle(home: Home, at: Place) -> None:
    """Record that a home is hosted."""
    if place(home) == at:
        return
    new = _file(home).with_suffix(".new")
    new.write_text(json.dumps(asdict(at)), encoding="utf-8")
    new.chmod(PRIVATE_FILE)
    new.replace(_file(home))


def _file(home: Home) -> Path:
    return home.run / "host.json"
