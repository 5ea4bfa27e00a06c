"""Events of calendars in words, with the times of the home."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from nexus.history.mime import Series

PREFIX: Final = "Calendar: "
CONTACT: Final = "Contact: "
_CANCELLED: Final = "Cancelled: "
_LONGEST: Final = 200
_LONGEST_NOTES: Final = 400
_MOST_NAMED: Final = 10
_UNITS: Final = {"DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year"}
_DAYS: Final = {
    "MO": "Monday", "TU": "Tuesday", "WE": "Wednesday", "TH": "Thursday", "FR": "Friday", "SA": "Saturday",
    "SU": "Sunday",
}  # fmt: skip
_PLACES: Final = {"1": "first", "2": "second", "3": "third", "4": "fourth", "5": "fifth", "-1": "last"}

Moment = date | datetime


def parse(text: str, zone: ZoneInfo) -> Moment:
    """Parse a day, or a time in the home's zone."""
    if "T" not in text:
        return date.fromisoformat(text)
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(zone)


def as_utc(moment: Moment, zone: ZoneInfo) -> datetime:
    """Return a time in UTC; a day begins at midnight of the home's zone."""
    whole = moment if isinstance(moment, datetime) else datetime.combine(moment, time(), zone)
    return whole.astimezone(UTC)


def format_span(begin: Moment, end: Moment) -> str:
    """Format when something takes place."""
    if not isinstance(begin, datetime) or not isinstance(end, datetime):
        last = end - timedelta(days=1)
        if last <= begin:
            return f"{_day(begin)}, all day"
        return f"from {_day(begin)} to {_day(last)}"
    if begin == end:
        return f"{_day(begin)} at {begin:%H:%M}"
    if begin.date() == end.date():
        return f"{_day(begin)} from {begin:%H:%M} to {end:%H:%M}"
    return f"from {_day(begin)} {begin:%H:%M} to {_day(end)} {end:%H:%M}"


def describe(series: Series, zone: ZoneInfo, today: date, *, notes: bool = True) -> str:
    """Describe an event in a sentence: what, when, where and with whom, and which instances differ."""
    said = series.appointment
    begin, end = parse(said.start, zone), parse(series.end, zone)
    title = _line(said.title) or "Event without a title"
    if said.repetition:
        words = [f"{title} {describe_repetition(said.repetition, zone)}"]
        if isinstance(begin, datetime) and isinstance(end, datetime) and end > begin:
            words[0] += f" from {begin:%H:%M} to {end:%H:%M}"
        words.append(f"since {begin:%Y-%m-%d}")
    else:
        span = format_span(begin, end)
        words = [f"{title} {span}" if span.startswith("from ") else f"{title} on {span}"]
    if said.place:
        words.append(f"at {_line(said.place)}")
    if names := _list_names(said.attendees):
        words.append(f"with {names}")
    text = ", ".join(words) + "".join(_list_exceptions(series, zone, today))
    if notes and said.notes.strip():
        text += f". Notes: {_line(said.notes, _LONGEST_NOTES)}"
    return cancel(f"{PREFIX}{text}") if series.is_cancelled else f"{PREFIX}{text}"


def cancel(text: str) -> str:
    """Say of a described event that it doesn't take place, and of a contact that it was deleted."""
    if text.startswith(CONTACT):
        return f"Former contact: {text.removeprefix(CONTACT)}"
    return _CANCELLED + text.removeprefix(PREFIX).removeprefix(_CANCELLED)


def describe_repetition(rule: str, zone: ZoneInfo) -> str:
    """Describe an RRULE in words; of what has none, only how often."""
    parts = dict(part.split("=", 1) for part in rule.split(";") if "=" in part)
    unit, every = _UNITS.get(parts.get("FREQ", ""), ""), parts.get("INTERVAL", "1")
    words = (f"every {unit}" if every == "1" else f"every {every} {unit}s") if unit else "repeatedly"
    days = [_describe_day(day) for day in parts.get("BYDAY", "").split(",") if day]
    if days and len(days) <= len(_DAYS):
        words += f" on {' and '.join(days)}"
    elif "BYMONTHDAY" in parts and unit == "month":
        words += f" on day {parts['BYMONTHDAY'].replace(',', ' and ')}"
    if count := parts.get("COUNT"):
        words += f", {count} times"
    if until := parts.get("UNTIL"):
        moment = f"{until[:4]}-{until[4:6]}-{until[6:8]}"
        if "T" in until:
            clock_ = f"{moment}T{until[9:11]}:{until[11:13]}:00{'+00:00' if until.endswith('Z') else ''}"
            moment = f"{parse(clock_, zone):%Y-%m-%d}"
        words += f" until {moment}"
    return words


def _describe_day(day: str) -> str:
    name, place = _DAYS.get(day[-2:], day), day[:-2].removeprefix("+")
    return f"the {_PLACES.get(place, place)} {name}" if place else name


def _list_exceptions(series: Series, zone: ZoneInfo, today: date) -> Iterable[str]:
    for before, begin, end in series.moved[-_MOST_NAMED:]:
        was = parse(before, zone)
        now = parse(begin, zone)
        if max(_date(was), _date(now)) >= today:
            span = format_span(now, parse(end, zone))
            yield f"; {_day(was)} is moved to {span.removeprefix('from ')}"
    off = [_day(moment) for each in series.called_off if _date(moment := parse(each, zone)) >= today]
    if off:
        yield f"; not on {', '.join(off[:_MOST_NAMED])}"


def _list_names(attendees: Iterable[tuple[str, str | None]]) -> str:
    names = [_line(name or address.partition(":")[2] or address) for address, name in attendees]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _date(moment: Moment) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _day(moment: Moment) -> str:
    return f"{moment:%A} {moment:%Y-%m-%d}"


def _line(text: str, longest: int = _LONGEST) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"
