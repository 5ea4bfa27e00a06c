"""The open homes of a host: each is opened when there is something to do, and closed when it is idle.

A home is in use while a lease is held, by a request or by an execution. Of the others the longest unused is
closed first, when there are too many, when they take too much memory, or after a while.
"""

import asyncio
import logging
import os
import shutil
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nexus import clock, config, heap, hosted, ids
from nexus.app import App, Shared, reception
from nexus.automations import hook_points
from nexus.backoff import next_pause_s
from nexus.channels.webhook import Webhook
from nexus.engine.forgetting import remove_scope
from nexus.engine.shared import HomeAwayError, SharedEngine
from nexus.errors import HomeError, NexusError
from nexus.home import Home
from nexus.hosting import homes
from nexus.hosting.confinement import confine
from nexus.hosting.embedders import Embedders
from nexus.hosting.fleet.fleet import Fleet, HomeFence
from nexus.hosting.fleet.records import resident_mib
from nexus.hosting.fleet.registry import FleetRegistry
from nexus.hosting.limits import MIB, Limits
from nexus.hosting.registry import HostedHome, Registry
from nexus.hosting.replication import DamagedCopyError, ReplicaError, Replicas
from nexus.ledgers import reconcile, staging
from nexus.ledgers.connection import refuse_unknown
from nexus.ledgers.threads import Workers
from nexus.serving import Serving
from nexus.watch import repeat

if TYPE_CHECKING:
    from nexus.hosting.cgroups import Cgroups

# A home that could not be opened is tried again after the first, then after twice as long each time.
_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
# Storage may fail for a moment: an older copy is used once the newest could not be read so often.
_READS_BEFORE_OLDER: Final = 3
# A copy is read back in the background, and takes the processor.
_CHECKED_AT_ONCE: Final = 1
_CHECK_AGAIN_S: Final = 10.0
_LONGEST_CHECK_PAUSE_S: Final = 3600.0
_LOOK_S: Final = 1.0
# Opening takes the processor: more at a time would only all be later.
_OPENED_AT_ONCE: Final = 8
_MEASURE_EVERY_S: Final = 60.0
# What a home does by itself follows its last use by so much, and then waits for the next.
REST: Final = timedelta(hours=1)
# A home that is to move and stays in use for so long is closed all the same.
_MOVED_AFTER_S: Final = 120.0
_EVICT_EVERY_S: Final = 60.0
_EVICTED_TOGETHER: Final = 100
_GONE: Final = "evicted"
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
    evict_after_hours: float = 0.0
    """The folder of a home that was closed for so long, with a complete copy, is deleted; 0: never."""


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
    checking: "asyncio.Task[None] | None" = None
    """Reads its copy back, in a fleet; then older copies are deleted, and what was to be erased is."""
    copy: str = ""
    """What its copy is called: its id, in a fleet with its epoch."""
    is_copied: bool = False
    """It was closed, and its copy is complete."""
    is_checked: bool = False
    """The copy of its epoch was read back, in a fleet."""
    fence: HomeFence | None = None
    """In a fleet: whether this host may write to it."""
    is_abandoned: bool = False
    on_close: AsyncExitStack = field(default_factory=AsyncExitStack)
    """What others attach to the open home, such as sessions of the gateway; ended before it is closed."""
    active_at: datetime | None = None
    is_brought_back: bool = False
    """Whether it was made from its copy when it was opened."""
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
        return not (self.leases or self.keeps_open or self.opening or self.closing) and (
            self._app is not None and self._app.is_idle
        )

    def attach(self, app: App) -> None:
        self._app = app


