"""A runner over a real home, with scripts in real processes and, where asked for, a real engine."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nexus import clock
from nexus.automations import registration
from nexus.automations.context import Handler, NoServices, Occasion, Services
from nexus.automations.invoker import Invoker
from nexus.automations.queue import InvocationQueue, Invocations
from nexus.automations.registry import Registry
from nexus.automations.returned import Returned
from nexus.automations.runner import Runner
from nexus.automations.scripts.host import Host
from nexus.config import AutomationsConfig
from nexus.engine import Engine, Settings
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import automations, invocations
from nexus.ledgers.runtime.automations import Automation, NewAutomation
from nexus.ledgers.runtime.invocations import Invocation
from nexus.request import Access, Agent, Event, Request

QUICK = AutomationsConfig(timeout_ms=60_000, circuit_errors=3, circuit_cooldown_ms=60_000)


@dataclass(kw_only=True)
class Stage:
    """Registers automations and fires hook points."""

    ledgers: Ledgers
    runner: Runner
    handlers: dict[str, Handler]
    folder: Path
    queue: InvocationQueue | None = None
    order: int = field(default=0, init=False)

    @property
    def home(self) -> Home:
        return self.ledgers.home

    async def code(self, name: str, run: Handler, **settings: Any) -> Automation:
        """Register code that runs in this process."""
        path = f"python:{name}"
        self.handlers[path] = run
        return await self._register(name, path, None, settings)

    async def script(self, name: str, source: str, **settings: Any) -> Automation:
        """Register a script."""
        file = self.folder / f"{name}.py"
        file.write_text(source)
        found = await asyncio.to_thread(registration.bring_in, self.home, name, file)
        return await self._register(name, str(found.path), found.hash, settings)

    async def fire(self, hook_point: str = "runAutomations", content: str = "hello") -> Returned:
        returned = await self.runner.fire(hook_point, Occasion(request=request(content)))
        await self.runner.wait_until_settled()
        return returned

    async def rows(self, name: str) -> list[Invocation]:
        """The invocations of an automation, the first one first."""
        return (await self.ledgers.runtime.read(invocations.of_automation, name=name, limit=10_000))[::-1]

    async def row(self, name: str) -> Automation:
        found = await self.ledgers.runtime.read(automations.get, name=name)
        assert found is not None
        return found

    async def _register(
        self, name: str, path: str, hash_: str | None, settings: dict[str, Any]
    ) -> Automation:
        new = NewAutomation(name=name, script_path=path, script_hash=hash_, **settings)
        write = registration.writer(self.ledgers)
        return (await asyncio.to_thread(registration.register, self.home, write, new)).automation


def request(content: str = "hello") -> Request:
    return Request(
        event=Event(content=content, channel="cli"),
        agent=Agent(session_label="main"),
        access=Access(level="owner", tools=None),
    )


@asynccontextmanager
async def staged(
    ledgers: Ledgers,
    folder: Path,
    *,
    settings: AutomationsConfig = QUICK,
    services: Services | None = None,
    now: clock.Clock = clock.now,
    engine: bool = False,
) -> AsyncGenerator[Stage]:
    handlers: dict[str, Handler] = {}
    host = Host()
    invoker = Invoker(ledgers.home, settings, host, services or NoServices(), now)
    registry = Registry(ledgers=ledgers, handlers=handlers)
    runner = Runner(ledgers=ledgers, registry=registry, invoker=invoker, settings=settings, now=now)
    stage = Stage(ledgers=ledgers, runner=runner, handlers=handlers, folder=folder)
    try:
        if engine:
            async with _engine(folder, runner) as made:
                stage.queue = runner.queue = InvocationQueue(made)
                yield stage
                await stage.queue.wait_until_settled()
        else:
            yield stage
    finally:
        await runner.wait_until_settled()
        await invoker.wait_until_settled()
        await host.close()


@asynccontextmanager
async def _engine(folder: Path, runner: Runner) -> AsyncGenerator[Engine]:
    @asynccontextmanager
    async def of(home: str) -> AsyncGenerator[Runner]:
        yield runner

    engine = Engine(Settings(database=folder / "engine.db", stop_grace_ms=200))
    Invocations(engine, of)
    async with engine:
        yield engine
