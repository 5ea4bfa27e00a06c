"""Reading the ledgers for a recall: named statements, timed, interrupted when the time runs out."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from nexus.ledgers.sql import load_statements

SQL: Final = load_statements(Path(__file__).with_name("queries.sql"))

# How many steps of SQLite's machine lie between two looks at the clock: less than a millisecond.
_STEPS = 4_000


@contextmanager
def timed(timings_ms: dict[str, float], name: str) -> Generator[None]:
    """Add the milliseconds of a block to the timings, under a name."""
    started = time.perf_counter()
    try:
        yield
    finally:
        timings_ms[name] = timings_ms.get(name, 0.0) + (time.perf_counter() - started) * 1000


class LateError(Exception):
    """The work was stopped because its time had run out."""


class Deadline:
    """A moment that nothing may pass. It comes early if whoever waited has left."""

    def __init__(self, ms: float, within: "Deadline | None" = None) -> None:
        self._at = time.perf_counter() + ms / 1000
        self._within = within

    @property
    def left_s(self) -> float:
        return 0.0 if self.passed else max(0.0, self._at - time.perf_counter())

    @property
    def left_ms(self) -> float:
        return self.left_s * 1000

    @property
    def passed(self) -> bool:
        return time.perf_counter() >= self._at or (self._within is not None and self._within.passed)

    def part(self, share: float) -> "Deadline":
        """Return an earlier one, after this share of what is left."""
        return Deadline(self.left_ms * share, self)

    def stop(self) -> None:
        """Let it be over now, for its parts too: nobody waits any more."""
        self._at = 0.0

    @contextmanager
    def guard(self, connection: apsw.Connection) -> Generator[None]:
        """Stop what a block reads from a connection, with LateError, when the time has run out."""
        if self.passed:
            raise LateError
        connection.set_progress_handler(lambda: self.passed, _STEPS)
        try:
            yield
        except apsw.Error as error:
            # Deep inside a full-text query the interruption comes out under another name.
            if self.passed:
                raise LateError from error
            raise
        finally:
            connection.set_progress_handler(None)
