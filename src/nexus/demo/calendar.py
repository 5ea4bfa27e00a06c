"""The time of the month that is told: it stands still until it is moved."""

from datetime import datetime, timedelta


class Calendar:
    """A clock that goes forward when it is told to, and never back."""

    def __init__(self, start: datetime) -> None:
        self._moment = start

    def now(self) -> datetime:
        """The moment at which the story stands."""
        return self._moment

    def now_us(self) -> int:
        """The same in microseconds since 1970, as ids are made from it."""
        return round(self._moment.timestamp() * 1_000_000)

    def reach(self, moment: datetime) -> None:
        """Go to a moment, unless it has passed already."""
        self._moment = max(self._moment, moment)

    def spend(self, milliseconds: float) -> None:
        """Let some time go by."""
        self._moment += timedelta(milliseconds=milliseconds)
