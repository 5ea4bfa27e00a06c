"""SQLite's own time, taken from a clock: what a ledger dates by itself gets that date.

Most rows are dated by SQLite when they are written. A home that is to hold a past (a demonstration, a
replay) opens its ledgers through a file system that differs in nothing but the time that it tells.
"""

from datetime import UTC, datetime, timedelta

import apsw

from nexus import ids
from nexus.clock import Clock

# Day 0 of the count that SQLite uses is noon of a day long ago; this is midnight of 1 January 1970.
_EPOCH_DAYS = 2440587.5
_DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Dated(apsw.VFS):
    """The system's files under a clock of one's own. Open connections with its `name`."""

    def __init__(self, now: Clock) -> None:
        self.name = ids.new("vfs")
        self._now = now
        super().__init__(self.name, "")

    def xCurrentTimeInt64(self) -> int:  # noqa: N802 - SQLite's name
        """Milliseconds since SQLite's day 0."""
        return round(_EPOCH_DAYS * _DAY_MS) + (self._now() - _EPOCH) // timedelta(milliseconds=1)

    def xCurrentTime(self) -> float:  # noqa: N802 - SQLite's name
        """The same in days."""
        return self.xCurrentTimeInt64() / _DAY_MS
