"""Time as the ledgers store it: ISO-8601 UTC text with milliseconds, which sorts as it reads."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]

_ahead = timedelta()


def now() -> datetime:
    """The system's time, in UTC. Parts that depend on time take a `Clock` and default to this."""
    return datetime.now(UTC) + _ahead


@contextmanager
def starting_at(moment: datetime) -> Generator[Callable[[datetime], None]]:
    """Run the clock from another moment on, for a replay. It counts for the whole process.

    Yields a callable that moves the clock forward to a moment, unless it has passed already. Ledgers that
    are opened meanwhile date what is written by this clock.
    """
    global _ahead  # noqa: PLW0603 - ledgers work on threads, which no context variable reaches

    def reach(later: datetime) -> None:
        global _ahead  # noqa: PLW0603 - as above
        _ahead += max(timedelta(), later - now())

    before, _ahead = _ahead, moment - datetime.now(UTC)
    try:
        yield reach
    finally:
        _ahead = before


def is_shifted() -> bool:
    """Whether `now` differs from the system's time."""
    return _ahead != timedelta()


def timestamp(moment: datetime) -> str:
    """`2026-02-13T10:00:00.000Z`. A moment without a zone is refused: its instant is unknown."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone, so its instant is unknown")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def day(moment: datetime) -> str:
    """The day of a moment, in UTC: `2026-02-13`. It sorts before every timestamp of that day."""
    return timestamp(moment)[:10]


def minute(at: str) -> str:
    """A timestamp to the minute, as people read it: `2026-02-13 10:00`."""
    return at[:16].replace("T", " ")


def second(at: str) -> str:
    """A timestamp to the second, as people read it: `2026-02-13 10:00:00`."""
    return at[:19].replace("T", " ")


def first_of_month(moment: datetime) -> str:
    """The first day of a moment's month, in UTC: `2026-02-01`."""
    return f"{timestamp(moment)[:7]}-01"


def parse(text: str) -> datetime:
    """Read any ISO-8601 text; one without a zone is taken as UTC."""
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def took(milliseconds: float) -> str:
    """How long something took, as people say it: `240 ms`, `3.1 s`, `2.5 min`."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 120_000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds / 60_000:.1f} min"
