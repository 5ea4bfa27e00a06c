"""Times in words: `in two hours`, `tomorrow at 9`, `every Monday at 9`.

People and agents write them in English. Durations and dates are read by dateparser, which is slow to import:
`read` and `find` belong on a thread. Times of day and repetitions are read here, because dateparser drops
the hour of `tomorrow at 9` without a word and knows no repetitions.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from nexus import clock
from nexus.automations import repetition, timing
from nexus.automations.repetition import (
    AMOUNT,
    DAY,
    DAYS,
    DEFAULT_TIME,
    MONTH,
    MONTHS,
    NUMBERS,
    ORDINAL,
    TimeError,
    cron_of,
    plain,
    time_of_day,
)

EXAMPLES: Final = "`in two hours`, `tomorrow at 9`, `on Friday at 17:30`, `every Monday at 9`"
_WORDS: Final = 12
"""The most words of a time: longer ones are not looked for."""

_ZONE: Final = re.compile(r"\b(UTC|GMT|[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)?)\b")
_UNIT: Final = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?)"
_SHORT: Final = re.compile(r"\b(h|hours?|hrs?|m|mins?|minutes?|s|secs?|seconds?)\b|\d+[hms]")
_LASTING: Final = re.compile(
    rf"(?:in )(?:{AMOUNT} {_UNIT}(?:(?:,| and)* {AMOUNT} {_UNIT})*|(?:\d+ ?[hms])(?: ?\d+ ?[hms])*)"
    rf"|{AMOUNT} {_UNIT} from now"
)
_DATE: Final = re.compile(
    # Without a word before it a day has its whole name: `sun cream` is not a Sunday.
    rf"(?:on |this |next |on next ){DAY}|{'|'.join(DAYS)}|next (?:week|month|year)"
    rf"|(?:on )?(?:today|tomorrow|yesterday|(?:the )?day after tomorrow"
    rf"|(?:the )?{ORDINAL}(?: of)? {MONTH}(?: \d{{4}})?|{MONTH} (?:the )?{ORDINAL}(?: \d{{4}})?"
    rf"|\d{{4}}-\d{{2}}-\d{{2}})"
)
_NUMERIC: Final = re.compile(r"(?:on )?(\d{1,2})\.(\d{1,2})(?:\.(\d{4})?)?")
_NO_TIME: Final = re.compile(r"\bat (\d{1,2}):(\d{2})\b")
# A repetition that cron can't say.
_UNREAD: Final = re.compile(
    rf"\b(?:every|each) (?:other|second|third|fourth|{AMOUNT}) |\b(?:biweekly|fortnightly)\b"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class When:
    """A moment, or a repetition, in a time zone."""

    zone: str
    at: datetime | None = None
    cron: str | None = None

    @property
    def triggers(self) -> dict[str, Any]:
        """As an automation is registered with it."""
        if self.at is not None:
            return {"at": clock.timestamp(self.at), "zone": self.zone}
        return {"cron": self.cron, "zone": self.zone}


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """Words that say a time, and what is said beside them."""

    when: When
    rest: str


def read(words: str, now: datetime, zone: str) -> When:
    """The time that words say, seen from now."""
    found = _read(plain(words), now, zone)
    if found is None:
        raise TimeError(f"No time found in {words.strip()!r:.80}", hint=_hint())
    return found


def find(text: str, now: datetime, zone: str) -> Found:
    """The words of a text that say a time, together or apart, and the rest of it."""
    words = text.split()
    first = _window(words, now, zone)
    if first is None:
        _check_rest(text)
        raise TimeError(f"No time found in {text.strip()!r:.80}", hint=_hint())
    said, when, rest = first
    # `tomorrow call Anna at 9` says it in two places; of `every morning tell me what is due today`, one.
    if second := _window(rest, now, zone, quiet=True):
        for both in (f"{second[0]} {said}", f"{said} {second[0]}"):
            if together := _quietly(both, now, zone):
                when, rest = together, second[2]
                break
    left = " ".join(rest)
    _check_rest(left)
    return Found(when=when, rest=left)


def _check_rest(left: str) -> None:
    """Refuse words that look like a time and were not read as one: they must not get lost."""
    if (wrong := _NO_TIME.search(left)) and (int(wrong[1]) > 23 or int(wrong[2]) > 59):
        raise TimeError(f"{wrong[1]}:{wrong[2]} is not a time of day", hint="Midnight is 00:00.")
    if _UNREAD.search(left.lower()):
        hint = "Try `every 15 minutes`, `every 6 hours`, `every Monday at 9` or `every month on the 1st`."
        raise TimeError(f"Nexus can't repeat that: {left!r:.80}", hint=hint)


def _window(
    words: list[str], now: datetime, zone: str, *, quiet: bool = False
) -> tuple[str, When, list[str]] | None:
    """The longest words that say a time, that time, and the words around them."""
    read_ = _quietly if quiet else _read
    for length in range(min(len(words), _WORDS), 0, -1):
        for start in range(len(words) - length + 1):
            said = plain(" ".join(words[start : start + length]))
            if when := read_(said, now, zone):
                return said, when, [*words[:start], *words[start + length :]]
    return None


def _quietly(words: str, now: datetime, zone: str) -> When | None:
    try:
        return _read(words, now, zone)
    except TimeError:
        return None


def check_zone(zone: str) -> str:
    """The name of a time zone; an error where there is no such zone."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise TimeError(f"`{zone}` is not a time zone", hint="Such as `Europe/Berlin`.") from None
    return zone


