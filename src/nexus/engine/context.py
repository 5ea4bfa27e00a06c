"""What a piece of work is handed: who it is, and how its steps are recorded."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from nexus.engine import interior
from nexus.engine.running import Entry

if TYPE_CHECKING:
    from nexus.engine.leases import Leases

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Context:
    """One execution, as its own code sees it."""

    id: str
    work: str
    lane: str
    key: str
    attempt: int
    """1 for a first attempt; a job's retry counts up."""
    leases: "Leases"
    executor_id: str
    """The name under which this process claimed it."""
    entry: Entry

    @property
    def is_ours(self) -> bool:
        """Whether this process may still act for it; once lost, it is not given back by a new lease."""
        return self.entry.reason != "fenced" and self.leases.held_by(self.executor_id)

    def require(self) -> None:
        """Go no further where another process has the work by now, as it may after this one was frozen."""
        if not self.is_ours:
            raise self._fenced()

    async def step(self, name: str, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a part of the work once. After a crash its recorded result is used instead.

        An executor that has lost its lease starts no further step, and one that was already running
        when the lease was lost cannot record its result.
        """

        async def guarded() -> T:
            # Looking for a record takes time, in which the lease may be lost: a frozen process wakes up here.
            self.require()
            return await function(*arguments)

        self.require()
        try:
            result = await interior.step(name, guarded)
        except interior.NotOwnerError:
            raise self._fenced() from None
        except interior.StaleStepsError as error:
            raise self.start_over(str(error)) from None
        # It may have been frozen between the record and here.
        self.require()
        return result

    def put_back(self) -> asyncio.CancelledError:
        """Raise it where the work cannot go on now: it waits in its queue again, with its recorded steps."""
        self.entry.stop("put_back")
        return asyncio.CancelledError()

    def start_over(self, reason: str) -> asyncio.CancelledError:
        """Raise it where recorded steps do not fit the code, as after an upgrade: it begins without them."""
        _log.warning("%s starts over: %s", self.id, reason)
        self.entry.stop("start_over")
        return asyncio.CancelledError()

    def _fenced(self) -> asyncio.CancelledError:
        self.entry.stop("fenced")
        return asyncio.CancelledError()

    async def thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run blocking code. It cannot be stopped, so a cancellation waits here until it has ended."""
        task = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            while not task.done():
                try:
                    await asyncio.shield(task)
                except asyncio.CancelledError:
                    continue
                except Exception:  # noqa: S110 - the caller is being cancelled and hears that instead
                    pass
            raise


Work = Callable[[Context, Any], Awaitable[Any]]
"""A piece of work: a coroutine function of its context and payload. It returns what JSON can hold, or
anything that can be pickled."""
