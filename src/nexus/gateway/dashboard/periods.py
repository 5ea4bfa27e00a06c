"""The days that a list is limited to: the filter that every list has."""

from datetime import date, timedelta
from typing import Final

from starlette.requests import Request

from nexus import clock
from nexus.memory.views.page import ALWAYS, Period

CUSTOM: Final = "custom"
CHOICES: Final = (
    ("", "Any time"),
    ("1", "Today"),
    ("7", "Last 7 days"),
    ("30", "Last 30 days"),
    ("90", "Last 90 days"),
    (CUSTOM, "Custom dates…"),
)
_DAYS: Final = {"1": 1, "7": 7, "30": 30, "90": 90}


def read_period(request: Request, now: clock.Clock = clock.now) -> Period:
    """Read what a person chose. Days are UTC days; one that is no day is left out."""
    query = request.query_params
    chosen = query.get("when", "")
    if days := _DAYS.get(chosen):
        return Period(since=clock.day(now() - timedelta(days=days - 1)))
    if chosen != CUSTOM:
        return ALWAYS
    since, until = _parse_day(query.get("since")), _parse_day(query.get("until"))
    return Period(
        since=since.isoformat() if since else ALWAYS.since,
        until=(until + timedelta(days=1)).isoformat() if until and until < date.max else ALWAYS.until,
    )


def _parse_day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text or "")
    except ValueError:
        return None