def local_zone() -> str:
    """The time zone that this machine is set to; UTC if that has no name."""
    import tzlocal  # slow to import, and few need it

    try:
        return tzlocal.get_localzone_name() or "UTC"
    except (ZoneInfoNotFoundError, ValueError):
        return "UTC"


def described(triggers: dict[str, Any]) -> str:
    """A time in words: `Friday 2026-11-20 17:30 Europe/Berlin`, `every Monday at 09:00 Europe/Berlin`."""
    zone = str(triggers.get("zone", "UTC"))
    if "at" in triggers:
        return moment(clock.parse(str(triggers["at"])), zone)
    return f"{repetition.described(str(triggers.get('cron', '')))} {zone}"


def moment(at: datetime, zone: str) -> str:
    """A moment as people write it, with its time zone."""
    local = at.astimezone(ZoneInfo(zone))
    seconds = ":%S" if local.second else ""
    return f"{local:%A %Y-%m-%d %H:%M}{local.strftime(seconds)} {zone}"


def _hint() -> str:
    return f"Write it in English, such as {EXAMPLES}."


def _read(words: str, now: datetime, zone: str) -> When | None:
    if exact := _exact(words, zone):
        return once_at(exact, now, zone)
    if named := _ZONE.search(words):
        zone = check_zone({"GMT": "UTC"}.get(named[1], named[1]))
        words = plain(words.replace(named[0], ""))
    words = words.lower()
    local = now.astimezone(ZoneInfo(zone))
    cron = cron_of(words, local)
    if cron is None:
        return _once(words, local, zone)
    found = When(zone=zone, cron=cron)
    if timing.upcoming(found.triggers, now) is None:
        raise TimeError(f"Invalid date: {words!r:.80}")
    return found


def _exact(words: str, zone: str) -> datetime | None:
    """A moment as programs and models write it: `2026-11-20T17:30`, with or without an offset."""
    if not re.match(r"\d{4}-\d{2}-\d{2}[T ]\d", words):
        return None
    try:
        found = datetime.fromisoformat(re.sub(r" ?(UTC|GMT)$", "+00:00", words))
    except ValueError:
        return None
    return found.replace(tzinfo=ZoneInfo(zone)) if found.tzinfo is None else found


def once_at(at: datetime, now: datetime, zone: str) -> When:
    """A moment that is still to come; an error if it has passed."""
    at = at.astimezone(UTC).replace(microsecond=0)
    if at <= now:
        raise TimeError(f"{moment(at, zone)} has passed", hint=f"It is {moment(now, zone)}.")
    return When(zone=zone, at=at)


def _once(words: str, local: datetime, zone: str) -> When | None:
    said, rest = time_of_day(words)
    if not rest:
        if said is None:
            return None
        at = datetime.combine(local.date(), said, local.tzinfo)
        is_past = at.astimezone(UTC) <= local.astimezone(UTC)
        return once_at(_next_day(at) if is_past and "tonight" not in words else at, local, zone)
    if lasting := _LASTING.fullmatch(_counted(rest)):
        return _after(lasting[0], said, local, zone)
    if numeric := _NUMERIC.fullmatch(rest):
        # Written with points the day comes first, also where dates with slashes begin with the month.
        rest = f"{numeric[1]} {MONTHS[int(numeric[2]) % 13 - 1]} {numeric[3] or ''}".strip()
    elif not _DATE.fullmatch(rest):
        return None
    day = _parsed(rest.removeprefix("on ").removeprefix("the "), local)
    if day is None:
        return None
    return once_at(datetime.combine(day.date(), said or DEFAULT_TIME, local.tzinfo), local, zone)


def _after(lasting: str, said: time | None, local: datetime, zone: str) -> When | None:
    """Hours pass, whatever the clock on the wall does; days begin anew at the same time of day."""
    if _SHORT.search(lasting):
        passed = None if said else _parsed(lasting, local.astimezone(UTC))
        return passed and once_at(passed, local, zone)
    day = _parsed(lasting, local)
    if day is None:
        return None
    return once_at(datetime.combine(day.date(), said or local.time(), local.tzinfo), local, zone)


def _parsed(words: str, base: datetime) -> datetime | None:
    import dateparser  # half a second, and few processes need it

    settings: Any = {
        "RELATIVE_BASE": base.replace(tzinfo=None),
        "PREFER_DATES_FROM": "future",
        "DATE_ORDER": "DMY",
    }
    found = dateparser.parse(words, languages=["en"], settings=settings)
    return found and found.replace(tzinfo=base.tzinfo)


def _next_day(at: datetime) -> datetime:
    return datetime.combine(at.date() + timedelta(days=1), at.time(), at.tzinfo)


def _counted(words: str) -> str:
    """Amounts that dateparser doesn't know, as it does."""
    words = re.sub(r"\ban? hour and a half\b|\bone and a half hours\b", "90 minutes", words)
    words = re.sub(r"\bhalf an hour\b", "30 minutes", words)
    words = re.sub(r"\ba couple of\b", "2", words)
    return re.sub(
        rf"\b({'|'.join(NUMBERS)})(?= {_UNIT}\b)",
        lambda found: str(NUMBERS[found[1]]),
        words,
    )


def upcoming(triggers: dict[str, Any], after: datetime) -> str:
    """The next moment in words, or `never`."""
    due = timing.upcoming(triggers, after)
    return "never" if due is None else moment(due, str(triggers.get("zone", "UTC")))
