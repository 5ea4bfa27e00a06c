"""Quiet hours: when a channel sends only answers. Scheduled messages and workers' results wait for their end.

Nothing is stored with a message: the clock decides each time whether it is quiet. So nothing waits longer
because a clock was set back, and what waits leaves as soon as the hours are changed.
"""

from dataclasses import dataclass
from datetime import datetime, time
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from nexus.automations import when
from nexus.errors import ConfigError


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From when until when, each day. They may span midnight."""

    begin: time
    end: time
    zone: ZoneInfo

    def hold(self, now: datetime) -> bool:
        """Whether it is quiet now."""
        at = now.astimezone(self.zone).time()
        if self.begin <= self.end:
            return self.begin <= at < self.end
        return at >= self.begin or at < self.end


def parse_hours(hours: str, zone: str = "") -> QuietHours | None:
    """Quiet hours such as `22:00-07:00`, in a time zone; None for an empty text."""
    if not hours.strip():
        return None
    begin, _, end = hours.partition("-")
    try:
        found = QuietHours(_parse_time(begin), _parse_time(end), ZoneInfo(zone or when.local_zone()))
    except (ValueError, ZoneInfoNotFoundError, OSError):
        place = f" in {zone}" if zone else ""
        raise ConfigError(
            f"`{hours}`{place} are no quiet hours", hint="Such as `22:00-07:00`, in `Europe/Berlin`."
        ) from None
    if found.begin == found.end:
        raise ConfigError(
            "Quiet hours must end at another time than they begin", hint="To stop sending, pause the channel."
        )
    return found


def _parse_time(text: str) -> time:
    hour, _, minute = text.strip().partition(":")
    return time(int(hour), int(minute))
