"""This host's place in its fleet: a lease that a thread renews, and the right to write that hangs on it.

The host may act until its deadline: the moment before a renewal was sent, plus the lease, minus a margin. Its
lease in Postgres ends later, so when another host takes a home, this one has stopped writing to it. A lease
that has ended isn't renewed: every home is closed, and the host joins again under a new lease.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from nexus import hosted, ids
from nexus.engine.shared import HomeAwayError
from nexus.errors import FencedError, HomeError, UsageError
from nexus.home import PRIVATE_DIRECTORY, Home
from nexus.hosting.fleet.records import FleetUnreachableError, Holding, Load
from nexus.hosting.fleet.registry import FleetRegistry
from nexus.hosting.replication import last_event
from nexus.ledgers import fencing
from nexus.watch import repeat

_RENEWALS: Final = 4
"""How many times a lease is renewed in its length."""
_MARGIN: Final = 0.2
_RETRY_S: Final = 0.5
_log = logging.getLogger("nexus.fleet")


@dataclass(frozen=True, kw_only=True)
class FleetSettings:
    """What `nexus host serve` is told of the fleet."""

    url: str
    """Of its Postgres."""
    name: str
    """Of this host; each has its own."""
    internal_url: str = ""
    """Where the other hosts reach this one; empty: where it listens."""
    lease_s: float = 15.0


@dataclass(eq=False)
class HomeFence:
    """The right to write to one home: until the lease that it was acquired under ends."""

    fleet: "Fleet"
    epoch: int
    incarnation: str

    def check(self) -> None:
        if not self.holds:
            raise FencedError(
                "This host's lease on the home has ended", hint="Try again: another host may have the home."
            )

    @property
    def holds(self) -> bool:
        return self.fleet.is_member and self.incarnation == self.fleet.registry.incarnation


class Fleet:
    """A host's membership while the context lasts."""

    def __init__(self, registry: FleetRegistry, settings: FleetSettings, load: Callable[[], Load]) -> None:
        self.registry = registry
        self.name = settings.name
        self.url = settings.internal_url
        self.lost: Callable[[], Awaitable[None]] = _nothing
        """Closes every home. Called when the lease has ended, before the host joins again."""
        self._lease_s = settings.lease_s
        self._load = load
        self._beats = FleetRegistry(registry.root, settings.url, settings.name)
        self._deadline = 0.0
        self._ended = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def lease_age_s(self) -> float:
        """Seconds since the renewal was sent that the lease hangs on."""
        return _now() - (self._deadline - self._lease_s * (1 - _MARGIN))

    @property
    def is_member(self) -> bool:
        """Whether the lease holds."""
        return not self._ended and _now() < self._deadline

    @property
    def look_s(self) -> float:
        """How often to look for what changed in the fleet."""
        return self._lease_s / _RENEWALS

    async def start(self) -> None:
        """Join, and stay in the fleet until the context ends. Call it once others can reach the host."""
        if not self.url:
            raise UsageError("The other hosts need a URL of this one", hint="Pass --internal-url.")
        await self._join()
        watch = repeat(self._watch, _log, "the host could not join its fleet again", pause_s=_RETRY_S)
        self._watching = asyncio.create_task(watch, name="fleet")

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._beats.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave: the homes are closed, so others need not wait for the end of the lease."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        self._stopping.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        if self.is_member:
            with suppress(HomeAwayError):
                await asyncio.to_thread(self.registry.leave)
        self._ended = True
        await asyncio.to_thread(self._beats.__exit__, None, None, None)

    # Homes.

    def acquire(self, home_id: str, home: Home) -> tuple[Holding, HomeFence]:
        """Own a home, with a folder here or without. Waits for the disk and the network.

        A folder that is not of the current epoch is set aside: what was accepted there and is nowhere
        else is salvaged.
        """
        if not self.is_member:
            raise FleetUnreachableError("This host is not in its fleet", hint="Try again in a moment.")
        incarnation = self.registry.incarnation
        held = self.registry.acquire(home_id, self.local_epoch(home_id, home))
        if held is None:
            raise HomeError("There is no such home")
        if not held.is_local and home.root.exists():
            self.set_aside(home)
        return held, HomeFence(self, held.epoch, incarnation)

    def begin(self, home_id: str, home: Home, epoch: int, base: int | None) -> None:
        """Begin an epoch in a home that was just made or restored, before anything is written to it."""
        hosted.settle(home, hosted.Place.of(self.registry.root, home_id))
        # Before the folder is of that epoch: what it was restored from is known from then on.
        self.registry.note_epoch(home_id, epoch, last_event(home), base)
        fencing.stamp(home, epoch)

    def local_epoch(self, home_id: str, home: Home) -> int | None:
        """The epoch of the folder here; None where it isn't the home's, or not complete."""
        place = hosted.place(home)
        return fencing.read_epoch(home) if place is not None and place.id == home_id else None

    @property
    def stale(self) -> Path:
        """Folders of homes that others own by now."""
        return self.registry.root / "stale"

    def set_aside(self, home: Home) -> None:
        self.stale.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        home.root.rename(self.stale / f"{home.root.name}.{ids.new('old')}")

    # The lease.

    async def _join(self) -> None:
        folder_id = await asyncio.to_thread(_folder_id, self.registry.root)
        told = False
        while True:
            before = _now()
            try:
                joined = await asyncio.to_thread(
                    self.registry.join, url=self.url, folder_id=folder_id, lease_s=self._lease_s
                )
            except FleetUnreachableError:
                joined = False
            if joined:
                break
            if not told:
                told = True
                _log.warning("waiting for Postgres, or for the lease of another process with our name")
            await asyncio.sleep(_RETRY_S)
        self._beats.incarnation = self.registry.incarnation
        self._extend(before)
        self._ended = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat, args=[self._stopping], name="fleet", daemon=True)
        self._thread.start()
        _log.info("joined the fleet", extra={"host": self.name})

    def _extend(self, before: float) -> None:
        self._deadline = before + self._lease_s * (1 - _MARGIN)

    def _beat(self, stopping: threading.Event) -> None:
        """Renew the lease until it has ended. On a thread: the loop may be busy, and so may its threads."""
        while not stopping.wait(self.look_s) and not self._ended:
            before = _now()
            try:
                renewed = self._beats.renew(self._lease_s, self._load())
                if stopping.is_set():
                    return
                if renewed:
                    self._extend(before)
                else:
                    self._ended = True
            except FleetUnreachableError as error:
                _log.warning("the lease could not be renewed: %s", error)
            except Exception:  # whatever it is, without this thread the host would lose its homes
                _log.exception("the lease could not be renewed")

    async def _watch(self) -> None:
        """See the end of the lease, let go of every home, and join again."""
        while self.is_member:  # noqa: ASYNC110 - another thread renews it
            await asyncio.sleep(min(max(self._deadline - _now(), 0.05), self.look_s))
        self._ended = True
        self._stopping.set()
        _log.error("the lease has ended: every home is closed until the host has joined again")
        try:
            await self.lost()
        except Exception:
            # Nothing can be written under the old lease: whatever stayed open is closed when it is used.
            _log.exception("a home was not closed")
        await self._join()


async def _nothing() -> None:
    pass


def _now() -> float:
    # Unlike the monotonic clock it goes on while the machine sleeps.
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _folder_id(root: Path) -> str:
    """What tells this folder from others under the same name of a host."""
    file = root / "run" / "folder-id"
    if not file.exists():
        file.write_text(ids.new("dir"), encoding="utf-8")
    return file.read_text(encoding="utf-8")