@dataclass(kw_only=True)
class _Failure:
    """Why a home could not be opened, and when to try again."""

    count: int
    retry_at: float


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
        self.fleet: Fleet | None = None
        self.cgroups: Cgroups | None = None
        self._embedders = Embedders()
        self._embedding = asyncio.Semaphore(os.cpu_count() or 1)
        self._homes: dict[str, OpenHome] = {}
        self._failures: dict[str, _Failure] = {}
        self._failed_reads: dict[str, int] = {}
        self._checks = asyncio.Semaphore(_CHECKED_AT_ONCE)
        self._full: set[str] = set()
        self._stacks: dict[str, AsyncExitStack] = {}
        self._ending = False
        self._moving: dict[str, asyncio.Task[None]] = {}
        self._reaper: asyncio.Task[None] | None = None
        self._evicting_at = time.monotonic()
        self._opening = asyncio.Semaphore(_OPENED_AT_ONCE)
        self.on_move: Callable[[str], None] = _ignore_move
        """Called when a home is about to be handed over: what would use it for long is to end."""
        self.on_open: Callable[[OpenHome, float, Exception | None], None] = _ignore_opening
        """Called when a home was opened: how many seconds that took, or why it failed."""

    def __len__(self) -> int:
        return len(self._homes)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._homes

    def find_open(self, id_: str) -> OpenHome | None:
        """A home that can be used now, without opening it."""
        found = self._homes.get(id_)
        return found if found and found.opening is None and found.closing is None else None

    def open_homes(self) -> list[OpenHome]:
        """Those that can be used now."""
        return [each for each in self._homes.values() if each.opening is None and each.closing is None]

    @property
    def open_ids(self) -> list[str]:
        return list(self._homes)

    def start(self) -> None:
        look = repeat(self._reap, _log, "the host's homes could not be looked after", pause_s=_LOOK_S)
        self._reaper = asyncio.create_task(look, name="host-pool")

    async def close(self) -> None:
        """Close every home. Call it when nothing is asked of them any more."""
        self._ending = True
        if self._reaper is not None:
            self._reaper.cancel()
            with suppress(asyncio.CancelledError):
                await self._reaper
        await asyncio.gather(*(self._wait_closed(each) for each in list(self._homes.values())))

    @asynccontextmanager
    async def use(self, id_: str, *, active: bool = True) -> AsyncGenerator[OpenHome]:
        """A home, open for as long as the context lasts.

        With `active` something may change in it, so what it does by itself goes on.
        """
        opened = await self._lease(id_)
        try:
            if active:
                await self._rouse(opened)
            yield opened
        finally:
            opened.leases -= 1
            opened.used_at = time.monotonic()

    async def read_settings(self, id_: str) -> str:
        """The config.toml of a home whose folder isn't here, from its copy. ReplicaError if there is none."""
        copies = [id_]
        if self.fleet is not None:
            epochs = await asyncio.to_thread(self.fleet.registry.copies, id_)
            if not epochs:  # it was never opened
                return await asyncio.to_thread(self.fleet.registry.settings, id_) or ""
            copies = [f"{id_}/{epoch}" for epoch in epochs]
        if self.copies is None:
            raise ReplicaError("The home has no copy", hint="Open it with its token first.")
        return await self.copies.read_settings(copies[0])

    async def evict(self, id_: str) -> None:
        """Close a home once it is not in use, and keep it closed as long as it is suspended."""
        self._engine.suspended.add(id_)
        while (opened := self._homes.get(id_)) is not None:
            if opened.leases == 0 and opened.opening is None:
                await self._wait_closed(opened)
            else:
                await asyncio.sleep(0.05)

    async def hand_over(self, id_: str) -> None:
        """Close a home of a fleet and let the host have it that is to. Whoever asks for it meanwhile waits.

        What still runs in it after a while goes on there.
        """
        if id_ not in self._moving:
            self._moving[id_] = asyncio.create_task(self._move_away(id_))
        await asyncio.shield(self._moving[id_])

    async def abandon(self) -> None:
        """Close every home as it is: the lease on them has ended, and nothing can be written to them."""
        if self.copies is not None:
            await self.copies.abandon()
        await asyncio.gather(*(self._abandon(each) for each in list(self._homes.values())))

    async def set_aside(self, home: Home) -> bool:
        """Move the folder of a home away that another host owns. False: not while somebody asks for it."""
        assert self.fleet is not None  # noqa: S101 - an invariant, for the reader and the type checker
        if self._moving or any(each.name in ("", home.root.name) for each in self._homes.values()):
            return False
        await asyncio.to_thread(self.fleet.set_aside, home)
        return True

    def redact(self, text: str) -> str:
        """Take the secrets of the open homes out of a text. Every line of the log goes through here."""
        for opened in list(self._homes.values()):
            if opened.opening is None:
                text = opened.app.redact(text)
        return text

    async def _lease(self, id_: str) -> OpenHome:
        while True:
            if self._ending:
                raise HomeAwayError("The host is stopping", hint="Try again in a moment.")
            if id_ in self._moving:
                await asyncio.wait({self._moving[id_]})
                continue
            opened = self._homes.get(id_)
            if opened is None:
                failure = self._failures.get(id_)
                if failure is not None and time.monotonic() < failure.retry_at:
                    raise _opening_error()
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
                if opened.is_abandoned:
                    raise HomeAwayError(
                        "The host has left its fleet", hint="Try again in a moment."
                    ) from None
                raise
            if opened.closing is None:
                return opened
            opened.leases -= 1

    async def _open(self, opened: OpenHome) -> None:
        began = time.perf_counter()
        try:
            async with self._opening:
                await self._make_room(opened)
                await self._enter(opened)
            self._failures.pop(opened.id, None)
            for copy in [each for each in self._failed_reads if each.startswith(f"{opened.id}/")]:
                del self._failed_reads[copy]
            self.on_open(opened, time.perf_counter() - began, None)
        except (UnknownHomeError, asyncio.CancelledError):
            del self._homes[opened.id]
            raise
        except HomeAwayError:
            del self._homes[opened.id]
            self._suspend(opened.id, _LOOK_S)
            raise
        except Exception as error:
            del self._homes[opened.id]
            count = self._failure_count(opened.id) + 1
            pause_s = next_pause_s(count, _PAUSE_S, _LONGEST_PAUSE_S)
            self._failures[opened.id] = _Failure(count=count, retry_at=time.monotonic() + pause_s)
            self._suspend(opened.id, pause_s)
            self.on_open(opened, time.perf_counter() - began, error)
            problem = error.message if isinstance(error, NexusError) else type(error).__name__
            told = {"home": opened.id, "attempt": count, "retry_s": pause_s}
            _log.warning("a home can't be opened: %s", problem, exc_info=error, extra=told)
            await asyncio.to_thread(self._registry.note_failure, opened.id, problem)
            raise _opening_error() from error
        finally:
            opened.opening = None

    async def _enter(self, opened: OpenHome) -> None:
        found = await asyncio.to_thread(self._registry.get, opened.id)
        if found is None:
            raise UnknownHomeError("There is no such home")
        opened.name, opened.limits = found.name, found.limits
        home = replace(self._registry.home(found.name), is_copied=self.copies is not None)
        if self.fleet is not None:
            is_served = await self._arrive(self.fleet, opened, home)
        else:
            opened.copy, is_served = opened.id, True
            if self.copies is not None and not await asyncio.to_thread(staging.is_occupied, home):
                await self._bring_back(opened, opened.copy, home)
        # Before anything can be accepted for it: what a crash leaves there is found by this mark.
        await asyncio.to_thread(self._registry.note_opening, opened.id)
        async with AsyncExitStack() as opening:
            serving = opening.enter_context(Serving(home.require()))
            if self.cgroups is not None:
                cgroup = await asyncio.to_thread(self.cgroups.make, opened.id, opened.limits)
                opening.push_async_callback(asyncio.to_thread, self.cgroups.remove, cgroup)
                home = replace(home, cgroup=cgroup)
            if self.copies is not None:
                # Whoever wants the home doesn't wait: a copy is behind by a moment at all times. But nothing
                # is accepted in an epoch that has no copy yet.
                opened.following = asyncio.create_task(self._follow(opened, home))
                opening.push_async_callback(self._leave_copy, opened)
                if not is_served:
                    await opened.following
            settings = await asyncio.to_thread(self._settings, opened, home)
            shared = Shared(
                engine=self._engine.of_home(opened.id),
                threads=self._threads,
                open_model=self._embedders.opener(settings.memory),
                embedding=self._embedding,
                forgetting=partial(self._forgetting, opened),
                fence=opened.fence,
            )
            app = App(home, settings, memory_socket=True, shared=shared)
            await opening.enter_async_context(app)
            serving.tell(self.url_of(found.name))
            opened.attach(app)
            opened.keeps_open = any(not isinstance(each, Webhook) for each in app.adapters.by_name.values())
            await asyncio.to_thread(self._registry.note_opened, opened.id, keeps_open=opened.keeps_open)
            if self.copies is not None:
                opened.checking = asyncio.create_task(self._check_copy(self.copies, opened, home))
            self._stacks[opened.id] = opening.pop_all()
        opened.used_at = time.monotonic()
        await self.measure(opened)

    async def _arrive(self, fleet: Fleet, opened: OpenHome, home: Home) -> bool:
        """Acquire a home and make its folder where there is none of its epoch. False: it was never served."""
        held, opened.fence = await asyncio.to_thread(fleet.acquire, opened.id, home)
        opened.copy = f"{opened.id}/{held.epoch}"
        self._engine.scope_limits[opened.id] = opened.limits.concurrency
        if held.is_local and held.epoch in held.copies:
            return True
        base: int | None = None
        if not held.is_local:
            # What our engine has of it is from an earlier epoch.
            await asyncio.to_thread(remove_scope, replace(self._engine.settings, scope=opened.id))
            if held.copies:
                base = await self._bring_back_newest(opened, held.copies, home)
            else:
                await asyncio.to_thread(homes.make, home, held.settings)
        await asyncio.to_thread(fleet.begin, opened.id, home, held.epoch, base)
        return False

    async def _bring_back_newest(self, opened: OpenHome, epochs: tuple[int, ...], home: Home) -> int:
        """Make a home from its newest copy that can be read; returns the epoch of that."""
        newest: ReplicaError | None = None
        unread: list[int] = []
        for epoch in epochs:
            copy = f"{opened.id}/{epoch}"
            try:
                if unread and self.copies is not None:
                    # If an older one can be read, the storage isn't away: the newer ones get a last chance.
                    async with self.copies.reading(copy):
                        pass
                    for newer in unread:
                        with suppress(ReplicaError):
                            await self._bring_back(opened, f"{opened.id}/{newer}", home)
                            return newer
                await self._bring_back(opened, copy, home)
                return epoch
            except ReplicaError as error:
                newest = newest or error
                if not isinstance(error, DamagedCopyError):
                    self._failed_reads[copy] = self._failed_reads.get(copy, 0) + 1
                    if self._failed_reads[copy] < _READS_BEFORE_OLDER:
                        raise
                    unread.append(epoch)
                told = {"home": opened.id, "epoch": epoch}
                _log.warning("a copy can't be used: %s", error.message, extra=told)
        assert newest is not None  # noqa: S101 - an invariant, for the reader and the type checker
        raise newest

    async def _bring_back(self, opened: OpenHome, copy: str, home: Home) -> None:
        if self.copies is None:
            raise ReplicaError("There are no copies of homes", hint="Start the host with --copies.")
        await self.copies.bring_back(copy, home)
        opened.is_brought_back = True
        _log.warning("a home was brought back from its copy", extra={"copy": copy})

    async def _follow(self, opened: OpenHome, home: Home) -> None:
        assert self.copies is not None  # noqa: S101 - an invariant, for the reader and the type checker
        await self.copies.follow(opened.copy, home)
        if self.fleet is not None and opened.fence is not None:
            epoch = opened.fence.epoch
            opened.is_checked = await asyncio.to_thread(self.fleet.registry.note_copied, opened.id, epoch)

    async def sync_copy(self, opened: OpenHome) -> None:
        """Bring the copy of an open home up to now."""
        if self.copies is not None and opened.following is not None:
            await asyncio.shield(opened.following)
            await self.copies.sync(opened.copy)

    async def _check_copy(self, copies: Replicas, opened: OpenHome, home: Home) -> None:
        """Read the copy of an epoch back, once, in a fleet. Until it is whole, copies of older epochs stay.

        One that could not be made when the home was opened is begun again, and one that has what was erased
        is replaced. What a crash interrupted in erasing is finished.
        """
        failures = 0
        while True:
            try:
                if self.fleet is not None:
                    async with self._checks:
                        await self._check_copy_now(self.fleet.registry, opened, home)
                if await asyncio.to_thread(copies.is_outdated, opened.copy):
                    await self.sync_copy(opened)
                opened.leases += 1
                try:
                    await opened.app.resume_forgetting()
                finally:
                    opened.leases -= 1
                return
            except (NexusError, OSError) as error:
                _log.warning("a copy was not checked: %s", error, extra={"home": opened.id})
            failures += 1
            await asyncio.sleep(next_pause_s(failures, _CHECK_AGAIN_S, _LONGEST_CHECK_PAUSE_S))
            if opened.following is not None and opened.following.done() and opened.following.exception():
                opened.following = asyncio.create_task(self._follow(opened, home))

    async def _check_copy_now(
        self, registry: FleetRegistry, opened: OpenHome, home: Home, *, is_forgetting: bool = False
    ) -> None:
        copies, fence = self.copies, opened.fence
        if copies is None or fence is None or opened.following is None:
            return
        await asyncio.shield(opened.following)
        if not opened.is_checked:
            await copies.check(opened.copy, home)
            await asyncio.to_thread(registry.note_checked, opened.id, fence.epoch)
            opened.is_checked = True
        failed: ReplicaError | None = None
        for epoch, may_have in await asyncio.to_thread(registry.find_superseded, opened.id, fence.epoch):
            copy, told = f"{opened.id}/{epoch}", {"home": opened.id, "epoch": epoch}
            try:
                if may_have and await self._take_messages(copies, copy, opened, registry, epoch):
                    _log.warning("the messages of an older copy were salvaged", extra=told)
            except ReplicaError as error:
                if not is_forgetting or not isinstance(error, DamagedCopyError):
                    # The others may be readable, and this one later.
                    failed = failed or error
                    continue
                _log.warning("a damaged copy is deleted, as it may have what is forgotten", extra=told)
            await asyncio.to_thread(registry.note_dropping, opened.id, epoch)
            await copies.drop(copy)
            await asyncio.to_thread(registry.note_dropped, opened.id, epoch)
        if failed is not None:
            raise failed

    async def _take_messages(
        self, copies: Replicas, copy: str, opened: OpenHome, registry: FleetRegistry, epoch: int
    ) -> int:
        """Take in what only the copy of an older epoch has; returns how many messages that were.

        It could not be restored as a whole, or was written to after it was: by a host that woke.
        """
        after = (await asyncio.to_thread(registry.successor, opened.id, epoch)).events_seq
        found = await copies.read_messages(copy, after or 0)
        if not found:
            return 0
        async with self.use(opened.id) as used:
            receive = used.app.reception.take_salvaged
            taken = [await receive(reception.Salvaged.from_json(each)) for each in found]
            await copies.sync(opened.copy)
        return sum(taken)

    async def _move_away(self, id_: str) -> None:
        fleet = self.fleet
        assert fleet is not None  # noqa: S101 - an invariant, for the reader and the type checker
        try:
            self._engine.suspended.add(id_)
            found = await asyncio.to_thread(self._registry.get, id_)
            opened = self._homes.get(id_)
            if found is None or (opened is None and found.is_open):
                return  # it has work that is to be looked at first: it is opened, and then moves
            if opened is not None:
                await self._wait_unused(opened)
                await self._wait_closed(opened)
                if not opened.is_copied:
                    return
            if await asyncio.to_thread(fleet.registry.hand_over, id_) is not None:
                await asyncio.to_thread(remove_scope, replace(self._engine.settings, scope=id_))
                home = self._registry.home(found.name)
                if await asyncio.to_thread(home.root.exists):
                    # It is deleted once a copy was read back.
                    await asyncio.to_thread(fleet.set_aside, home)
                if self.copies is not None:
                    await asyncio.to_thread(self.copies.tidy, id_)
        finally:
            del self._moving[id_]
            self._resume(id_)

    async def evict_cold(self) -> None:
        """Delete the folders of homes that nobody has used for long: they come back from their copies."""
        hours = self._bounds.evict_after_hours
        if not hours or self.copies is None:
            return
        for found in await asyncio.to_thread(self._registry.find_cold, hours, _EVICTED_TOGETHER):
            if found.id not in self._homes and found.id not in self._moving:
                # Whoever wants the home now waits, and brings it back.
                self._moving[found.id] = asyncio.create_task(self._evict_cold(found))
                await asyncio.shield(self._moving[found.id])

    async def _evict_cold(self, found: HostedHome) -> None:
        try:
            home = self._registry.home(found.name)
            # Keys aren't copied: a home that has some of its own stays.
            if self.copies is None or await asyncio.to_thread(homes.has_keys, home):
                return
            epoch = self.fleet and await asyncio.to_thread(self.fleet.local_epoch, found.id, home)
            await self.copies.check(found.id if epoch is None else f"{found.id}/{epoch}", home)
            if await asyncio.to_thread(self._registry.note_evicted, found.id):
                await asyncio.to_thread(self._delete, found.id, home)
                _log.info("a home was evicted to its copy", extra={"home": found.id})
        except (NexusError, OSError) as error:
            _log.warning("a cold home was not evicted: %s", error, extra={"home": found.id})
        finally:
            del self._moving[found.id]

    def _delete(self, id_: str, home: Home) -> None:
        """Delete the folder of a home whose copy was read back."""
        gone = self._registry.root / _GONE
        gone.mkdir(mode=0o700, exist_ok=True)
        if home.root.exists():
            # In one step: half of a home would be taken for a home.
            home.root.rename(gone / f"{home.root.name}.{ids.new('old')}")
        shutil.rmtree(self._registry.root / _GONE, ignore_errors=True)
        if self.copies is not None:
            self.copies.tidy(id_)

    async def _wait_unused(self, opened: OpenHome) -> None:
        """Wait until a home is not in use; for long enough, then what runs in it goes back to its queue."""
        deadline = time.monotonic() + _MOVED_AFTER_S
        self.on_move(opened.id)
        while (opened.leases or opened.opening is not None) and time.monotonic() < deadline:  # noqa: ASYNC110 - a rare thing
            await asyncio.sleep(0.05)
        await self._engine.stop_home(opened.id)

    async def _abandon(self, opened: OpenHome) -> None:
        opened.is_abandoned = True
        self._engine.suspended.add(opened.id)
        try:
            if opened.opening is not None:
                opened.opening.cancel()
                await asyncio.wait({opened.opening})
            # Whoever waited may have begun to open the home anew.
            if self._homes.get(opened.id) is opened:
                await self._engine.stop_home(opened.id)
                await self._wait_closed(opened)
                # As after the loss of a host: the ledgers say what is to be done.
                await asyncio.to_thread(reconcile.mark, opened.app.home)
                await asyncio.to_thread(remove_scope, replace(self._engine.settings, scope=opened.id))
        finally:
            self._resume(opened.id)

    @asynccontextmanager
    async def _forgetting(self, opened: OpenHome) -> AsyncGenerator[None]:
        if self.copies is None or opened.following is None:
            yield
            return
        await asyncio.shield(opened.following)
        if self.fleet is not None:
            # Older copies have it, too.
            async with self._checks:
                await self._check_copy_now(self.fleet.registry, opened, opened.app.home, is_forgetting=True)
        try:
            async with self.copies.forgetting(opened.copy):
                yield
        except ReplicaError:
            if opened.checking is not None and opened.checking.done():
                opened.checking = asyncio.create_task(self._check_copy(self.copies, opened, opened.app.home))
            raise

    async def _leave_copy(self, opened: OpenHome) -> None:
        """Bring the copy of a home up to date, once the home is closed."""
        if opened.checking is not None:
            opened.checking.cancel()
        if opened.is_abandoned and opened.following is not None:
            opened.following.cancel()
            return
        try:
            if self.copies is not None and opened.following is not None:
                await opened.following
                await self.copies.leave(opened.copy)
                opened.is_copied = True
        except ReplicaError as error:
            _log.warning("the copy of a home is not up to date: %s", error, extra={"home": opened.id})

    def _settings(self, opened: OpenHome, home: Home) -> config.Config:
        refuse_unknown(home.data)
        hosted.settle(home, hosted.Place.of(self._registry.root, opened.id))
        found = confine(config.load(home.config_file), home, opened.limits, self.url_of(opened.name))
        opened.left_out = found.left_out
        return found.config

    async def _rouse(self, opened: OpenHome) -> None:
        is_first, opened.active_at = opened.active_at is None, clock.now()
        if is_first:
            await opened.app.engine.schedules.rouse(opened.active_at)

    async def _make_room(self, wanted: OpenHome) -> None:
        """Close what has been idle longest, where there is too much open."""
        while len(self._homes) > self._bounds.homes or resident_mib() > self._bounds.memory_mib:
            idle = [each for each in self._homes.values() if each is not wanted and each.is_idle]
            if not idle:
                break
            await self._wait_closed(min(idle, key=lambda each: each.used_at))
            if resident_mib() > self._bounds.memory_mib:
                await asyncio.to_thread(heap.give_back)
        if resident_mib() > self._bounds.memory_mib:
            raise HomeAwayError("The host is at its memory limit", hint="Try again in a moment.")

    def _failure_count(self, id_: str) -> int:
        failure = self._failures.get(id_)
        return 0 if failure is None else failure.count

    def _suspend(self, id_: str, pause_s: float) -> None:
        """Leave a home's work in its queue for a while."""
        self._engine.suspended.add(id_)
        asyncio.get_running_loop().call_later(pause_s, self._resume, id_)

    def _resume(self, id_: str) -> None:
        self._engine.suspended.discard(id_)
        self._engine.announce()

    async def _wait_closed(self, opened: OpenHome) -> None:
        await asyncio.shield(self._closing(opened))

    def _closing(self, opened: OpenHome) -> asyncio.Task[None]:
        """Nobody gets it any more. Call this in the same step as what says that it is idle."""
        if opened.closing is None:
            opened.closing = asyncio.create_task(self._close(opened))
        return opened.closing

    async def _close(self, opened: OpenHome) -> None:
        if opened.opening is not None:
            await asyncio.wait({opened.opening})
            if self._homes.get(opened.id) is not opened:
                return  # it could not be opened
        try:
            next_wake, is_behind = None, opened.app.embedding.is_behind
            try:
                await opened.on_close.aclose()
                if self._engine.is_open and not opened.is_abandoned:
                    used = opened.active_at or clock.now()
                    await opened.app.engine.schedules.doze(used + REST, but=hook_points.PREFIX)
                    if self.fleet is not None and is_behind:
                        next_wake = clock.now()
                    elif self.fleet is not None:
                        next_wake = await self._engine.of_home(opened.id).next_wake(hook_points.PREFIX)
            finally:
                # Whatever was in the way: nobody could open it while it is open.
                await self._stacks.pop(opened.id).aclose()
            # In a fleet whatever is marked as closed has a copy that another host can begin with.
            # Elsewhere one that was not embedded to its end stays marked as open, for the next start.
            is_complete = opened.is_copied if self.fleet is not None else not is_behind
            if opened.app.is_settled and is_complete and not opened.is_abandoned:
                copied = opened.is_copied
                await asyncio.to_thread(self._registry.note_closed, opened.id, next_wake, is_copied=copied)
        except Exception:
            # It is marked as open still, so the next start of the host looks after it.
            _log.exception("a home was not closed cleanly", extra={"home": opened.id})
        finally:
            del self._homes[opened.id]

    async def _reap(self) -> None:
        """Close homes that have been idle for long enough, evict cold ones, and measure the open ones."""
        await self._close_idle()
        if time.monotonic() >= self._evicting_at:
            self._evicting_at = time.monotonic() + _EVICT_EVERY_S
            await self.evict_cold()
        for opened in list(self._homes.values()):
            if opened.opening is None and time.monotonic() - opened.measured_at >= _MEASURE_EVERY_S:
                await self.measure(opened)

    async def _close_idle(self) -> None:
        now = time.monotonic()
        closing = [
            self._closing(each)
            for each in self._homes.values()
            if each.is_idle and now - each.used_at >= self._bounds.idle_s
        ]
        if closing:
            await asyncio.wait(closing)
            await asyncio.to_thread(heap.give_back)

    async def measure(self, opened: OpenHome) -> None:
        """Look how much of the disk a home takes. One with too much of it waits."""
        opened.measured_at = time.monotonic()
        opened.size_bytes = await asyncio.to_thread(_measure_bytes, opened.app.home.root)
        if opened.is_full:
            self._full.add(opened.id)
            self._engine.suspended.add(opened.id)
        elif opened.id in self._full:
            # Not one that waits for another reason, such as a move.
            self._full.discard(opened.id)
            self._resume(opened.id)


def _opening_error() -> HomeAwayError:
    return HomeAwayError(
        "The home can't be opened", hint="`nexus host list` and its host's log say why. It is tried again."
    )


def _ignore_opening(home: OpenHome, took_s: float, error: Exception | None) -> None:
    """Nobody wants to know."""


def _ignore_move(home_id: str) -> None:
    """Nothing uses it for long."""


def _measure_bytes(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for file in files:
            with suppress(OSError):
                total += os.lstat(Path(place) / file).st_blocks * 512
    return total
