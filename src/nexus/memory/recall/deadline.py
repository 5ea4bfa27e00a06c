"""Time that runs out: SQL that is still running then is interrupted, in the middle of a statement."""

import time
from typing import ParamSpec, TypeVar

import apsw

from nexus.ledgers.database import Database, Work

P = ParamSpec("P")
T = TypeVar("T")

# How many steps of SQLite's machine lie between two looks at the clock: some tens of microseconds.
_STEPS = 1_000


class LateError(Exception):
    """The work was stopped because its time had run out."""


class Deadline:
    """A moment that nothing may pass."""

    def __init__(self, ms: float) -> None:
        self._at = time.perf_counter() + ms / 1000

    @property
    def left_s(self) -> float:
        return max(0.0, self._at - time.perf_counter())

    @property
    def left_ms(self) -> float:
        return self.left_s * 1000

    @property
    def passed(self) -> bool:
        return time.perf_counter() >= self._at

    def part(self, share: float) -> "Deadline":
        """An earlier one, after this share of what is left."""
        return Deadline(self.left_ms * share)

    async def read(self, database: Database, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Read from a ledger, stopped with LateError when the time has run out."""

        def run(connection: apsw.Connection) -> T:
            if self.passed:
                raise LateError
            connection.set_progress_handler(lambda: self.passed, _STEPS)
            try:
                return work(connection, *args, **kwargs)
            except apsw.Error as error:
                # Deep inside a full-text query the interruption comes out under another name.
                if self.passed:
                    raise LateError from error
                raise
            finally:
                connection.set_progress_handler(None)

        return await database.read(run)
