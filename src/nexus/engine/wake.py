"""How a process learns that there may be work: its own enqueue, another's, or the slow poll.

Postgres tells by NOTIFY. For SQLite, a write to the write-ahead log tells that some process has committed.
"""

import asyncio
import logging
import threading
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from nexus.engine.database import CHANNEL, Database
from nexus.watch import Watch, wait_at_most

_log = logging.getLogger(__name__)
_PAUSE_S = 0.025
_RECONNECT_S = 1.0
_LISTEN_S = 10.0


class Wake:
    """Events that are set when a sweep, or the upkeep, may find something."""

    def __init__(self, database: Database, poll_ms: int) -> None:
        self._database = database
        self._poll_s = poll_ms / 1000
        self._event = asyncio.Event()
        self._upkeep = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._watch: Watch | None = None

    def start(self) -> None:
        """Begin to listen for what other processes do."""
        if self._database.path is None:
            self._thread = threading.Thread(target=self._listen, name="engine-wake", daemon=True)
            self._thread.start()
        else:
            log = self._database.path.with_name(self._database.path.name + "-wal")
            self._watch = Watch([log], self.set, pause_s=_PAUSE_S)

    async def stop(self) -> None:
        self._stopping.set()
        if self._watch is not None:
            self._watch.close()
        if self._thread is not None:
            await self._loop.run_in_executor(None, self._end_listening, self._thread)

    def set(self) -> None:
        """From the loop's own thread."""
        self._event.set()
        self._upkeep.set()

    def set_from_thread(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to wake
            self._loop.call_soon_threadsafe(self.set)

    async def wait(self, least_s: float = 0.0) -> None:
        """Until somebody wakes us, or the slow poll is due; no sooner than `least_s`."""
        if least_s:
            await asyncio.sleep(least_s)
        await wait_at_most(self._event.wait(), self._poll_s)
        self._event.clear()

    async def wait_for_upkeep(self, most_s: float) -> None:
        """Until something was recorded, here or elsewhere, or the time is up."""
        await wait_at_most(self._upkeep.wait(), most_s)
        self._upkeep.clear()

    def _end_listening(self, thread: threading.Thread) -> None:
        with suppress(SQLAlchemyError), self._database.write() as connection:
            self._database.notify(connection)
        thread.join()

    def _listen(self) -> None:
        import psycopg

        url = self._database.url.replace("+psycopg", "")
        while not self._stopping.is_set():
            try:
                with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    self.set_from_thread()
                    while not self._stopping.is_set():
                        for _ in connection.notifies(timeout=_LISTEN_S, stop_after=1):
                            self.set_from_thread()
            except psycopg.Error as error:
                _log.warning("listening for work was interrupted: %s", error)
                self._stopping.wait(_RECONNECT_S)
