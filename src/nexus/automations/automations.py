"""The automations of one home, put together: table, scripts, runner and queue."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress

from nexus import clock
from nexus.automations import registration
from nexus.automations.context import Handler, Occasion, Services
from nexus.automations.invoker import Invoker
from nexus.automations.loading import Plugin, load
from nexus.automations.queue import InvocationQueue, Invocations
from nexus.automations.registry import Registry
from nexus.automations.runner import Destinations, Runner
from nexus.automations.scripts.host import Host
from nexus.automations.services import MemorySockets, OpenMemorySocket
from nexus.config import AutomationsConfig
from nexus.engine import Engine
from nexus.errors import NexusError
from nexus.ledgers import Ledgers
from nexus.request import Access, Agent, Event, Request


class Automations:
    """Loaded before the engine serves, started after that; settled before it ends, closed after that."""

    def __init__(
        self,
        ledgers: Ledgers,
        settings: AutomationsConfig,
        engine: Engine,
        services: Services,
        now: clock.Clock = clock.now,
        *,
        memory_socket: OpenMemorySocket | None = None,
        destinations: Destinations | None = None,
        note_late: Callable[[], None] = lambda: None,
    ) -> None:
        """`note_late` is called when one could not be handed over: `queue.hand_over_missing` is due."""
        self._ledgers = ledgers
        self._handlers: dict[str, Handler] = {}
        self._host = Host()
        self._sockets = MemorySockets(ledgers.home, ledgers.settings, memory_socket)
        self._invoker = Invoker(ledgers.home, settings, self._host, services, now, self._sockets)
        self.queue = InvocationQueue(engine, note_late=note_late)
        self.runner = Runner(
            ledgers=ledgers,
            registry=Registry(ledgers=ledgers, handlers=self._handlers),
            invoker=self._invoker,
            settings=settings,
            queue=self.queue,
            now=now,
            destinations=destinations,
        )
        self.problems: list[str] = []
        self._starting: asyncio.Task[None] | None = None
        Invocations(engine, self._runner)

    def add_handler(self, script_path: str, handler: Handler) -> None:
        """Make code known that rows name by a script path; it has no row by itself."""
        self._handlers[script_path] = handler

    async def load(self, bundled: Iterable[Plugin] = ()) -> None:
        """Load what may run. The engine may run what waits as soon as it serves, so this comes first."""
        write = registration.writer(self._ledgers)
        loaded = await asyncio.to_thread(load, self._ledgers.home, write, bundled)
        self._handlers |= loaded.handlers
        self.problems += loaded.problems
        self.runner.registry.off = loaded.off
        await self.runner.registry.read()

    async def start(self, *, serve: bool, access: Access | None = None) -> None:
        """A process that serves goes on with what a crash interrupted.

        `access` is what the runtime's own request reaches, which `gateway:startup` fires with.
        """
        if serve:
            await self.queue.hand_over_missing(self._ledgers)
        self._starting = asyncio.create_task(self._start(access or Access(), serve=serve))

    async def settle(self) -> None:
        """Before the engine ends: finish what was begun here."""
        if self._starting is not None:
            self._starting.cancel()
            with suppress(asyncio.CancelledError):
                await self._starting
        await self.runner.wait_until_settled()
        await self.queue.wait_until_settled()

    async def close(self) -> None:
        """After the engine has ended: leave nothing behind."""
        await self.runner.wait_until_settled()
        await self._invoker.wait_until_settled()
        await self._sockets.close()
        await self._host.close()

    async def _start(self, access: Access, *, serve: bool) -> None:
        """Behind the caller's back, so that nobody waits for a script that runs at startup."""
        with suppress(NexusError):
            if self.runner.registry.has_scripts:
                await self._host.warm()
            if serve:
                agent = Agent(session_label="gateway")
                request = Request(event=Event(content=""), agent=agent, access=access)
                await self.runner.fire("gateway:startup", Occasion(request=request))

    @asynccontextmanager
    async def _runner(self, home: str) -> AsyncGenerator[Runner]:
        """The runner of the one home that this process serves."""
        assert home == ""  # noqa: S101 - an invariant, for the reader and the type checker
        yield self.runner
