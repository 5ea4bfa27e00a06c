"""The open homes of a host: each is opened when there is something to do, and closed when it is idle.

A home is in use while a lease is held, by a request or by an execution. Of the others the longest unused is
closed first, when there are too many, when they take too much memory, or after a while.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from nexus import clock, config, heap, hosted
from nexus.app import App, Shared
from nexus.automations import timing
from nexus.channels.webhook import Webhook
from nexus.engine.shared import HomeAwayError, SharedEngine
from nexus.errors import HomeError, NexusError
from nexus.home import Home
from nexus.hosting.confinement import confined
from nexus.hosting.embedders import Embedders
from nexus.hosting.limits import MIB, Limits
from nexus.hosting.registry import Registry
from nexus.hosting.replication import ReplicaError, Replicas
from nexus.ledgers import staging
from nexus.ledgers.threads import Workers
from nexus.serving import Serving

# A home that could not be opened is tried again after that.
_PAUSE_S: Final = 30.0
_LOOK_S: Final = 1.0
# Opening takes the processor: more at a time would only all be later.
_OPENED_AT_ONCE: Final = 8
_MEASURE_EVERY_S: Final = 60.0
# What a home does by itself follows its last use by so much, and then waits for the next.
REST: Final = timedelta(hours=1)
_log = logging.getLogger("nexus.host")


class UnknownHomeError(HomeError):
    """There is no such home, or no longer."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much may be open."""

    homes: int = 256
    """The most that stay open while others are wanted. Homes in use are never closed for it."""
    memory_mib: int = 4096
    """Resident memory of the process, above which idle homes are closed, and none is opened without that."""
    idle_s: float = 60.0


@dataclass(eq=False)
class OpenHome:
    """A home that is open, or about to be."""

    id: str
    name: str = ""
    leases: int = 0
    used_at: float = 0.0
    limits: Limits = field(default_factory=Limits)
    size_bytes: int = 0
    measured_at: float = 0.0
    keeps_open: bool = False
    left_out: list[str] = field(default_factory=list[str])
    closing: "asyncio.Task[None] | None" = None
    opening: "asyncio.Task[None] | None" = None
    following: "asyncio.Task[None] | None" = None
    """Makes its copy complete, where copies are kept."""
    on_close: AsyncExitStack = field(default_factory=AsyncExitStack)
    """What others attach to the open home, such as sessions of the gateway; ended before it is closed."""
    active_at: datetime | None = None
    _app: App | None = None

    @property
    def app(self) -> App:
        assert self._app is not None  # noqa: S101 - an invariant, for the reader and the type checker
        return self._app

    @property
    def is_full(self) -> bool:
        """Whether it takes more of the disk than it may."""
        return bool(self.limits.disk_mib) and self.size_bytes > self.limits.disk_mib * MIB

    @property
    def is_idle(self) -> bool:
        return not (self.leases or self.keeps_open or self.closing) and (
            self._app is not None and self._app.is_settled
        )

    def attach(self, app: App) -> None:
        self._app = app


