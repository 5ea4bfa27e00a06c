"""The bodies that run in this process: what each is handed, how its steps are recorded, how it is stopped.

An execution ends only when its code has stopped: the key stays taken until then, so the next item
of a session never starts beside code of the one before. To stop a body is to cancel its task and to
wait for it; a time limit does the same.
"""

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from nexus.engine import dbos_runtime, store
from nexus.engine.serializer import End, Ended

if TYPE_CHECKING:
    from nexus.engine.database import Database
    from nexus.engine.owner import Ownership


StopReason = Literal["cancelled", "timeout", "fenced", "stopping", "put_back", "start_over"]
"""`fenced`: another process has it by now. `put_back`: it cannot go on now, and waits in its queue again.
`start_over`: as `put_back`, without its recorded steps, which do not fit this code."""
# A body that seems to have swallowed the cancellation is asked again; it may just be cleaning up.
_ASK_AGAIN_S = 30.0
_TRACE_LIMIT = 8_000
T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Entry:
    """One body."""

    id: str
    lane: str
    key: str
    reason: StopReason | None = None
    task: asyncio.Task[Any] | None = None
    started_ms: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self, reason: StopReason) -> None:
        """Ask the body to stop: once, so that its cleaning up is left in peace. The first reason stands."""
        if self.reason is None:
            self.reason = reason
            if self.task is not None:
                self.task.cancel()


@dataclass(frozen=True, kw_only=True)
class WorkContext:
    """One execution, as its own code sees it."""

    id: str
    work: str
    lane: str
    key: str
    ownership: "Ownership"
    executor_id: str
    """The name under which this process claimed it."""
    entry: Entry
    database: "Database"

    @property
    def is_ours(self) -> bool:
        """Whether this process may still act for it: not when the engine stopped before its code did."""
        return self.entry.reason != "fenced" and self.ownership.executor_id == self.executor_id

    def require(self) -> None:
        """Go no further where the work was given back to its queue."""
        if not self.is_ours:
            raise self._fence()

    async def step(self, name: str, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a part of the work once. After a crash its recorded result is used instead.

        An engine that has stopped starts no further step, and one that was running then cannot record its
        result.
        """

        async def run_guarded() -> T:
            # Looking for a record takes time, in which the engine may stop.
            self.require()
            return await function(*arguments)

        self.require()
        try:
            result = await dbos_runtime.step(name, run_guarded)
        except dbos_runtime.NotOwnerError:
            raise self._fence() from None
        except dbos_runtime.StaleStepsError as error:
            raise self.start_over(str(error)) from None
        self.require()
        return result

    async def note_waiting(self) -> None:
        """Record that it waits for a person: whatever ends its process meanwhile isn't its doing."""
        with suppress(SQLAlchemyError):
            await asyncio.to_thread(store.forget_crashes, self.database, self.id)

    def put_back(self) -> asyncio.CancelledError:
        """Raise it where the work cannot go on now: it waits in its queue again, with its recorded steps."""
        self.entry.stop("put_back")
        return asyncio.CancelledError()

    def start_over(self, reason: str) -> asyncio.CancelledError:
        """Raise it where recorded steps do not fit the code, as after an upgrade: it begins without them."""
        _log.warning("%s starts over: %s", self.id, reason)
        self.entry.stop("start_over")
        return asyncio.CancelledError()

    def _fence(self) -> asyncio.CancelledError:
        self.entry.stop("fenced")
        return asyncio.CancelledError()


class Running:
    """Every body of this process, by execution and by key."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._by_key: dict[tuple[str, str], Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, execution_id: str) -> Entry | None:
        return self._entries.get(execution_id)

    def entries(self) -> list[Entry]:
        return list(self._by_key.values())

    def stop_all(self, reason: StopReason) -> None:
        for entry in self.entries():
            entry.stop(reason)

    async def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait until no body runs; False when the time was up first."""
        deadline = time.monotonic() + timeout_s
        while self._by_key and time.monotonic() < deadline:  # noqa: ASYNC110 - once, when the engine stops
            await asyncio.sleep(0.02)
        return not self._by_key

    async def run(
        self, entry: Entry, body: Callable[[], Coroutine[Any, Any, Any]], timeout_ms: int | None
    ) -> dict[str, Any]:
        """Run a body to its end: its result, or `Ended`; CancelledError when it is not ours to end."""
        place = (entry.lane, entry.key)
        while (before := self._by_key.get(place)) is not None:
            # Only where its work was given back: that code may take a moment to stop.
            await before.ended.wait()
        self._entries[entry.id] = self._by_key[place] = entry
        try:
            entry.started_ms = _now_ms()
            if entry.reason is None:
                entry.task = asyncio.create_task(body())
                try:
                    await _finish(entry, entry.task, timeout_ms)
                except asyncio.CancelledError:
                    # The program is going down: the work is not lost, it is run again elsewhere.
                    entry.stop("stopping")
                    await _wait_until_stopped(entry.task)
                    raise
            return _outcome(entry)
        finally:
            entry.ended.set()
            del self._by_key[place]
            if self._entries.get(entry.id) is entry:
                del self._entries[entry.id]


async def _finish(entry: Entry, task: asyncio.Task[Any], timeout_ms: int | None) -> None:
    """Wait for the body, stop it when its time is up, and return once its code has stopped."""
    done, _ = await asyncio.wait({task}, timeout=None if timeout_ms is None else timeout_ms / 1000)
    if not done:
        entry.stop("timeout")
        await _wait_until_stopped(task)


async def _wait_until_stopped(task: asyncio.Task[Any]) -> None:
    while not task.done():
        await asyncio.wait({task}, timeout=_ASK_AGAIN_S)
        if not task.done():
            task.cancel()


def _outcome(entry: Entry) -> dict[str, Any]:
    task = entry.task
    ended_ms = _now_ms()
    error = None if task is None or task.cancelled() else task.exception()
    if task is not None and not task.cancelled() and error is None:
        return {"value": task.result(), "started_ms": entry.started_ms, "ended_ms": ended_ms}
    if entry.reason in {"fenced", "stopping", "put_back", "start_over"}:
        raise asyncio.CancelledError
    if error is not None and entry.reason is None:
        raise Ended(_failure(entry, error, ended_ms)) from error
    kind = entry.reason if entry.reason in {"cancelled", "timeout"} else "cancelled"
    message = "stopped at its time limit" if kind == "timeout" else "cancelled"
    raise Ended(
        End(kind=kind, message=message, started_ms=entry.started_ms, ended_ms=ended_ms)  # pyright: ignore[reportArgumentType]
    )


def _failure(entry: Entry, error: BaseException, ended_ms: int) -> End:
    return End(
        kind="failed",
        type=f"{type(error).__module__}.{type(error).__qualname__}",
        message=str(error),
        trace="".join(traceback.format_exception(error))[-_TRACE_LIMIT:],
        started_ms=entry.started_ms,
        ended_ms=ended_ms,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


Work = Callable[[WorkContext, Any], Awaitable[Any]]
"""A piece of work: a coroutine function of its context and payload. It returns what JSON can hold, or
anything that can be pickled."""
