"""The six ledgers of one home, open together.

Opening takes the home's shared lock, and makes the vectors' file if it is missing: they can be made again
from the other ledgers. Each file is opened when it is first used.
Closing leaves no thread, no connection and no lock behind.
"""

import asyncio
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from nexus import clock
from nexus.clock import Clock
from nexus.config import LedgersConfig
from nexus.home import LEDGERS, Home, HomeLock
from nexus.ledgers import migrate
from nexus.ledgers.database import Database
from nexus.ledgers.dated import Dated
from nexus.ledgers.fencing import Fence
from nexus.ledgers.threads import Threads, Workers

# Six writers and a few readers: threads start when there is work for them.
_THREADS_OF_ONE_HOME = 8


class Ledgers:
    """Use as `async with Ledgers(home, config.ledgers) as ledgers:`.

    A host that serves many homes hands the same threads to all of them. With `now` everything that is
    written is dated by that clock, for homes that are to hold a past; so it is while the program's own
    clock is shifted. With a fence nothing is written once another host may own the home.
    """

    def __init__(
        self,
        home: Home,
        settings: LedgersConfig,
        threads: Workers | None = None,
        *,
        now: Clock | None = None,
        fence: Fence | None = None,
    ) -> None:
        self.home = home.require()
        self.settings = settings
        self._lock = HomeLock(home, "shared")
        self._own_threads = Threads(_THREADS_OF_ONE_HOME, "ledgers") if threads is None else None
        given = threads or self._own_threads
        assert given is not None  # noqa: S101 - an invariant, for the reader and the type checker
        dating = clock.now if now is None and clock.is_shifted() else now
        self._dated = None if dating is None else Dated(dating)
        vfs = self._dated and self._dated.name

        def database(name: str) -> Database:
            return Database(
                home.ledger(name), name, settings, given, vfs, fence, checkpoints=not home.is_copied
            )

        self.events = database("events")
        self.agents = database("agents")
        self.identity = database("identity")
        self.memory = database("memory")
        self.embeddings = database("embeddings")
        self.runtime = database("runtime")

    def __iter__(self) -> Iterator[Database]:
        return iter((self.events, self.agents, self.identity, self.memory, self.embeddings, self.runtime))

    def __getitem__(self, name: str) -> Database:
        return next(database for database in self if database.ledger == name)

    async def __aenter__(self) -> Self:
        self._lock.__enter__()
        if not self.embeddings.path.exists():
            try:
                await asyncio.to_thread(migrate.create, self.embeddings.path, "embeddings")
            except BaseException:
                await self.close()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish accepted work, close every connection, stop every thread, give the lock back."""
        try:
            ends = await asyncio.gather(*(database.close() for database in self), return_exceptions=True)
        finally:
            if self._own_threads is not None:
                self._own_threads.shutdown()
            self._lock.release()
            if self._dated is not None:
                self._dated.unregister()
        for end in ends:
            if end is not None:
                raise end


def create(home: Home) -> list[str]:
    """Make the ledgers that are missing; returns their names. Those that exist are not touched."""
    return [name for name in LEDGERS if migrate.create(home.ledger(name), name)]