class Pool:
    """Use as `async with pool.use(home_id) as opened: opened.app…`."""

    def __init__(
        self,
        registry: Registry,
        engine: SharedEngine,
        threads: Workers,
        bounds: Bounds,
        *,
        url_of: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._registry = registry
        self._engine = engine
        self._threads = threads
        self._bounds = bounds
        self.url_of = url_of
        self.copies: Replicas | None = None
        self._embedders = Embedders()
        self._homes: dict[str, OpenHome] = {}
        self._stacks: dict[str, AsyncExitStack] = {}
        self._ending = False
        self._reaper: asyncio.Task[None] | None = None
        self._opening = asyncio.Semaphore(_OPENED_AT_ONCE)

    def __len__(self) -> int:
        return len(self._homes)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._homes

    def start(self) -> None:
        self._reaper = asyncio.create_task(self._reap(), name="host-pool")

    async def close(self) -> None:
        """Close every home. Call it when nothing is asked of them any more."""
        self._ending = True
        if self._reaper is not None:
            self._reaper.cancel()
            with suppress(asyncio.CancelledError):
                await self._reaper
        for opened in list(self._homes.values()):
            if opened.opening is not None:
                await asyncio.wait({opened.opening})
        await asyncio.gather(*(self._closed(each) for each in list(self._homes.values())))

    @asynccontextmanager
    async def use(self, id_: str, *, active: bool = True) -> AsyncGenerator[OpenHome]:
        """A home, open for as long as the context lasts.

        With `active` something may change in it, so what it does by itself goes on.
        """
        opened = await self._leased(id_)
        try:
            if active:
                await self._rouse(opened)
            yield opened
        finally:
            opened.leases -= 1
            opened.used_at = time.monotonic()

    async def evict(self, id_: str) -> None:
        """Close a home once it is not in use, and keep it closed as long as it is suspended."""
        self._engine.suspended.add(id_)
        while (opened := self._homes.get(id_)) is not None:
            if opened.leases == 0 and opened.opening is None:
                await self._closed(opened)
            else:
                await asyncio.sleep(0.05)

    def redact(self, text: str) -> str:
        """Take the secrets of the open homes out of a text."""
        for opened in list(self._homes.values()):
            if opened.opening is None:
                text = opened.app.models.redact(text)
        return text

    async def _leased(self, id_: str) -> OpenHome:
        while True:
            if self._ending:
                raise HomeAwayError("The host is stopping", hint="Try again in a moment.")
            opened = self._homes.get(id_)
            if opened is None:
                opened = self._homes[id_] = OpenHome(id=id_)
                opened.opening = asyncio.create_task(self._open(opened))
            if opened.closing is not None:
                await asyncio.wait({opened.closing})
                continue
            opened.leases += 1
            try:
                if opened.opening is not None:
                    # Others may wait for the same home: whoever gives up doesn't end it for them.
                    await asyncio.shield(opened.opening)
            except BaseException:
                opened.leases -= 1
                raise
            return opened

    async def _open(self, opened: OpenHome) -> None:
        try:
            async with self._opening:
                await self._make_room(opened)
                await self._enter(opened)
        except UnknownHomeError:
            del self._homes[opened.id]
            raise
        except HomeAwayError:
            del self._homes[opened.id]
            self._suspend(opened.id, _LOOK_S)
            raise
        except Exception as error:
            del self._homes[opened.id]
            self._suspend(opened.id, _PAUSE_S)
            problem = error.message if isinstance(error, NexusError) else type(error).__name__
            _log.warning("a home can't be opened", exc_info=error, extra={"home": opened.id})
            await asyncio.to_thread(self._registry.failed, opened.id, problem)
            raise HomeAwayError("The home can't be opened", hint="Its host's log says why.") from error
        finally:
            opened.opening = None

    async def _enter(self, opened: OpenHome) -> None:
        found = await asyncio.to_thread(self._registry.get, opened.id)
        if found is None:
            raise UnknownHomeError("There is no such home")
        opened.name, opened.limits = found.name, found.limits
        home = self._registry.home(found.name)
        if self.copies is not None and not await asyncio.to_thread(staging.occupied, home):
            await self.copies.bring_back(opened.id, home)
            _log.warning("a home was brought back from its copy", extra={"home": opened.id})
        # Before anything can be accepted for it: what a crash leaves there is found by this mark.
        await asyncio.to_thread(self._registry.opened, opened.id)
        async with AsyncExitStack() as opening:
            serving = opening.enter_context(Serving(home.require()))
            if self.copies is not None:
                # Whoever wants the home doesn't wait: a copy is behind by a moment at all times.
                opened.following = asyncio.create_task(self.copies.follow(opened.id, home))
                opening.push_async_callback(self._leave_copy, opened)
            settings = await asyncio.to_thread(self._settings, opened, home)
            shared = Shared(
                engine=self._engine.of_home(opened.id),
                threads=self._threads,
                open_model=self._embedders.opener(settings.memory),
                forgotten=partial(self._forget_in_copy, opened),
            )
            app = App(home, settings, memory_socket=True, shared=shared)
            await opening.enter_async_context(app)
            serving.tell(self.url_of(found.name))
            opened.attach(app)
            opened.keeps_open = any(not isinstance(each, Webhook) for each in app.adapters.made.values())
            await asyncio.to_thread(self._registry.settled, opened.id, keeps_open=opened.keeps_open)
            self._stacks[opened.id] = opening.pop_all()
        opened.used_at = time.monotonic()
        await self.measure(opened)

    async def _forget_in_copy(self, opened: OpenHome) -> None:
        if self.copies is not None and opened.following is not None:
            await opened.following
            await self.copies.forget(opened.id)

    async def _leave_copy(self, opened: OpenHome) -> None:
        """Bring the copy of a home up to date, once the home is closed."""
        try:
            if self.copies is not None and opened.following is not None:
                await opened.following
                await self.copies.leave(opened.id)
        except ReplicaError as error:
            _log.warning("the copy of a home is not up to date: %s", error, extra={"home": opened.id})

    def _settings(self, opened: OpenHome, home: Home) -> config.Config:
        hosted.settle(home, hosted.Place.of(self._registry.root, opened.id))
        found = confined(config.load(home.config_file), home, opened.limits, self.url_of(opened.name))
        opened.left_out = found.left_out
        return found.config

    async def _rouse(self, opened: OpenHome) -> None:
        is_first, opened.active_at = opened.active_at is None, clock.now()
        if is_first:
            await opened.app.engine.schedules.rouse(opened.active_at)

    async def _make_room(self, wanted: OpenHome) -> None:
        """Close what has been idle longest, where there is too much open."""
        while len(self._homes) > self._bounds.homes or _resident_mib() > self._bounds.memory_mib:
            idle = [each for each in self._homes.values() if each is not wanted and each.is_idle]
            if not idle:
                break
            await self._closed(min(idle, key=lambda each: each.used_at))
            if _resident_mib() > self._bounds.memory_mib:
                await asyncio.to_thread(heap.give_back)
        if _resident_mib() > self._bounds.memory_mib:
            raise HomeAwayError("The host is at its memory limit", hint="Try again in a moment.")

    def _suspend(self, id_: str, pause_s: float) -> None:
        """Leave a home's work in its queue for a while."""
        self._engine.suspended.add(id_)
        asyncio.get_running_loop().call_later(pause_s, self._resume, id_)

    def _resume(self, id_: str) -> None:
        self._engine.suspended.discard(id_)
        self._engine.announce()

    async def _closed(self, opened: OpenHome) -> None:
        if opened.closing is None:
            opened.closing = asyncio.create_task(self._close(opened))
        await asyncio.shield(opened.closing)

    async def _close(self, opened: OpenHome) -> None:
        try:
            await opened.on_close.aclose()
            if self._engine.is_open:
                used = opened.active_at or clock.now()
                await opened.app.engine.schedules.doze(used + REST, but=timing.PREFIX)
            await self._stacks.pop(opened.id).aclose()
            if opened.app.is_settled:
                await asyncio.to_thread(self._registry.closed, opened.id)
        except Exception:
            # It is marked as open still, so the next start of the host looks after it.
            _log.exception("a home was not closed cleanly", extra={"home": opened.id})
        finally:
            del self._homes[opened.id]

    async def _reap(self) -> None:
        """Close homes that have been idle for long enough, and measure those that are open."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now = time.monotonic()
            idle = [
                each
                for each in self._homes.values()
                if each.is_idle and now - each.used_at >= self._bounds.idle_s
            ]
            await asyncio.gather(*(self._closed(each) for each in idle))
            if idle:
                await asyncio.to_thread(heap.give_back)
            for opened in list(self._homes.values()):
                if opened.opening is None and now - opened.measured_at >= _MEASURE_EVERY_S:
                    await self.measure(opened)

    async def measure(self, opened: OpenHome) -> None:
        """Look how much of the disk a home takes. One with too much of it waits."""
        opened.measured_at = time.monotonic()
        opened.size_bytes = await asyncio.to_thread(_size_bytes, opened.app.home.root)
        if opened.is_full:
            self._engine.suspended.add(opened.id)
        elif opened.id in self._engine.suspended:
            self._resume(opened.id)


def _resident_mib() -> float:
    pages = Path("/proc/self/statm").read_bytes().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / MIB


def _size_bytes(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for file in files:
            with suppress(OSError):
                total += os.lstat(Path(place) / file).st_blocks * 512
    return total
