"""One engine for many homes: each execution runs in the home that its key names.

In the database, ids, keys and names of schedules begin with the id of their home, so a home can name, see and
change nothing of another. A home's own code sees them without it, as on an engine of its own.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from datetime import datetime

from nexus import clock
from nexus.engine import store
from nexus.engine.database import Database
from nexus.engine.engine import BoundWork, Engine
from nexus.engine.errors import EngineError, UnknownWorkError
from nexus.engine.running import WorkContext
from nexus.engine.settings import SEPARATOR, Settings
from nexus.engine.store import NewExecution


class HomeAwayError(EngineError):
    """A home can't be opened for now: its work goes back to its queue."""


Homes = Callable[[str, str], AbstractAsyncContextManager["HomeEngine"]]
"""The engine of a home by its id, open for as long as a work of that name needs it."""


class SharedEngine(Engine):
    """The engine of a process that serves many homes."""

    def __init__(self, settings: Settings, homes: Homes) -> None:
        if not settings.scope_limit or settings.file is None:
            raise EngineError("A shared engine needs an SQLite file and a limit for each home")
        super().__init__(settings)
        self._homes = homes

    def of_home(self, id_: str) -> "HomeEngine":
        """The engine as one home uses it."""
        return HomeEngine(self, id_)

    async def stop_home(self, id_: str) -> None:
        """Stop what runs of a home; it goes back to its queue. Suspend the home first."""
        stopped = [each for each in self._running.entries() if each.key.startswith(f"{id_}{SEPARATOR}")]
        for entry in stopped:
            entry.stop("put_back")
        for entry in stopped:
            await entry.ended.wait()

    async def _find(self, context: WorkContext, held: AsyncExitStack) -> BoundWork:
        scope, _, _ = context.key.partition(SEPARATOR)
        try:
            home = await held.enter_async_context(self._homes(scope, context.work))
        except HomeAwayError:
            raise context.put_back() from None
        return home.code(context)


class HomeEngine(Engine):
    """One home's part of a shared engine."""

    def __init__(self, shared: SharedEngine, id_: str) -> None:
        super().__init__(replace(shared.settings, scope=id_))
        self._shared = shared
        # What runs, and who waits for its end, the shared engine alone knows.
        self._running = shared._running  # noqa: SLF001 - this is a part of it
        self._waiters = shared._waiters  # noqa: SLF001 - this is a part of it

    async def open(self, *, serve: bool = True) -> None:
        """Nothing to open: the shared engine is."""

    async def close(self) -> None:
        """Nothing to close: the shared engine goes on."""

    def code(self, context: WorkContext) -> BoundWork:
        """The home's code for an execution."""
        if context.work not in self._works:
            raise UnknownWorkError(f"No work is registered as `{context.work}` in this home")
        own = replace(context, id=self.remove_prefix(context.id), key=self.remove_prefix(context.key))
        return BoundWork(work=self._works[context.work], context=own)

    @property
    def database(self) -> Database:
        return self._shared.database

    @property
    def is_open(self) -> bool:
        return self._shared.is_open

    @property
    def serving(self) -> bool:
        return self._shared.serving

    @property
    def may_run(self) -> bool:
        return self.serving and self.settings.scope not in self._shared.suspended

    async def next_wake(self, prefix: str) -> datetime | None:
        """When the home has something to do: now, or at its next schedule whose name begins so."""
        if await asyncio.to_thread(store.find_unfinished, self.database, "", self.settings.prefix, 1):
            return clock.now()
        due = [
            row["next_at"]
            for row in await self.schedules.list_schedules()
            if row["name"].startswith(prefix) and not row["paused"] and row["next_at"] is not None
        ]
        return clock.parse(min(due)) if due else None

    async def record(self, execution: NewExecution) -> None:
        await self._shared.record(execution)

    def announce(self) -> None:
        self._shared.announce()
