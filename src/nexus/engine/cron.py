"""When scheduled work is due: cron expressions in a time zone, without a database."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterBadDateError, croniter

from nexus.errors import ConfigError

Missed = Literal["skip", "once", "all"]
"""`skip`: what was missed is gone. `once`: one run makes up for all. `all`: each is made up for."""

NEVER_MS: Final = 2**62
"""Later than any moment: the schedule of a single moment that has passed."""

# A run this late is still on time: a busy or waking machine is not a missed run.
ON_TIME_MS: Final = 60_000


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """When which work is started. Its runs never overlap."""

    name: str
    cron: str
    work: str
    payload: dict[str, Any]
    lane: str = "background"
    zone: str = "UTC"
    missed: Missed = "once"

    def __post_init__(self) -> None:
        if not croniter.is_valid(self.cron):
            raise ConfigError(
                f"`{self.cron}` is not a cron expression", hint="Such as `0 3 * * *`: daily at three."
            )
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError):
            raise ConfigError(f"`{self.zone}` is not a time zone", hint="Such as `Europe/Berlin`.") from None


def once(at: datetime) -> str:
    """The expression of a single moment, to the second, for a schedule in UTC."""
    moment = at.astimezone(UTC)
    return f"{moment.minute} {moment.hour} {moment.day} {moment.month} * {moment.second} {moment.year}"


def upcoming(cron: str, zone: str, after: datetime) -> datetime | None:
    """The next moment of a schedule; None if there is none any more."""
    reached = next_ms(cron, zone, int(after.timestamp() * 1000))
    return None if reached == NEVER_MS else datetime.fromtimestamp(reached / 1000, ZoneInfo(zone))


def due(cron: str, zone: str, first_ms: int, now_ms: int, most: int) -> list[int]:
    """The newest moments from the first that was not started up to now, the newest at the end."""
    moments = croniter(cron, datetime.fromtimestamp(now_ms / 1000 + 1, ZoneInfo(zone)))
    found: list[int] = []
    while len(found) < most:
        try:
            reached = moments.get_prev(datetime)
        except CroniterBadDateError:
            break
        moment_ms = int(reached.timestamp() * 1000)
        if moment_ms < first_ms:
            break
        if not _is_repeated(cron, reached):
            found.insert(0, moment_ms)
    return found or [first_ms]


def choose_moments(missed: Missed, moments: list[int], now_ms: int) -> list[int]:
    """The moments that are started late or on time, by the policy for missed runs."""
    if missed == "all":
        return moments
    newest = moments[-1]
    return [newest] if missed == "once" or now_ms - newest <= ON_TIME_MS else []


def next_ms(cron: str, zone: str, after_ms: int) -> int:
    """The next moment after another one; `NEVER_MS` if there is none."""
    moments = croniter(cron, datetime.fromtimestamp(after_ms / 1000, ZoneInfo(zone)))
    try:
        while _is_repeated(cron, reached := moments.get_next(datetime)):
            pass
    except CroniterBadDateError:
        return NEVER_MS
    return int(reached.timestamp() * 1000)


def first_ms(schedule: Schedule, after_ms: int) -> int:
    """The moment to wait for. A single one that has passed is due: nobody has started it yet."""
    reached = next_ms(schedule.cron, schedule.zone, after_ms)
    return due(schedule.cron, schedule.zone, 0, after_ms, 1)[0] if reached == NEVER_MS else reached


def _is_repeated(cron: str, reached: datetime) -> bool:
    """Whether a clock that was set back from summer time shows a time of day again, which runs once.

    What runs every hour or every few minutes goes by the time that passes, and counts the hour twice.
    """
    again = reached.fold == 1 and reached.utcoffset() != reached.replace(fold=0).utcoffset()
    return again and "*" not in cron.split()[1]
