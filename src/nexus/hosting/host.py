"""A host while it runs: one engine, one pool of threads, one copy of each model, and the open homes."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

from nexus import __version__
from nexus.automations import hook_points
from nexus.automations.queue import WORK as INVOCATION
from nexus.broker.queue import WORK as RUN
from nexus.engine import Settings
from nexus.engine.errors import UnknownWorkError
from nexus.engine.forgetting import remove_scope
from nexus.engine.shared import HomeAwayError, HomeEngine, SharedEngine
from nexus.errors import NexusError, UsageError
from nexus.home import Home
from nexus.hosted import Place
from nexus.hosting.audit import Audit, by_user
from nexus.hosting.cgroups import Cgroups
from nexus.hosting.fleet import moves, salvage
from nexus.hosting.fleet.fleet import Fleet, FleetSettings
from nexus.hosting.fleet.records import Busy, FleetUnreachableError, HomeElsewhereError, Load
from nexus.hosting.fleet.registry import FleetRegistry
from nexus.hosting.limits import Limits
from nexus.hosting.local import LocalRegistry
from nexus.hosting.pool import Bounds, Pool, UnknownHomeError
from nexus.hosting.replication import Replicas
from nexus.ledgers.threads import Threads
from nexus.serving import Serving
from nexus.watch import repeat

if TYPE_CHECKING:
    from nexus.hosting.registry import Registry

# What somebody asked for. What a home does by itself, such as to embed, is no use of it.
_ACTIVE: Final = frozenset({RUN, INVOCATION, hook_points.WORK})
# Systems that stop a service give it 30 seconds.
_STEP_DOWN_S: Final = 20.0
_THREADS: Final = 32
_LEDGER_THREADS: Final = 32
_RECOVERED_AT_ONCE: Final = 2
# A host that starts while its fleet's Postgres does waits for it; a wrong URL is told after that.
_POSTGRES_S: Final = 60.0
_LOOK_S: Final = 1.0
T = TypeVar("T")
_log = logging.getLogger("nexus.host")
# Few: the other hosts take their share.
_TAKEN_AT_ONCE: Final = 2
_HANDED_OVER_AT_ONCE: Final = 8
_RETRY_S: Final = 60.0
_fleet_log = logging.getLogger("nexus.fleet")


@dataclass(frozen=True, kw_only=True)
class HostSettings:
    """What `nexus host serve` is told."""

    root: Path
    bounds: Bounds = field(default_factory=Bounds)
    copies: str = ""
    """Where copies of the homes are kept, as a URL; empty: nowhere."""
    lease_ms: int = 10_000
    """Of the engine's process."""
    fleet: FleetSettings | None = None
    """The fleet that the host belongs to, if any."""
    otlp_url: str = ""
    """Collector of traces, by OTLP over HTTP; empty: none."""
    scrape_token: str = ""
    """Reads the host's metrics and nothing else; empty: only an admin token does."""
    cgroups: Cgroups | None = None
    """Where the sandboxes of the homes run, if a cgroup was delegated to the host."""


class _Duty(Protocol):
    __name__: str

    def __call__(self) -> Awaitable[None]: ...


