"""Async invocations on the engine: in order for each automation and session, and none lost in a crash.

The ledger holds what each is given; the engine's database holds its id. One that was written down and
never reached the engine is handed over when its home is next served.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any, Protocol

from nexus import ids
from nexus.engine import Context, Engine
from nexus.engine.errors import UnknownExecutionError
from nexus.errors import NexusError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import automations, invocations

LANE = "automations"
_WORK = "automations.invocation"
_IMPROVEMENT = "automations.improvement"


class Runs(Protocol):
    """Runs an invocation whose turn has come."""

    async def run_queued(self, invocation_id: str) -> None: ...

    async def run_improvement(self, invocation_id: str) -> None: ...


Runners = Callable[[str], AbstractAsyncContextManager[Runs]]
"""The runner of a home by its id, for as long as it is needed."""


class Invocations:
    """The async invocations of every home that this process serves, on one engine."""

    def __init__(self, engine: Engine, runners: Runners) -> None:
        self.engine = engine
        self._runners = runners
        engine.register(_WORK, self._run)
        engine.register(_IMPROVEMENT, self._improve)

    async def _run(self, context: Context, payload: Any) -> None:
        async with self._runners(payload["home"]) as runner:
            await runner.run_queued(context.id)

    async def _improve(self, context: Context, payload: Any) -> None:
        async with self._runners(payload["home"]) as runner:
            await runner.run_improvement(payload["invocation"])


class InvocationQueue:
    """The async invocations of one home."""

    def __init__(self, engine: Engine, home: str = "") -> None:
        self._engine = engine
        self._home = home
        self._handing: set[asyncio.Task[None]] = set()

    def add(self, invocation_id: str, automation: str, session_label: str) -> None:
        """Hand one over that is written down already. Nobody waits for it."""
        task = asyncio.create_task(self._hand_over(invocation_id, automation, session_label))
        self._handing.add(task)
        task.add_done_callback(self._handing.discard)

    def improve(self, invocation_id: str, automation: str) -> None:
        """Chain a reflection to an invocation. Those of one automation follow each other."""
        task = asyncio.create_task(self._chain(invocation_id, automation))
        self._handing.add(task)
        task.add_done_callback(self._handing.discard)

    async def recover(self, ledgers: Ledgers) -> int:
        """Hand over what was written down and never reached the engine; returns how many those were."""
        count = 0
        for id_ in await ledgers.runtime.read(invocations.unfinished):
            try:
                await self._engine.show(id_)
            except UnknownExecutionError:
                count += await self._hand_over_again(ledgers, id_)
        return count

    async def settled(self) -> None:
        """When this returns, everything that was added has reached the engine."""
        while self._handing:
            await asyncio.gather(*self._handing)

    async def _hand_over_again(self, ledgers: Ledgers, id_: str) -> bool:
        found = await ledgers.runtime.read(partial(invocations.get, invocation_id=id_))
        if found is None:
            return False
        automation = await ledgers.runtime.read(partial(automations.by_id, automation_id=found.automation_id))
        label = "" if found.input is None else str(found.input["request"]["agent"]["session_label"])
        await self._hand_over(id_, automation.name if automation else "", label)
        return True

    async def _chain(self, invocation_id: str, automation: str) -> None:
        key = f"improve:{automation}"
        with suppress(NexusError):
            await self._engine.start(
                _IMPROVEMENT,
                {"home": self._home, "invocation": invocation_id},
                key=f"{self._home}/{key}" if self._home else key,
                lane=LANE,
                execution_id=ids.derived("exe", invocation_id, "chain"),
            )

    async def _hand_over(self, id_: str, automation: str, session_label: str) -> None:
        key = f"automation:{automation}:{session_label}"
        with suppress(NexusError):  # it stays written down, and is handed over at the next start
            await self._engine.start(
                _WORK,
                {"home": self._home},
                key=f"{self._home}/{key}" if self._home else key,
                lane=LANE,
                execution_id=id_,
            )
