"""What a piece of work is handed: who it is, and how its steps are recorded."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from nexus.engine import interior
from nexus.engine.running import Entry

if TYPE_CHECKING:
    from nexus.engine.owner import Ownership

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Context:
    """One execution, as its own code sees it."""

    id: str
    work: str
    lane: str
    key: str
    ownership: "Ownership"
    executor_id: str
    """The name under which this process claimed it."""
    entry: Entry

    @property
    def is_ours(self) -> bool:
        """Whether this process may still act for it: not when the engine stopped before its code did."""
        return self.entry.reason != "fenced" and self.ownership.executor_id == self.executor_id

    def require(self) -> None:
        """Go no further where the work was given back to its queue."""
        if not self.is_ours:
            raise self._fenced()

    async def step(self, name: str, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a part of the work once. After a crash its recorded result is used instead.

        An engine that has stopped starts no further step, and one that was running then cannot record its
        result.
        """

        async def guarded() -> T:
            # Looking for a record takes time, in which the engine may stop.
            self.require()
            return await function(*arguments)

        self.require()
        try:
            result = await interior.step(name, guarded)
        except interior.NotOwnerError:
            raise self._fenced() from None
        except interior.StaleStepsError as error:
            raise self.start_over(str(error)) from None
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


Work = Callable[[Context, Any], Awaitable[Any]]
"""A piece of work: a coroutine function of its context and payload. It returns what JSON can hold, or
anything that can be pickled."""