class Duties:
    """What a host of a fleet does unasked, until it is stopped; it rests while the host is not in its fleet.

    It opens homes whose owner is gone, hands over those that another host is to have, and gives the owners
    what it holds of their homes.
    """

    def __init__(self, fleet: Fleet, pool: Pool) -> None:
        self._fleet = fleet
        self._registry = fleet.registry
        self._pool = pool
        self._tasks: list[asyncio.Task[None]] = []
        self._swept = ""
        self._retry_at: dict[str, float] = {}
        """When to look at a folder again that could not be salvaged."""

    def start(self) -> None:
        duties = (self._take_over, self._hand_over, self._salvage)
        self._tasks = [asyncio.create_task(self._repeat(each), name=each.__name__) for each in duties]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, duty: _Duty) -> None:
        async def work() -> None:
            if self._fleet.is_member:
                await duty()

        name = duty.__name__.strip("_").replace("_", " ")
        await repeat(work, _fleet_log, f"{name} failed", pause_s=self._fleet.look_s)

    async def _take_over(self) -> None:
        """Open homes with work: those of ours, and of hosts that are gone."""
        ours = await asyncio.to_thread(self._registry.find_left_open)
        await self._open([each for each in ours if each not in self._pool])
        while orphans := await asyncio.to_thread(self._registry.find_orphans, _TAKEN_AT_ONCE):
            if not await self._open(orphans):
                break

    async def _open(self, homes: list[str]) -> int:
        """Open homes, which hands over what they had accepted; returns how many it went well for."""
        room = asyncio.Semaphore(_TAKEN_AT_ONCE)

        async def open_(home_id: str) -> bool:
            async with room:
                with suppress(NexusError):  # it is told where the home is opened, and in the list of homes
                    async with self._pool.use(home_id, active=False):
                        return True
            return False

        return sum(await asyncio.gather(*map(open_, homes)))

    async def _hand_over(self) -> None:
        moving = await asyncio.to_thread(self._registry.find_moving, _HANDED_OVER_AT_ONCE)
        await asyncio.gather(*map(self._pool.hand_over, moving))

    async def _salvage(self) -> None:
        incarnation = self._registry.incarnation
        if self._swept != incarnation:
            # While we were away others may have taken homes that have a folder here.
            lost = await asyncio.to_thread(salvage.lost_folders, self._registry)
            if all([await self._pool.set_aside(home) for home in lost]):
                self._swept = incarnation
        stale, copies = self._fleet.stale, self._pool.copies
        if copies is None or not stale.is_dir():
            return
        for folder in await asyncio.to_thread(lambda: sorted(stale.iterdir())):
            if time.monotonic() < self._retry_at.get(folder.name, 0.0):
                continue
            try:
                await salvage.salvage(self._registry, copies, folder)
            except HomeAwayError:
                raise
            except Exception as error:
                # The other folders don't wait for this one.
                self._retry_at[folder.name] = time.monotonic() + _RETRY_S
                problem = error.message if isinstance(error, NexusError) else type(error).__name__
                told = {"folder": folder.name}
                _fleet_log.warning("a folder stays: %s", problem, exc_info=error, extra=told)


