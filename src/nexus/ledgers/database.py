"""One ledger, open: a single owner of writes, readers beside it, and an event loop that never waits.

Work is a plain function of a connection, handed over with its arguments as to `asyncio.to_thread`:
`await ledgers.runtime.read(executions.get, execution_id=id_)`. Queries that belong together are called by
one function and share its transaction. Work runs on one of the threads that were handed in, so a
host with hundreds of open homes shares a few threads; an idle database has none. The way to a thread and
back costs more than a small read: those by key or of a few rows run where they are, with `read_now`, on a
connection of the event loop's own, and go to a thread if they turn out to be large. Writes that wait
for each other are committed together: each is acknowledged after the sync that made it durable, and
one that fails takes back only its own changes. Where another process has just changed the schema (a
migration, a forget), SQLite may refuse a statement once, and the work is run again from its start.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw

from nexus.config import LedgersConfig
from nexus.errors import LedgerClosedError
from nexus.ledgers import fencing
from nexus.ledgers.connection import connect
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.fencing import Fence
from nexus.ledgers.threads import Workers

_log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[Concatenate[apsw.Connection, P], T]
"""A query, or several that belong together: a connection comes first, then the arguments."""
_Bound = Callable[[apsw.Connection], T]
_Job = tuple[_Bound[Any], "_Outcome"]

yield_point: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("yield_point", default=None)
"""Awaited by a task before each of its reads and writes: work that can wait lets other work pass there."""

# How many waiting writes share one commit: enough to hide the sync, few enough to stay prompt.
_COMMIT_TOGETHER = 64
# How long a read may keep the event loop waiting before it goes to a thread, and after how many of SQLite's
# steps it is looked at the time.
_NOW_S = 0.002
_STEPS_BETWEEN_LOOKS = 1_000
# How long a write that nobody waits for lets others go first, to be committed with them.
_ALONG_S = 0.05
# How many waiting reads a thread does before it makes way for other databases.
_READ_TOGETHER = 16


@contextmanager
def without_yielding() -> Generator[None]:
    """Let no other work pass: for work with a time limit, and work that others wait for."""
    token = yield_point.set(None)
    try:
        yield
    finally:
        yield_point.reset(token)


class Database:
    """One ledger's file. Connections open at first use and close with it."""

    def __init__(
        self,
        path: Path,
        ledger: str,
        settings: LedgersConfig,
        threads: Workers,
        vfs: str | None = None,
        fence: Fence | None = None,
        *,
        checkpoints: bool = True,
    ) -> None:
        self.path = path
        self.ledger = ledger
        self._settings = settings
        self._threads = threads
        self._vfs = vfs
        self._fence = fence
        self._checkpoints = checkpoints
        self._lock = threading.Lock()
        self._closing = False
        self._gone: Future[None] = Future()
        self._writer: apsw.Connection | None = None
        self._writes: deque[_Job] = deque()
        self._writing = False
        self._readers: list[apsw.Connection] = []
        self._reads: deque[_Job] = deque()
        self._reading = 0
        self._near: apsw.Connection | None = None
        """The event loop's own connection: that of the first read which could have used one."""
        self._near_thread = 0
        self._wants_near = False
        self._near_until_s = 0.0

    async def write(self, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in its own transaction; when this returns, its changes are durable."""
        if (let_pass := yield_point.get()) is not None:
            await let_pass()
        return await self._submit(self._writes, _bound(work, *args, **kwargs))

    def write_along(self, work: Work[P, object], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Run `work` with the next write, or soon: nobody waits for it, and its failure is only logged.

        It stays in order: whoever sees a later write sees this one.
        """
        outcome = _Outcome()
        outcome.future.add_done_callback(partial(_log_failure, self.ledger))
        with self._lock:
            if self._closing:
                raise LedgerClosedError(f"The {self.ledger} ledger is closed")
            self._writes.append((_bound(work, *args, **kwargs), outcome))
        asyncio.get_running_loop().call_later(_ALONG_S, self._write_waiting)

    async def read(self, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` on one consistent snapshot. It must return values, not open cursors."""
        if (let_pass := yield_point.get()) is not None:
            await let_pass()
        return await self._submit(self._reads, _bound(work, *args, **kwargs))

    async def read_now(self, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Like `read`, for work of a few rows: it runs here, while the event loop waits.

        Work that does more than a small read, or finds the file locked, is begun anew on a thread.
        """
        if (let_pass := yield_point.get()) is not None:
            await let_pass()
        bound = _bound(work, *args, **kwargs)
        if self._near is None:
            self._wants_near = True
        elif self._near_thread == threading.get_ident() and not self._closing:
            self._near_until_s = time.perf_counter() + _NOW_S
            with suppress(apsw.Error):  # it is tried again on a thread, which tells what is wrong
                return _snapshot(self._near, bound)
        return await self._submit(self._reads, bound)

    async def maintain(self, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` alone on the writing connection, outside any transaction (VACUUM, checkpoint)."""
        return await self._submit(self._writes, _Outside(_bound(work, *args, **kwargs)))

    async def close(self) -> None:
        """Finish what was accepted, then close every connection.

        It is carried out also when its caller stops waiting; a second call waits for the same end.
        """
        with self._lock:
            first, self._closing = not self._closing, True
            self._dispatch()
            idle = first and self._is_settled()
        if idle and (self._writer or self._readers or self._near):
            self._threads.submit(self._disconnect)
        elif idle:
            self._disconnect()
        await asyncio.shield(asyncio.wrap_future(self._gone))

    def _submit(self, queue: deque[_Job], work: _Bound[T]) -> "asyncio.Future[T]":
        outcome = _Outcome()
        with self._lock:
            if self._closing:
                raise LedgerClosedError(f"The {self.ledger} ledger is closed")
            queue.append((work, outcome))
            self._dispatch()
        return outcome.future

    def _write_waiting(self) -> None:
        with self._lock:
            self._dispatch()

    def _dispatch(self) -> None:
        """Hand waiting work to threads: one for writing, a few for reading. Called with the lock held."""
        if self._writes and not self._writing:
            self._writing = True
            self._threads.submit(self._write_some)
        if self._reads and self._reading < max(1, self._settings.readers):
            self._reading += 1
            self._threads.submit(self._read_some)

    def _is_settled(self) -> bool:
        """Whether a closing database has nothing left to do. Called with the lock held."""
        return self._closing and not (self._writing or self._reading or self._writes or self._reads)

    def _write_some(self) -> None:
        with self._lock:
            jobs = [self._writes.popleft() for _ in range(min(len(self._writes), _COMMIT_TOGETHER))]
        try:
            wanted = [job for job in jobs if job[1].is_wanted]
            for run in _runs(wanted):
                self._commit(run)
        finally:
            with self._lock:
                self._writing = False
                self._dispatch()
                settled = self._is_settled()
            if settled:
                self._disconnect()

    def _commit(self, jobs: list[_Job]) -> None:
        """Run jobs in one transaction, and report their outcomes only once it is durable."""
        outcomes: list[tuple[Any, BaseException | None]] = []
        try:
            with translate_errors(self.ledger, self.path):
                connection = self._writing_connection()
                if isinstance(jobs[0][0], _Outside):
                    self._hold(connection)
                    outcomes.append((jobs[0][0](connection), None))
                else:
                    connection.execute("BEGIN IMMEDIATE")
                    outcomes.extend(self._attempt(connection, work) for work, _ in jobs)
                    self._hold(connection)
                    connection.execute("COMMIT")
        except BaseException as error:  # every caller must hear of it
            self._roll_back()
            outcomes = [(None, error)] * len(jobs)
        for (_, outcome), told in zip(jobs, outcomes, strict=True):
            outcome.tell(*told)

    def _hold(self, connection: apsw.Connection) -> None:
        if self._fence is not None:
            fencing.hold(connection, self._fence)

    def _attempt(self, connection: apsw.Connection, work: _Bound[Any]) -> tuple[Any, BaseException | None]:
        connection.execute("SAVEPOINT job")
        try:
            with translate_errors(self.ledger, self.path):
                try:
                    result = work(connection)
                except apsw.SchemaChangeError:
                    connection.execute("ROLLBACK TO job")
                    result = work(connection)
        except BaseException as error:
            if not connection.in_transaction:
                raise  # SQLite gave up the whole transaction (full disk, I/O error): nobody's change stands
            connection.execute("ROLLBACK TO job; RELEASE job")
            return None, error
        connection.execute("RELEASE job")
        return result, None

    def _read_some(self) -> None:
        for _ in range(_READ_TOGETHER):
            with self._lock:
                job = self._reads.popleft() if self._reads else None
            if job is None:
                break
            self._read_one(*job)
        with self._lock:
            self._reading -= 1
            self._dispatch()
            settled = self._is_settled()
        if settled:
            self._disconnect()

    def _read_one(self, work: _Bound[Any], outcome: "_Outcome") -> None:
        if not outcome.is_wanted:
            return
        connection: apsw.Connection | None = None
        result, failure = None, None
        try:
            with translate_errors(self.ledger, self.path):
                connection = self._reading_connection()
                result = _snapshot(connection, work)
        except BaseException as error:  # the caller must hear of it
            failure = error
        if connection is not None:
            self._put_back(connection, outcome.loop_thread)
        outcome.tell(result, failure)

    def _put_back(self, connection: apsw.Connection, loop_thread: int) -> None:
        """Keep a reading connection for the next reads, or for the event loop if it has none."""
        with self._lock:
            if not self._wants_near or self._near is not None:
                self._readers.append(connection)
                return
            self._wants_near = False
            # The event loop must not wait: neither for a lock nor for a large read.
            connection.set_busy_handler(None)
            connection.set_progress_handler(
                lambda: time.perf_counter() > self._near_until_s, _STEPS_BETWEEN_LOOKS
            )
            self._near, self._near_thread = connection, loop_thread

    def _writing_connection(self) -> apsw.Connection:
        if self._writer is None:
            self._writer = connect(
                self.path,
                self.ledger,
                self._settings,
                writes=True,
                vfs=self._vfs,
                checkpoints=self._checkpoints,
            )
        return self._writer

    def _reading_connection(self) -> apsw.Connection:
        with self._lock:
            if self._readers:
                return self._readers.pop()
        return connect(self.path, self.ledger, self._settings, writes=False, vfs=self._vfs)

    def _roll_back(self) -> None:
        writer = self._writer
        if writer is not None and writer.in_transaction:
            try:
                writer.execute("ROLLBACK")
            except apsw.Error:
                # Closing rolls back as well, and the next write begins with a sound connection.
                self._writer = None
                writer.close()

    def _disconnect(self) -> None:
        # Readers first: the last connection to close, the writing one, folds the WAL into the file.
        connections = [*self._readers, *filter(None, (self._near, self._writer))]
        self._readers, self._writer, self._near = [], None, None
        try:
            with translate_errors(self.ledger, self.path):
                for connection in connections:
                    connection.close()
        except BaseException as error:  # whoever waits for the close must hear of it
            self._gone.set_exception(error)
        else:
            self._gone.set_result(None)


def _bound(work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> _Bound[T]:
    """Return the work with its arguments: only the connection is missing."""
    if not args and not kwargs:
        return work

    def run(connection: apsw.Connection) -> T:
        return work(connection, *args, **kwargs)

    return run


def _log_failure(ledger: str, done: "asyncio.Future[object]") -> None:
    if not done.cancelled() and (error := done.exception()):
        _log.warning("A write to the %s ledger failed: %s", ledger, error)


class _Outside:
    """Work that must not run inside a transaction."""

    def __init__(self, work: _Bound[Any]) -> None:
        self._work = work

    def __call__(self, connection: apsw.Connection) -> Any:
        return self._work(connection)


class _Outcome:
    """What came of a job, told to the event loop that waits for it.

    In the place of a future of the executor: chaining that to one of the loop costs more than a short read.
    """

    __slots__ = ("_loop", "future", "loop_thread")

    def __init__(self) -> None:
        self.loop_thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    @property
    def is_wanted(self) -> bool:
        """Whether somebody still waits: what has not begun is then left out."""
        return not self.future.cancelled()

    def tell(self, result: Any, error: BaseException | None) -> None:
        """Report the outcome from the thread that did the job."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._set, result, error)

    def _set(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        elif isinstance(error, StopIteration):
            # A coroutine cannot be ended by it: asyncio would drop it, and the caller would wait for ever.
            failure = RuntimeError("The work raised StopIteration")
            failure.__cause__ = error
            self.future.set_exception(failure)
        else:
            self.future.set_exception(error)


def _runs(jobs: list[_Job]) -> list[list[_Job]]:
    """Consecutive jobs that may share a transaction."""
    runs: list[list[_Job]] = []
    for job in jobs:
        alone = isinstance(job[0], _Outside)
        if alone or not runs or isinstance(runs[-1][0][0], _Outside):
            runs.append([job])
        else:
            runs[-1].append(job)
    return runs


def _snapshot(connection: apsw.Connection, work: _Bound[T]) -> T:
    connection.execute("BEGIN")
    try:
        return work(connection)
    except apsw.SchemaChangeError:
        return work(connection)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
