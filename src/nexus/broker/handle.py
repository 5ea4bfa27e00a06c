"""A run that was asked for, in the hand of whoever asked."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from nexus import engine
from nexus.engine import Engine
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

Homes = Callable[[str], AbstractAsyncContextManager[Ledgers]]
"""The ledgers of a home by its id, for as long as they are needed."""

OUTAGE = (EngineUnreachableError, EngineBusyError, EngineFullError)
"""What passes: the ledger holds the work, and it is handed over afterwards."""
_LOOK_S = 0.5
_ERRORS: dict[Status, type[EndedError]] = {
    "failed": WorkFailedError,
    "timeout": WorkTimeoutError,
    "cancelled": WorkCancelledError,
}


async def settle(ledgers: Ledgers, known: engine.Execution) -> bool:
    """Record an end that only the engine knows of: it never ran, or took its process down each time."""
    if known.state != "failed" and known.state != "timeout" and known.state != "cancelled":
        return False
    turn: turns.End = "cancelled" if known.state == "cancelled" else "failed"
    await ledgers.agents.write(turns.end_of_run, execution_id=known.id, status=turn, error=known.error)
    return await ledgers.runtime.write(
        executions.end, execution_id=known.id, status=known.state, error=known.error
    )


class ExecutionHandle:
    """Ask for the result, look at the state, cancel. Dropping it changes nothing."""

    def __init__(self, engine: Engine, homes: Homes, home: str, execution_id: str) -> None:
        self._engine = engine
        self._homes = homes
        self._home = home
        self.id = execution_id

    def other(self, execution_id: str) -> "ExecutionHandle":
        """The handle of another run of the same home."""
        return ExecutionHandle(self._engine, self._homes, self._home, execution_id)

    async def result(self) -> Any:
        """The result once there is one; that of the run that answered for this one, where one did."""
        execution = await self.state()
        while execution.status not in FINAL:
            try:
                known = await self._engine.finished(self.id)
            except (UnknownExecutionError, *OUTAGE):
                # It is on record, and is handed over when the engine is back.
                await asyncio.sleep(_LOOK_S)
                execution = await self.state()
                continue
            await self._settle(known)
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
        async with self._homes(self._home) as ledgers:
            found = await ledgers.runtime.read(executions.get, execution_id=self.id)
        if found is None:
            raise UnknownExecutionError(f"No run {self.id}", hint="It may have been deleted.")
        return found

    async def is_over(self) -> bool:
        """Whether it has ended or another run answers for it; also where only the engine knows that."""
        state = await self.state()
        if state.status in FINAL or state.taken_by is not None:
            return True
        try:
            known = await self._engine.show(self.id)
        except (UnknownExecutionError, *OUTAGE):
            return False
        async with self._homes(self._home) as ledgers:
            return await settle(ledgers, known)

    async def cancel(self) -> bool:
        """Cancel it while it waits; while it runs, ask it to stop. False: already finished.

        Its session goes on only after its code has stopped.
        """
        if await self._withdrawn():
            return True
        if not await self._engine.cancel(self.id):
            return False
        await self._settle(await self._engine.show(self.id))
        return True

    async def _withdrawn(self) -> bool:
        """Cancel one that the engine has not got: it is on record only."""
        try:
            if await self._engine.states([self.id]):
                return False
        except OUTAGE:
            return False
        async with self._homes(self._home) as ledgers:
            return await ledgers.runtime.write(executions.end, execution_id=self.id, status="cancelled")

    async def _settle(self, known: engine.Execution) -> None:
        async with self._homes(self._home) as ledgers:
            await settle(ledgers, known)
