"""The engine's part in forgetting: no copy of what was forgotten stays in its database.

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

from nexus.engine import interior, retention
from nexus.engine.cancels import Cancels
from nexus.engine.database import Database
from nexus.engine.failures import translated
from nexus.engine.owner import find_owner
from nexus.engine.settings import Settings
from nexus.errors import CareError

_STOP_WITHIN_S = 30.0
_LOOK_S = 0.1
_TOGETHER = 500


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

    async def remove(self, execution_ids: Sequence[str]) -> None:
        """Stop these executions, and remove them and all that has ended. It may be repeated."""
        if self._exists:
            stored = [self._settings.prefix + id_ for id_ in execution_ids]
            await asyncio.to_thread(self._remove, stored)

    async def scrub(self) -> str:
        """Take the removed bytes out of the file; returns what could not be done, nothing where all was."""
        if not self._exists or self._settings.is_postgres:
            return ""
        return await asyncio.to_thread(self._scrub)

    @property
    def _exists(self) -> bool:
        return self._settings.is_postgres or Path(self._settings.database).is_file()

    def _remove(self, execution_ids: Sequence[str]) -> None:
        with translated(self._settings):
            database = Database(self._settings)
            try:
                for first in range(0, len(execution_ids), _TOGETHER):
                    self._remove_some(database, execution_ids[first : first + _TOGETHER])
                retention.forget_ended(database, self._settings.prefix)
                self._forget_errors(database)
            finally:
                database.close()

    def _forget_errors(self, database: Database) -> None:
        chosen, values = interior.within("job_key", self._settings.prefix)
        statement = database.sql(f"UPDATE {{t}}nexus_jobs SET error = NULL WHERE {chosen}")  # noqa: S608 - constants of the program
        database.change(statement, values)

    def _remove_some(self, database: Database, execution_ids: Sequence[str]) -> None:
        for execution_id in execution_ids:
            interior.cancel_waiting(database, execution_id)
        deadline = time.monotonic() + self._stop_within_s
        for execution_id in interior.running_among(database, execution_ids):
            Cancels(database).ask(execution_id)
        # What a dead process left as running cannot record anything any more.
        while find_owner(self._settings) and (running := interior.running_among(database, execution_ids)):
            if time.monotonic() > deadline:
                raise CareError(
                    f"{len(running)} runs that are to be forgotten do not stop, such as {running[0]}",
                    hint="Stop the process that serves them (`nexus engine status`), "
                    "then run `nexus forget resume`.",
                )
            time.sleep(_LOOK_S)
        with database.write() as connection:
            interior.delete(database, connection, execution_ids)

    def _scrub(self) -> str:
        with translated(self._settings):
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