class Host:
    """Serves the homes below a folder while the context lasts."""

    def __init__(self, settings: HostSettings) -> None:
        self.settings = settings
        self.audit = Audit(settings.root)
        self.fleet = self._build_fleet(settings)
        self.registry: Registry = (
            self.fleet.registry
            if self.fleet
            else LocalRegistry(settings.root, checkpoints=not settings.copies)
        )
        self._root = settings.root
        self._copies = settings.copies
        self.engine = SharedEngine(
            Settings(
                database=Place.of(settings.root, "").engine,
                lease_ms=settings.lease_ms,
                scope_limit=Limits().concurrency,
            ),
            self._use_engine,
        )
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="host")
        # Apart: code on a thread may wait for a ledger, and the ledgers' own work waits for nothing.
        self._ledger_threads = Threads(_LEDGER_THREADS, "ledgers")
        self.pool = Pool(self.registry, self.engine, self._ledger_threads, settings.bounds)
        self.pool.fleet = self.fleet
        self.pool.cgroups = settings.cgroups
        self._busy = Busy(settings.root)
        self._serving: Serving | None = None
        self._recovery: asyncio.Task[None] | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            opening.callback(self._threads.shutdown, wait=False)
            opening.callback(self._ledger_threads.shutdown)
            asyncio.get_running_loop().set_default_executor(self._threads)
            (self._root / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
            self._serving = opening.enter_context(Serving(Home(self._root)))
            if self._copies:
                self.pool.copies = await opening.enter_async_context(Replicas(self._root, self._copies))
                if self.fleet is None and await self.pool.copies.bring_back_host():
                    _log.warning("the table of homes was brought back from its copy")
            await self._wait_for_postgres(lambda: asyncio.to_thread(opening.enter_context, self.registry))
            if self.fleet is not None:
                await self._wait_for_postgres(partial(opening.enter_async_context, self.fleet))
            elif self.pool.copies is not None:
                await self.pool.copies.follow_host()
            known = await self._wait_for_postgres(lambda: asyncio.to_thread(self.registry.load_concurrency))
            self.engine.scope_limits |= known
            self.pool.start()
            opening.push_async_callback(self.engine.close)
            opening.push_async_callback(self.pool.close)
            opening.push_async_callback(self.engine.drain)
            await self.engine.open()
            await asyncio.to_thread(self.audit.record, "host.start", who=by_user(), version=__version__)
            opening.push_async_callback(asyncio.to_thread, self.audit.record, "host.stop", who=by_user())
            if self.fleet is not None:
                await self._join(self.fleet, opening)
            else:
                self._recovery = asyncio.create_task(self._recover(), name="host-recovery")
                opening.push_async_callback(self._stop_recovery)
            self._stack = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def step_down(self) -> None:
        """Hand the open homes to other hosts of the fleet, before the gateway stops listening.

        What isn't handed over in time, or has nowhere to go, is closed here and opened by whoever is left.
        """
        if self.fleet is None or not self.fleet.is_member:
            return
        ids = self.pool.open_ids
        with suppress(NexusError, TimeoutError):
            async with asyncio.timeout(_STEP_DOWN_S):
                await asyncio.to_thread(moves.place_elsewhere, self.fleet.registry, self.fleet.name, ids)
                await asyncio.gather(*map(self.pool.hand_over, ids))

    def tell(self, url: str) -> None:
        """Let commands know where the host listens."""
        if self._serving is not None:
            self._serving.tell(url)

    @asynccontextmanager
    async def _use_engine(self, home_id: str, work: str) -> AsyncGenerator[HomeEngine]:
        """The engine of a home, for one execution."""
        try:
            async with self.pool.use(home_id, active=work in _ACTIVE) as opened:
                engine = opened.app.engine
                assert isinstance(engine, HomeEngine)  # noqa: S101 - an invariant, for the reader and the type checker
                yield engine
        except UnknownHomeError:
            raise UnknownWorkError("Its home was removed") from None
        except HomeElsewhereError:
            # Its owner found the work in the ledgers.
            await asyncio.to_thread(remove_scope, replace(self.engine.settings, scope=home_id))
            raise

    async def _wait_for_postgres(self, call: Callable[[], Awaitable[T]]) -> T:
        """Do something that needs the fleet's Postgres, again for a while if that is away."""
        deadline = time.monotonic() + _POSTGRES_S
        while True:
            try:
                return await call()
            except FleetUnreachableError as error:
                if time.monotonic() > deadline:
                    raise
                _log.warning("waiting for the fleet's Postgres: %s", error)
                await asyncio.sleep(_LOOK_S)

    async def _join(self, fleet: Fleet, opening: AsyncExitStack) -> None:
        fleet.lost = self.pool.abandon
        await fleet.start()
        duties = Duties(fleet, self.pool)
        duties.start()
        opening.push_async_callback(duties.stop)

    def _build_fleet(self, settings: HostSettings) -> Fleet | None:
        if settings.fleet is None:
            return None
        if not settings.copies:
            raise UsageError("A fleet needs a place for copies", hint="Pass --copies, the same to each host.")
        shared = FleetRegistry(settings.root, settings.fleet.url, settings.fleet.name)
        return Fleet(shared, settings.fleet, self._load)

    def _load(self) -> Load:
        """How busy the host is. Called on the fleet's own thread."""
        return self._busy.load(len(self.pool))

    async def _recover(self) -> None:
        """Open what was open when the last process was killed: opening hands over what was accepted."""
        left = await asyncio.to_thread(self.registry.find_left_open)
        room = asyncio.Semaphore(_RECOVERED_AT_ONCE)

        async def recover(home_id: str) -> None:
            async with room:
                with suppress(NexusError):  # it is told where the home is opened, and in the list of homes
                    async with self.pool.use(home_id, active=False):
                        pass

        await asyncio.gather(*map(recover, left))
        if left:
            _log.info("homes were recovered", extra={"homes": len(left)})

    async def _stop_recovery(self) -> None:
        if self._recovery is not None:
            self._recovery.cancel()
            with suppress(asyncio.CancelledError):
                await self._recovery
