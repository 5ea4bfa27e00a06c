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


class Enqueuer:
    """One owner of inserts in the process, so that calls made in order are recorded in order."""

    def __init__(self, database: Database, announce: Callable[[], None]) -> None:
        self._database = database
        self._announce = announce
        self._waiting: list[tuple[NewExecution, asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None

    async def add(self, execution: NewExecution) -> None:
        """When this returns, the execution is durable."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((execution, future))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        await future

    async def close(self) -> None:
        if self._flushing is not None:
            await self._flushing

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:_COMMIT_TOGETHER]
                del self._waiting[:_COMMIT_TOGETHER]
                failure: Exception | None = None
                try:
                    await asyncio.to_thread(self._commit, [execution for execution, _ in batch])
                except Exception as error:  # every caller must hear of it
                    failure = error
                for _, future in batch:
                    if future.done():
                        continue
                    if failure is None:
                        future.set_result(None)
                    else:
                        future.set_exception(failure)
                if failure is None:
                    self._announce()
        finally:
            self._flushing = None

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
