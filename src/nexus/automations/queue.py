"""Async invocations on the engine: in order for each automation and session, and none lost in a crash.

The ledger holds what each is given; the engine's database holds its id. The ledger is the outbox: one that
did not reach the engine is handed over when that is back, or when its home is next served.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Protocol

from nexus import clock, ids
from nexus.engine import Engine, WorkContext
from nexus.engine.errors import FINAL
from nexus.errors import TEMPORARY_LEDGER_ERRORS, NexusError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import automations, invocations

LANE = "automations"
WORK = "automations.invocation"
"""What the engine knows every async invocation as."""
_IMPROVEMENT = "automations.improvement"


class Runs(Protocol):
    """Runs an invocation whose turn has come."""

    async def run_queued(self, invocation_id: str, require: Callable[[], None]) -> None: ...

    async def run_improvement(self, invocation_id: str) -> None: ...


Runners = Callable[[str], AbstractAsyncContextManager[Runs]]
"""The runner of a home by its id, for as long as it is needed."""


class Invocations:
    """The async invocations of every home that this process serves, on one engine."""

    def __init__(self, engine: Engine, runners: Runners) -> None:
        self.engine = engine
        self._runners = runners
        engine.register(WORK, self._run)
        engine.register(_IMPROVEMENT, self._improve)

    async def _run(self, context: WorkContext, payload: Any) -> None:
        try:
            async with self._runners(payload["home"]) as runner:
                await runner.run_queued(payload.get("invocation", context.id), context.require)
        except TEMPORARY_LEDGER_ERRORS:
            # The disk is full, or another process holds the ledger: it runs when that has passed.
            raise context.put_back() from None

    async def _improve(self, context: WorkContext, payload: Any) -> None:
        async with self._runners(payload["home"]) as runner:
            await runner.run_improvement(payload["invocation"])


class InvocationQueue:
    """The async invocations of one home."""

    def __init__(
        self, engine: Engine, home: str = "", *, note_late: Callable[[], None] = lambda: None
    ) -> None:
        """`note_late` is called when one could not be handed over: `hand_over_missing` is due."""
        self._engine = engine
        self._note_late = note_late
        self._home = home
        self._handing: set[asyncio.Task[None]] = set()

    def add(
        self,
        invocation_id: str,
        automation: str,
        session_label: str,
        *,
        attempts: int = 0,
        at: str | None = None,
    ) -> None:
        """Hand one over that is written down already, to run now or at a time. Nobody waits for it."""
        handing = self._hand_over(invocation_id, automation, session_label, attempts, at)
        task = asyncio.create_task(handing)
        self._handing.add(task)
        task.add_done_callback(self._handing.discard)

    def improve(self, invocation_id: str, automation: str) -> None:
        """Chain a reflection to an invocation. Those of one automation follow each other."""
        task = asyncio.create_task(self._chain(invocation_id, automation))
        self._handing.add(task)
        task.add_done_callback(self._handing.discard)

    async def hand_over_missing(self, ledgers: Ledgers) -> int:
        """Hand over what never reached the engine, in order, and end what the engine gave up.

        Returns how many those were.
        """
        await self.wait_until_settled()
        unfinished = await ledgers.runtime.read(invocations.list_unfinished)
        runs = [_run_id(id_, attempts) for id_, attempts in unfinished]
        known = await self._engine.states(runs) if runs else {}
        count = 0
        for (id_, attempts), run in zip(unfinished, runs, strict=True):
            if run not in known:
                count += await self._hand_over_again(ledgers, id_)
            elif known[run] in FINAL:
                error = (await self._engine.show(run)).error or "It ended without saying how"
                count += await ledgers.runtime.write(
                    invocations.lose, invocation_id=id_, attempts=attempts, error=error
                )
        return count

    @property
    def is_handing_over(self) -> bool:
        """Whether something that was added has not reached the engine yet."""
        return bool(self._handing)

    async def wait_until_settled(self) -> None:
        """When this returns, everything that was added has reached the engine."""
        while self._handing:
            await asyncio.gather(*self._handing)

    async def _hand_over_again(self, ledgers: Ledgers, id_: str) -> bool:
        found = await ledgers.runtime.read(invocations.get, invocation_id=id_)
        if found is None:
            return False
        automation = await ledgers.runtime.read(automations.by_id, automation_id=found.automation_id)
        label = "" if found.input is None else str(found.input["request"]["agent"]["session_label"])
        await self._start(id_, automation.name if automation else "", label, found.attempts, found.retry_at)
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

    async def _hand_over(
        self, id_: str, automation: str, session_label: str, attempts: int, at: str | None
    ) -> None:
        try:
            await self._start(id_, automation, session_label, attempts, at)
        except NexusError:
            self._note_late()  # it stays written down, and is handed over when the engine is back

    async def _start(
        self, id_: str, automation: str, session_label: str, attempts: int, at: str | None
    ) -> None:
        key = f"automation:{automation}:{session_label}"
        await self._engine.start(
            WORK,
            {"home": self._home, "invocation": id_},
            key=f"{self._home}/{key}" if self._home else key,
            lane=LANE,
            execution_id=_run_id(id_, attempts),
            delay_until_ms=None if at is None else round(clock.parse(at).timestamp() * 1000),
        )


def _run_id(invocation_id: str, attempts: int) -> str:
    """The id of an attempt on the engine: each failure makes room for another."""
    return f"{invocation_id}-{attempts}" if attempts else invocation_id
