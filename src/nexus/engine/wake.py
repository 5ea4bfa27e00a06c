"""How a process learns that there may be work: its own enqueue, another's, or the slow poll.

Postgres tells by NOTIFY. For SQLite the time stamp of the write-ahead log tells that some process
has written; looking at it costs microseconds.
"""

import asyncio
import logging
import threading
import time
from contextlib import suppress
from pathlib import Path

from nexus.engine.database import Database
from nexus.engine.enqueue import CHANNEL

_log = logging.getLogger(__name__)
_LOOK_S = 0.025
_RECONNECT_S = 1.0


class Wake:
    """An event that is set when a sweep may find something."""

    def __init__(self, database: Database, poll_ms: int) -> None:
        self._database = database
        self._poll_s = poll_ms / 1000
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to listen for what other processes do."""
        target = self._listen if self._database.is_postgres else self._watch
        self._thread = threading.Thread(target=target, name="engine-wake", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            await self._loop.run_in_executor(None, self._thread.join)

    def set(self) -> None:
        """From the loop's own thread."""
        self._event.set()

    def set_from_thread(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to wake
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, least_s: float = 0.0) -> None:
        """Until somebody wakes us, or the slow poll is due; no sooner than `least_s`."""
        if least_s:
            await asyncio.sleep(least_s)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), self._poll_s)
        self._event.clear()

    def _watch(self) -> None:
        assert self._database.path is not None  # noqa: S101 - an invariant, for the reader and the type checker
        log = self._database.path.with_name(self._database.path.name + "-wal")
        seen = _stamp(log)
        while not self._stopping.wait(_LOOK_S):
            stamp = _stamp(log)
            if stamp != seen:
                seen = stamp
                self.set_from_thread()

    def _listen(self) -> None:
        import psycopg

        url = self._database.url.replace("+psycopg", "")
        while not self._stopping.is_set():
            try:
                with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    self.set_from_thread()
                    while not self._stopping.is_set():
                        for _ in connection.notifies(timeout=0.5, stop_after=1):
                            self.set_from_thread()
            except psycopg.Error as error:
                _log.warning("listening for work was interrupted: %s", error)
                time.sleep(_RECONNECT_S)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
