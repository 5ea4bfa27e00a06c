"""A run in the hand of whoever asked for it."""

from collections.abc import AsyncIterator

from nexus.broker.handle import ExecutionHandle
from nexus.broker.streams import Streams
from nexus.engine.errors import EndedError
from nexus.ledgers.runtime.executions import Execution
from nexus.runs import Delta, Result


class Run:
    """A run that was asked for: see it being written, wait for its result, cancel it."""

    def __init__(self, handle: ExecutionHandle, streams: Streams) -> None:
        self._handle = handle
        self._streams = streams
        self.id = handle.id

    async def result(self) -> Result:
        """The result once there is one; an `EndedError` with the reason where it ended without."""
        try:
            return Result.from_json(await self._handle.result())
        except EndedError as ended:
            raise _explained(ended, await self._handle.state()) from None

    async def state(self) -> Execution:
        """The run as it stands."""
        return await self._handle.state()

    async def deltas(self) -> AsyncIterator[Delta]:
        """The answer as it is written, from its beginning, also where another process or run writes it."""
        async for delta in self._streams.subscribe(self.id, self._handle.is_over):
            yield delta
        taken_by = (await self._handle.state()).taken_by
        if taken_by is not None:
            async for delta in Run(self._handle.other(taken_by), self._streams).deltas():
                yield delta

    async def cancel(self) -> bool:
        """Stop it. False: already finished."""
        return await self._handle.cancel()


def _explained(ended: EndedError, run: Execution) -> EndedError:
    """The error in the words of what failed, which the ledger keeps as `Type: message` and a hint."""
    message, _, hint = (run.error or "").partition("\n")
    kind, colon, rest = message.partition(": ")
    if not colon or not kind.endswith("Error"):
        return ended
    *more, last = hint.split("\n")
    return type(ended)("\n".join([rest, *more]), hint=last)
