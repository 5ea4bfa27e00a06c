"""What goes from the engine's database: what ended long ago, what is to be forgotten, and a whole home.

The result of a step serves one purpose: that an execution which runs again need not repeat it. Once the
execution has ended it is a copy of what the ledgers hold, or of what nobody wanted to keep, so it goes soon.

Executions of the session queue are named by ids of the ledgers, but the results of their steps and the
words of their errors are content. What has ended goes altogether, because the ledgers hold the truth
about it; of what has not ended, only what is named goes, after its code has stopped.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

from sqlalchemy.exc import OperationalError

from nexus.engine import store
from nexus.engine.database import Database, translate_errors
from nexus.engine.owner import find_owner
from nexus.engine.settings import Settings
from nexus.errors import CareError

_STOP_WITHIN_S = 30.0
_LOOK_S = 0.1
_TOGETHER = 500
_DAY_MS = 86_400_000


class Forgetting:
    """Forgets in the database of an engine that other processes may be serving."""

    def __init__(
        self,
        settings: Settings,
        *,
        stop_within_s: float = _STOP_WITHIN_S,
        elsewhere: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        self._settings = settings
        self._stop_within_s = stop_within_s
        self.elsewhere = elsewhere
        self.renews_copies = elsewhere is not nullcontext

    async def remove(self, execution_ids: Sequence[str]) -> None:
        """Stop these executions, and remove them and all that has ended. It may be repeated."""
        if self._settings.exists:
            stored = [self._settings.prefix + id_ for id_ in execution_ids]
            await asyncio.to_thread(self._remove, stored)

    async def scrub(self) -> str:
        """Take the removed bytes out of the file; returns what could not be done, nothing where all was."""
        if self._settings.file is None or not self._settings.exists:
            return ""
        return await asyncio.to_thread(self._scrub)

    def _remove(self, execution_ids: Sequence[str]) -> None:
        with translate_errors(self._settings):
            database = Database(self._settings)
            try:
                for first in range(0, len(execution_ids), _TOGETHER):
                    self._remove_some(database, execution_ids[first : first + _TOGETHER])
                forget_ended(database, self._settings.prefix)
            finally:
                database.close()

    def _remove_some(self, database: Database, execution_ids: Sequence[str]) -> None:
        for execution_id in execution_ids:
            store.cancel_waiting(database, execution_id)
        deadline = time.monotonic() + self._stop_within_s
        for execution_id in store.running_among(database, execution_ids):
            store.ask_to_stop(database, execution_id)
        # What a dead process left as running cannot record anything any more.
        while find_owner(self._settings) and (running := store.running_among(database, execution_ids)):
            if time.monotonic() > deadline:
                raise CareError(
                    f"{len(running)} runs that are to be forgotten do not stop, such as {running[0]}",
                    hint="Stop the process that serves them (`nexus engine status`), "
                    "then run `nexus forget resume`.",
                )
            time.sleep(_LOOK_S)
        with database.write() as connection:
            store.delete(database, connection, execution_ids)

    def _scrub(self) -> str:
        with translate_errors(self._settings):
            database = Database(self._settings)
            try:
                # Outside of any transaction, as VACUUM must be.
                with database.engine.connect() as connection:
                    connection.execution_options(isolation_level="AUTOCOMMIT")
                    connection.exec_driver_sql("VACUUM")
                    busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]
            except OperationalError as error:
                return f"{Path(self._settings.database).name} ({error.orig})"
            finally:
                database.close()
        return f"{Path(self._settings.database).name}-wal (another process keeps reading)" if busy else ""


def drop_step_results(database: Database) -> int:
    """Empty the steps of executions that have ended; returns of how many. Blocking."""
    dropped = 0
    while ids := store.ended_with_step_results(database, _TOGETHER):
        store.empty_steps(database, ids)
        dropped += len(ids)
    return dropped


def forget_old(database: Database, retention_days: int) -> int:
    """Delete one batch of what ended too long ago; returns how many. Blocking."""
    return _delete(database, store.find_ended(database, _TOGETHER, older_than_ms=retention_days * _DAY_MS))


def forget_ended(database: Database, prefix: str = "") -> int:
    """Delete all that has ended; returns how many. Blocking.

    With a prefix, only what has an id that begins with it.
    """
    total = 0
    while count := _delete(database, store.find_ended(database, _TOGETHER, prefix=prefix)):
        total += count
    return total


def _delete(database: Database, ids: Sequence[str]) -> int:
    if ids:
        with database.write() as connection:
            store.delete(database, connection, ids)
    return len(ids)


def remove_scope(settings: Settings) -> None:
    """Delete everything that is recorded of the home in `settings.scope`. Blocking."""
    assert settings.scope  # noqa: S101 - an invariant, for the reader and the type checker
    if not settings.exists:
        return
    with translate_errors(settings):
        database = Database(settings)
        try:
            while found := store.find_recorded(database, settings.prefix, _TOGETHER):
                with database.write() as connection:
                    store.delete(database, connection, found)
            chosen, values = store.within("name", settings.prefix)
            statement = f"DELETE FROM {{t}}nexus_schedules WHERE {chosen}"  # noqa: S608 - constants of the program
            database.change(database.sql(statement), values)
        finally:
            database.close()
