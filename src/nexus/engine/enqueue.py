"""Recording new executions: those that wait for each other share one commit, in the order they came."""

import asyncio
from collections.abc import Callable, Sequence

from sqlalchemy.exc import DBAPIError

from nexus.engine import store
from nexus.engine.database import Database
from nexus.engine.store import NewExecution

# Enough to hide the cost of a commit, few enough to stay prompt.
_COMMIT_TOGETHER = 500
# A server that was restarted leaves a pool of dead connections, each found out by using it.
_ATTEMPTS = 12

_Waiting = tuple[Sequence[NewExecution], "asyncio.Future[None]"]


class Enqueuer:
    """One owner of inserts in the process, so that calls made in order are recorded in order."""

    def __init__(self, database: Database, recorded: Callable[[], None]) -> None:
        self._database = database
        self._recorded = recorded
        self._waiting: list[_Waiting] = []
        self._flushing: asyncio.Task[None] | None = None

    async def add(self, executions: Sequence[NewExecution]) -> None:
        """When this returns, the executions are durable."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((executions, future))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        await future

    async def close(self) -> None:
        if self._flushing is not None:
            await self._flushing

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch = self._take()
                try:
                    await asyncio.to_thread(self._commit, [one for group, _ in batch for one in group])
                except Exception as error:  # every caller must hear of it
                    _tell(batch, error)
                else:
                    _tell(batch, None)
                    self._recorded()
        finally:
            self._flushing = None

    def _take(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        count = 0
        while self._waiting and count < _COMMIT_TOGETHER:
            batch.append(self._waiting.pop(0))
            count += len(batch[-1][0])
        return batch

    def _commit(self, executions: Sequence[NewExecution]) -> None:
        """Ids are given, so that trying again after a lost connection cannot record anything twice."""
        for attempt in range(_ATTEMPTS):
            try:
                with self._database.write() as connection:
                    store.insert(self._database, connection, executions)
                    self._database.notify(connection)
                return
            except DBAPIError as error:
                if not error.connection_invalidated or attempt == _ATTEMPTS - 1:
                    raise


def _tell(batch: list[_Waiting], error: Exception | None) -> None:
    for _, future in batch:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
