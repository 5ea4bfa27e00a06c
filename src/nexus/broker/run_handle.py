"""Handles to runs: wait for the result, follow the text, cancel."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from nexus.broker import pace
from nexus.broker.streams import Streams
from nexus.engine import Engine, WorkRecord
from nexus.engine.errors import FINAL as ENDED
from nexus.engine.errors import (
    EndedError,
    EngineBusyError,
    EngineFullError,
    EngineUnreachableError,
    UnknownExecutionError,
    WorkCancelledError,
    WorkFailedError,
    WorkTimeoutError,
)
from nexus.ledgers import Ledgers
from nexus.ledgers.agents import turns
from nexus.ledgers.runtime import executions
from nexus.ledgers.runtime.executions import FINAL, Execution, Status
from nexus.runs import Delta, Result

OUTAGE = (EngineUnreachableError, EngineBusyError, EngineFullError)
"""Temporary failures: the ledger holds the work, and it is handed over afterwards."""
_LOOK_S = 0.5
_ERRORS: dict[Status, type[EndedError]] = {
    "failed": WorkFailedError,
    "timeout": WorkTimeoutError,
    "cancelled": WorkCancelledError,
}


async def record_engine_end(ledgers: Ledgers, known: WorkRecord) -> bool:
    """Record an end that only the engine knows of: it never ran, or took its process down each time."""
    if known.state != "failed" and known.state != "timeout" and known.state != "cancelled":
        return False
    turn: turns.End = "cancelled" if known.state == "cancelled" else "failed"
    await ledgers.agents.write(turns.end_of_run, execution_id=known.id, status=turn, error=known.error)
    return await ledgers.runtime.write(
        executions.end, execution_id=known.id, status=known.state, error=known.error
    )


class QueuedRun:
    """Ask for the result, look at the state, cancel. Dropping it changes nothing."""

    def __init__(
        self,
        engine: Engine,
        ledgers: Ledgers,
        execution_id: str,
        record_end: Callable[[WorkRecord], Awaitable[bool]],
    ) -> None:
        """`record_end` records an end that only the engine knows of. False: there was none to record."""
        self._engine = engine
        self._ledgers = ledgers
        self._record_end = record_end
        self.id = execution_id

    def other(self, execution_id: str) -> "QueuedRun":
        """Another run of the same home."""
        return QueuedRun(self._engine, self._ledgers, execution_id, self._record_end)

    async def result(self) -> Any:
        """The result once there is one; that of the run that answered for this one, where one did."""
        execution = await self.state()
        while execution.status not in FINAL:
            try:
                with pace.waiting():
                    await self._engine.wait_for_end(self.id)
            except (UnknownExecutionError, *OUTAGE):
                # It is on record, and is handed over when the engine is back.
                await asyncio.sleep(_LOOK_S)
                execution = await self.state()
                continue
            execution = await self.state()
            if execution.status not in FINAL:
                await self._record_end(await self._engine.show(self.id))
                execution = await self.state()
            break
        if execution.taken_by is not None:
            return await self.other(execution.taken_by).result()
        if execution.status == "done":
            return execution.result
        if execution.status == "cancelled" and not execution.error:
            message = "Stopped."
        else:
            message = f"Run {self.id} {execution.status}: {execution.error or 'no reason given'}"
        raise _ERRORS.get(execution.status, EndedError)(message, hint=f"See `nexus engine show {self.id}`.")

    async def state(self) -> Execution:
        """The run as it stands."""
        found = await self._ledgers.runtime.read_now(executions.get, execution_id=self.id)
        if found is None:
            raise UnknownExecutionError(f"No run {self.id}", hint="It may have been deleted.")
        return found

    async def is_over(self) -> bool:
        """Whether it has ended or another run answers for it; also where only the engine knows that."""
        state = await self.state()
        if state.status in FINAL or state.taken_by is not None:
            return True
        try:
            known = (await self._engine.states([self.id])).get(self.id)
            return known in ENDED and await self._record_end(await self._engine.show(self.id))
        except (UnknownExecutionError, *OUTAGE):
            return False

    async def cancel(self) -> bool:
        """Cancel it while it waits; while it runs, ask it to stop. False: already finished.

        Its session goes on only after its code has stopped.
        """
        if (await self.state()).status in FINAL:
            return False  # the engine may still be busy with its end
        try:
            is_on_record_only = not await self._engine.states([self.id])
        except OUTAGE:
            is_on_record_only = False
        if is_on_record_only and await self._ledgers.runtime.write(
            executions.end, execution_id=self.id, status="cancelled"
        ):
            return True
        if not await self._engine.cancel(self.id):
            return False
        await self._record_end(await self._engine.show(self.id))
        return True


class Run:
    """A run that was asked for: see it being written, wait for its result, cancel it."""

    def __init__(self, queued: QueuedRun, streams: Streams) -> None:
        self._queued = queued
        self._streams = streams
        self.id = queued.id

    async def result(self) -> Result:
        """The result once there is one; an `EndedError` with the reason where it ended without."""
        try:
            return Result.from_json(await self._queued.result())
        except EndedError as ended:
            raise _explain(ended, await self._queued.state()) from None

    async def state(self) -> Execution:
        """The run as it stands."""
        return await self._queued.state()

    def describe_progress(self) -> str:
        """What it does at the moment, and for how long; nothing if that isn't known."""
        return self._streams.describe_progress(self.id)

    async def deltas(self) -> AsyncIterator[Delta]:
        """The answer as it is written, from its beginning, also where another process or run writes it."""
        async for delta in self._streams.subscribe(self.id, self._queued.is_over):
            yield delta
        taken_by = (await self._queued.state()).taken_by
        if taken_by is not None:
            async for delta in Run(self._queued.other(taken_by), self._streams).deltas():
                yield delta

    async def cancel(self) -> bool:
        """Stop it. False: already finished."""
        return await self._queued.cancel()


def _explain(ended: EndedError, run: Execution) -> EndedError:
    """The error in the words of what failed, which the ledger keeps as `Type: message` and a hint."""
    message, _, hint = (run.error or "").partition("\n")
    kind, colon, rest = message.partition(": ")
    if not colon or not kind.endswith("Error"):
        return ended
    *more, last = hint.split("\n")
    return type(ended)("\n".join([rest, *more]), hint=last)
