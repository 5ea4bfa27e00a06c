"""What hosts of a fleet know of each other."""

import os
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nexus.engine.shared import HomeAwayError
from nexus.hosting.limits import MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """How busy a host is, as it said with its last heartbeat."""

    open_homes: int = 0
    resident_mib: int = 0
    cpu_share: float = 0.0
    """Of all processors, 0 to 1."""
    disk_free_mib: int = 0

    @classmethod
    def of(cls, value: dict[str, Any]) -> "Load":
        known = asdict(cls())
        return cls(**{key: given for key, given in value.items() if key in known})


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetHost:
    """A host of the fleet."""

    name: str
    url: str
    version: str
    schema: int
    started_at: str
    lease_until: str
    is_alive: bool
    is_draining: bool
    homes: int
    """How many are placed on it, open or closed."""
    load: Load = field(default_factory=Load)


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """The host that a home is placed on."""

    host: str
    url: str
    is_alive: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """A home that this host has acquired."""

    epoch: int
    is_local: bool
    """The folder here is of that epoch; otherwise the home comes from a copy."""
    copies: tuple[int, ...]
    """The epochs with a complete copy, the newest first; empty: the home was never used."""
    settings: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Successor:
    """What later epochs of a home have of an earlier one."""

    epoch: int
    """The home's epoch now."""
    events_seq: int | None
    """They all have its events up to this one; None: no later epoch has begun."""
    is_replaced: bool
    """The copy of a later epoch was read back and is whole, and has what the earlier one's copy had."""


class HomeElsewhereError(HomeAwayError):
    """Another host that is alive owns the home."""

    def __init__(self, owner: Owner) -> None:
        super().__init__(f"The home is on {owner.host}", hint="Ask that host.")
        self.owner = owner


class FleetUnreachableError(HomeAwayError):
    """The Postgres of the fleet does not answer, or this host's lease has ended."""


class Busy:
    """Measures between one heartbeat and the next."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._at = time.monotonic()
        self._used_s = time.process_time()

    def load(self, open_homes: int) -> Load:
        now, used_s = time.monotonic(), time.process_time()
        spent = (used_s - self._used_s) / max(now - self._at, 0.001) / (os.cpu_count() or 1)
        self._at, self._used_s = now, used_s
        return Load(
            open_homes=open_homes,
            resident_mib=int(resident_mib()),
            cpu_share=round(min(spent, 1.0), 3),
            disk_free_mib=shutil.disk_usage(self._root).free // MIB,
        )


def resident_mib() -> float:
    pages = Path("/proc/self/statm").read_bytes().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / MIB
