"""A host while it runs: one engine, one pool of threads, one copy of each model, and the open homes."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from nexus.automations import timing
from nexus.automations.queue import WORK as INVOCATION
from nexus.broker.queue import WORK as RUN
from nexus.engine import Settings
from nexus.engine.errors import UnknownWorkError
from nexus.engine.shared import HomeEngine, SharedEngine
from nexus.errors import NexusError
from nexus.home import Home
from nexus.hosted import Place
from nexus.hosting.limits import Limits
from nexus.hosting.pool import Bounds, Pool, UnknownHomeError
from nexus.hosting.registry import Registry
from nexus.hosting.replication import Replicas
from nexus.ledgers.threads import Threads
from nexus.serving import Serving

# What somebody asked for. What a home does by itself, such as to embed, is no use of it.
_ACTIVE: Final = frozenset({RUN, INVOCATION, timing.WORK})
_THREADS: Final = 32
_LEDGER_THREADS: Final = 32
_RECOVERED_AT_ONCE: Final = 2
_log = logging.getLogger("nexus.host")


@dataclass(frozen=True, kw_only=True)
class HostSettings:
    """What `nexus host serve` is told."""

    root: Path
    bounds: Bounds = field(default_factory=Bounds)
    copies: str = ""
    """Where copies of the homes are kept, as a URL; empty: nowhere."""
    lease_ms: int = 10_000


class Host:
    """Serves the homes below a folder while the context lasts."""

    def __init__(self, settings: HostSettings) -> None:
        self.registry = Registry(settings.root)
        self._root = settings.root
        self._copies = settings.copies
        self.engine = SharedEngine(
            Settings(
                database=Place.of(settings.root, "").engine,
                lease_ms=settings.lease_ms,
                scope_limit=Limits().concurrency,
            ),
            self._opened,
        )
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="host")
        # Apart: code on a thread may wait for a ledger, and the ledgers' own work waits for nothing.
        self._ledger_threads = Threads(_LEDGER_THREADS, "ledgers")
        self.pool = Pool(self.registry, self.engine, self._ledger_threads, settings.bounds)
        self._serving: Serving | None = None
        self._recovery: asyncio.Task[None] | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            (self._root / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
            self._serving = opening.enter_context(Serving(Home(self._root)))
            if self._copies:
                self.pool.copies = await opening.enter_async_context(Replicas(self._root, self._copies))
                if await self.pool.copies.bring_back_host():
                    _log.warning("the table of homes was brought back from its copy")
            opening.enter_context(self.registry)
            if self.pool.copies is not None:
                await self.pool.copies.follow_host()
            opening.callback(self._threads.shutdown, wait=False)
            opening.callback(self._ledger_threads.shutdown)
            asyncio.get_running_loop().set_default_executor(self._threads)
            self.engine.scope_limits |= await asyncio.to_thread(self.registry.concurrency)
            self.pool.start()
            opening.push_async_callback(self.engine.close)
            opening.push_async_callback(self.pool.close)
            opening.push_async_callback(self.engine.drain)
            await self.engine.open()
            self._recovery = asyncio.create_task(self._recover(), name="host-recovery")
            opening.push_async_callback(self._stop_recovery)
            self._stack = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def tell(self, url: str) -> None:
        """Let commands know where the host listens."""
        if self._serving is not None:
            self._serving.tell(url)

    async def recovered(self) -> None:
        """When this returns, the homes that a crash left open have handed over what they accepted."""
        if self._recovery is not None:
            await self._recovery

    @asynccontextmanager
    async def _opened(self, home_id: str, work: str) -> AsyncGenerator[HomeEngine]:
        """The engine of a home, for one execution."""
        try:
            async with self.pool.use(home_id, active=work in _ACTIVE) as opened:
                engine = opened.app.engine
                assert isinstance(engine, HomeEngine)  # noqa: S101 - an invariant, for the reader and the type checker
                yield engine
        except UnknownHomeError:
            raise UnknownWorkError("Its home was removed") from None

    async def _recover(self) -> None:
        """Open what was open when the last process was killed: opening hands over what was accepted."""
        left = await asyncio.to_thread(self.registry.left_open)
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
