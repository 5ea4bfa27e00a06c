"""Times as people write them, once or repeated: read, checked and described."""

import os
import re
from calendar import isleap
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dateutil.relativedelta import relativedelta

from nexus import clock
from nexus.automations import hook_points
from nexus.errors import AutomationError, ConfigError, UsageError

_AROUND: Final = " ,.;:-\N{EN DASH}\N{EM DASH}"
DEFAULT_TIME: Final = time(9)
DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
NUMBERS: Final = {
    word: number
    for number, word in enumerate(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        start=1,
    )
} | {"a": 1, "an": 1, "fifteen": 15, "twenty": 20, "thirty": 30, "forty-five": 45}
_PARTS_OF_DAY: Final = {
    "noon": time(12),
    "midday": time(12),
    "midnight": time(0),
    "morning": time(9),
    "afternoon": time(15),
    "evening": time(18),
    "night": time(21),
    "tonight": time(20),
}
_LATE: Final = frozenset({"afternoon", "evening", "night", "tonight"})
_CLOCK: Final = re.compile(
    r"(?:\b(?:at|@)\s*)(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))?\s*(?P<half>[ap]\.?m\b\.?)?(?:\s*o'?clock)?"
    r"|\b(?P<hour2>\d{1,2}):(?P<minute2>\d{2})\s*(?P<half2>[ap]\.?m\b\.?)?"
    r"|\b(?P<hour3>\d{1,2})\s*(?P<half3>[ap]\.?m\b\.?)"
)
_PART: Final = re.compile(rf"\b(?:at |in the |this |every )?({'|'.join(_PARTS_OF_DAY)})\b")
DAY: Final = rf"(?:{'|'.join(f'{day[:3]}(?:{day[3:]})?' for day in DAYS)}|tues|thur|thurs)s?"
_DAY_LIST: Final = re.compile(rf"{DAY}(?:(?:,| and| or|, and)+ {DAY})*")
MONTH: Final = rf"(?:{'|'.join(f'{month[:3]}(?:{month[3:]})?' for month in MONTHS)}|sept)"
ORDINAL: Final = r"\d{1,2}(?:st|nd|rd|th)?"
AMOUNT: Final = rf"(?:\d+|{'|'.join(NUMBERS)}|a couple of)"
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
_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAYS_AWAY: Final = {"today": 0, "tomorrow": 1, "yesterday": -1, "day after tomorrow": 2}
# By how each begins: `mo` before `m`.
_UNITS: Final = (
    ("s", "seconds"), ("mo", "months"), ("m", "minutes"), ("h", "hours"), ("d", "days"), ("w", "weeks"),
    ("y", "years"),
)  # fmt: skip
_NUMERIC: Final = re.compile(r"(?:on )?(\d{1,2})\.(\d{1,2})(?:\.(\d{4})?)?")
_NO_TIME: Final = re.compile(r"\bat (\d{1,2}):(\d{2})\b")
# A repetition that cron can't say.
_UNREAD: Final = re.compile(
    rf"\b(?:every|each) (?:other|second|third|fourth|{AMOUNT}) |\b(?:biweekly|fortnightly)\b"
)


class TimeError(AutomationError, UsageError):
    """Words that say no time, or one that has passed."""


def plain(words: str) -> str:
    """Words without what stands around them."""
    return " ".join(words.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split()).strip(_AROUND)


def read_cron(words: str, local: datetime) -> str | None:
    """The cron expression of a repetition; None if the words say none."""
    if found := re.fullmatch(rf"(?:every (?:(\d+|{'|'.join(NUMBERS)}) )?(minute|hour)s?|(hourly))", words):
        return _build_interval(found[1], "hour" if found[3] else found[2], local)
    said, rest = read_time_of_day(words)
    at = said or DEFAULT_TIME
    clock_ = f"{at.minute} {at.hour}"
    rest = re.sub(r"\beach\b", "every", rest)
    rest = {"daily": "every day", "weekly": "every week", "monthly": "every month"}.get(rest, rest)
    rest = re.sub(r"^(weekly|monthly|yearly)(?= on)", lambda f: f"every {f[1][:-2]}", rest)
    if rest == "every day":
        return f"{clock_} * * *"
    if re.fullmatch(r"(every |on )?(weekdays?|workdays?)", rest):
        return f"{clock_} * * 1-5"
    if re.fullmatch(r"(every |on )?weekends?", rest):
        return f"{clock_} * * 0,6"
    if rest == "every week":
        return f"{clock_} * * {local.isoweekday() % 7}"
    if days := _find_weekdays(rest):
        return f"{clock_} * * {days}"
    return _read_month(rest, clock_, local)


def _build_interval(amount: str | None, unit: str, local: datetime) -> str:
    number = int(NUMBERS.get(amount or "one", amount or 1))
    whole = 60 if unit == "minute" else 24
    if not 0 < number <= whole or whole % number:
        raise TimeError(
            f"Nexus can't repeat something every {number} {unit}s: "
            f"{'an hour' if unit == 'minute' else 'a day'} doesn't divide evenly by {number}",
            hint="Try `every 15 minutes` or `every 6 hours`.",
        )
    step = "*" if number == 1 else f"*/{number}"
    return f"{step} * * * *" if unit == "minute" else f"{local.minute} {step} * * *"


def _find_weekdays(rest: str) -> str:
    """The days of `every Monday and Friday`, `on Mondays` or `every week on Monday`, as cron counts them."""
    repeated = rest.removeprefix("every week on ").removeprefix("every ")
    plural = rest.removeprefix("on ")
    listed = repeated if repeated != rest else plural if re.search(r"days\b", plural) else ""
    if not _DAY_LIST.fullmatch(listed):
        return ""
    found = [_find_number(word[:3], DAYS) for word in re.findall(DAY, listed)]
    return ",".join(str(number % 7) for number in sorted(set(found)))


def _read_month(rest: str, clock_: str, local: datetime) -> str | None:
    if rest == "every month":
        return f"{clock_} {local.day} * *"
    last = r"(?:on )?(?:the )?last day of (?:every|the) month|every month on the last day"
    if re.fullmatch(last, rest):
        return f"{clock_} L * *"
    # `every 5th` is a day of the month; `every 5` begins something else, such as `every 5 seconds`.
    of_month = (
        rf"(?:on )?the ({ORDINAL}) of every month|every month on the ({ORDINAL})"
        r"|every (\d{1,2}(?:st|nd|rd|th))"
    )
    if found := re.fullmatch(of_month, rest):
        day = re.sub(r"\D", "", found[1] or found[2] or found[3])
        return f"{clock_} {day} * *" if 1 <= int(day) <= 31 else None
    date = rf"(?:({MONTH}) ({ORDINAL})|(?:the )?({ORDINAL})(?: of)? ({MONTH}))"
    of_year = rf"(?:every year on|every|yearly on) {date}"
    if found := re.fullmatch(of_year, rest):
        day, month = re.sub(r"\D", "", found[2] or found[3]), (found[1] or found[4])[:3]
        return f"{clock_} {day} {_find_number(month, MONTHS)} *" if 1 <= int(day) <= 31 else None
    return None


def _find_number(start: str, names: Sequence[str]) -> int:
    return next(number for number, name in enumerate(names, start=1) if name.startswith(start))


def describe_repetition(cron: str) -> str:
    """A cron expression as words, where it is one of those that words become; otherwise itself."""
    fields = cron.split()
    if len(fields) != 5 or not fields[0].isdecimal() or not fields[1].isdecimal():
        return _describe_steps(fields) or f"cron {cron}"
    minute, hour, day, month, weekday = fields
    at = f"at {int(hour):02}:{int(minute):02}"
    match day, month, weekday:
        case "*", "*", "*":
            return f"every day {at}"
        case "*", "*", "1-5":
            return f"every weekday {at}"
        case "*", "*", _ if re.fullmatch(r"[0-6](,[0-6])*", weekday):
            names = [DAYS[int(each) - 1].capitalize() for each in weekday.split(",")]
            return f"every {' and '.join(names)} {at}"
        case "L", "*", "*":
            return f"on the last day of every month {at}"
        case _, "*", "*" if day.isdecimal():
            some = " that has one" if int(day) > 28 else ""
            return f"on day {day} of every month{some} {at}"
        case _, _, "*" if day.isdecimal() and month.isdecimal():
            return f"every year on {MONTHS[int(month) - 1].capitalize()} {day} {at}"
        case _:
            return f"cron {cron}"


def _describe_steps(fields: list[str]) -> str:
    match fields:
        case ["*", "*", "*", "*", "*"]:
            return "every minute"
        case [minutes, "*", "*", "*", "*"] if minutes.startswith("*/"):
            return f"every {minutes[2:]} minutes"
        case [minute, "*", "*", "*", "*"] if minute.isdecimal():
            return f"every hour at minute {minute}"
        case [minute, hours, "*", "*", "*"] if minute.isdecimal() and hours.startswith("*/"):
            return f"every {hours[2:]} hours at minute {minute}"
        case _:
            return ""


def read_time_of_day(words: str) -> tuple[time | None, str]:
    """The time of day that words say, and the other words. `today` stays: it is a date."""
    part = _PART.search(words)
    if part is not None:
        words = plain(words.replace(part[0], "every" if part[0].startswith("every ") else "", 1))
        words = f"{words} day" if words == "every" or words.startswith("every at") else words
    found = _CLOCK.search(words)
    if found is None:
        return (None if part is None else _PARTS_OF_DAY[part[1]]), words
    hour = int(found["hour"] or found["hour2"] or found["hour3"])
    minute = int(found["minute"] or found["minute2"] or 0)
    half = (found["half"] or found["half2"] or found["half3"] or "")[:1]
    if (half == "p" or (not half and part is not None and part[1] in _LATE)) and hour < 12:
        hour += 12
    elif half == "a" and hour == 12:
        hour = 0
    if hour > 23 or minute > 59:
        return None, words
    return time(hour, minute), plain(words[: found.start()] + " " + words[found.end() :])


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
    first = _find_window(words, now, zone)
    if first is None:
        _check_rest(text)
        raise TimeError(f"No time found in {text.strip()!r:.80}", hint=_hint())
    said, when, rest = first
    # `tomorrow call Anna at 9` says it in two places; of `every morning tell me what is due today`, one.
    if second := _find_window(rest, now, zone, quiet=True):
        for both in (f"{second[0]} {said}", f"{said} {second[0]}"):
            if together := _try_read(both, now, zone):
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


def _find_window(
    words: list[str], now: datetime, zone: str, *, quiet: bool = False
) -> tuple[str, When, list[str]] | None:
    """The longest words that say a time, that time, and the words around them."""
    read_ = _try_read if quiet else _read
    for length in range(min(len(words), _WORDS), 0, -1):
        for start in range(len(words) - length + 1):
            said = plain(" ".join(words[start : start + length]))
            if when := read_(said, now, zone):
                return said, when, [*words[:start], *words[start + length :]]
    return None


def _try_read(words: str, now: datetime, zone: str) -> When | None:
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
    if "TZ" not in os.environ:
        with suppress(OSError):  # no such link, as on Windows
            _, found, name = str(Path("/etc/localtime").readlink()).partition("/zoneinfo/")
            if found:
                return name
    import tzlocal  # slow to import, and few need it

    try:
        return tzlocal.get_localzone_name() or "UTC"
    except (ZoneInfoNotFoundError, ValueError):
        return "UTC"


def describe(triggers: dict[str, Any]) -> str:
    """A time in words: `Friday 2026-11-20 17:30 Europe/Berlin`, `every Monday at 09:00 Europe/Berlin`."""
    zone = str(triggers.get("zone", "UTC"))
    if "at" in triggers:
        return format_moment(clock.parse(str(triggers["at"])), zone)
    return f"{describe_repetition(str(triggers.get('cron', '')))} {zone}"


def format_moment(at: datetime, zone: str) -> str:
    """A moment as people write it, with its time zone."""
    local = at.astimezone(ZoneInfo(zone))
    seconds = ":%S" if local.second else ""
    return f"{local:%A %Y-%m-%d %H:%M}{local.strftime(seconds)} {zone}"


def _hint() -> str:
    return f"Write it in English, such as {EXAMPLES}."


def _read(words: str, now: datetime, zone: str) -> When | None:
    if exact := _read_exact(words, zone):
        return require_future(exact, now, zone)
    if named := _ZONE.search(words):
        zone = check_zone({"GMT": "UTC"}.get(named[1], named[1]))
        words = plain(words.replace(named[0], ""))
    words = words.lower()
    local = now.astimezone(ZoneInfo(zone))
    cron = read_cron(words, local)
    if cron is None:
        return _read_once(words, local, zone)
    found = When(zone=zone, cron=cron)
    if hook_points.upcoming(found.triggers, now) is None:
        raise TimeError(f"Invalid date: {words!r:.80}")
    return found


def _read_exact(words: str, zone: str) -> datetime | None:
    """A moment as programs and models write it: `2026-11-20T17:30`, with or without an offset."""
    if not re.match(r"\d{4}-\d{2}-\d{2}[T ]\d", words):
        return None
    try:
        found = datetime.fromisoformat(re.sub(r" ?(UTC|GMT)$", "+00:00", words))
    except ValueError:
        return None
    return found.replace(tzinfo=ZoneInfo(zone)) if found.tzinfo is None else found


def require_future(at: datetime, now: datetime, zone: str) -> When:
    """A moment that is still to come; an error if it has passed."""
    at = at.astimezone(UTC).replace(microsecond=0)
    if at <= now:
        raise TimeError(f"{format_moment(at, zone)} has passed", hint=f"It is {format_moment(now, zone)}.")
    return When(zone=zone, at=at)


def _read_once(words: str, local: datetime, zone: str) -> When | None:
    said, rest = read_time_of_day(words)
    if not rest:
        if said is None:
            return None
        at = datetime.combine(local.date(), said, local.tzinfo)
        is_past = at.astimezone(UTC) <= local.astimezone(UTC)
        return require_future(_next_day(at) if is_past and "tonight" not in words else at, local, zone)
    if lasting := _LASTING.fullmatch(_spell_out_amounts(rest)):
        return _read_duration(lasting[0], said, local, zone)
    if numeric := _NUMERIC.fullmatch(rest):
        # Written with points the day comes first, also where dates with slashes begin with the month.
        rest = f"{numeric[1]} {MONTHS[int(numeric[2]) % 13 - 1]} {numeric[3] or ''}".strip()
    elif not _DATE.fullmatch(rest):
        return None
    day = _read_day(rest.removeprefix("on ").removeprefix("the "), local)
    if day is None:
        return None
    return require_future(datetime.combine(day, said or DEFAULT_TIME, local.tzinfo), local, zone)


def _read_duration(lasting: str, said: time | None, local: datetime, zone: str) -> When | None:
    """Hours pass, whatever the clock on the wall does; days begin anew at the same time of day."""
    if _SHORT.search(lasting):
        passed = None if said else _add(lasting, local.astimezone(UTC))
        return passed and require_future(passed, local, zone)
    day = _add(lasting, local)
    if day is None:
        return None
    return require_future(datetime.combine(day.date(), said or local.time(), local.tzinfo), local, zone)


def _read_day(words: str, local: datetime) -> date | None:
    """The next day that words say, today last; None if there is no such day."""
    today = local.date()
    if words in _DAYS_AWAY:
        return today + timedelta(days=_DAYS_AWAY[words])
    if found := re.fullmatch(r"next (week|month|year)", words):
        later = _add(f"1 {found[1]}", local)
        return later and later.date()
    if found := re.fullmatch(rf"(this |next )?({DAY})", words):
        away = (_find_number(found[2][:3], DAYS) - 1 - today.weekday()) % 7
        if found[1] == "next " and away == 1:
            away = 8  # nobody says "next Friday" for tomorrow
        return today + timedelta(days=away if away or found[1] == "this " else 7)
    with suppress(ValueError, OverflowError):
        if _ISO_DATE.fullmatch(words):
            return date.fromisoformat(words)
        day, month, year = _split_date(words)
        if year:
            return date(year, month, day)
        # The 29th of February may be eight years away.
        years = (
            today.year + ahead for ahead in range(9) if month != 2 or day != 29 or isleap(today.year + ahead)
        )
        return next(found for year in years if (found := date(year, month, day)) > today)
    return None


def _split_date(words: str) -> tuple[int, int, int]:
    """The numbers of `20th of November 2026` and `November the 20th`; 0 for a year that isn't said."""
    [month] = [_find_number(word[:3], MONTHS) for word in re.findall(rf"\b{MONTH}\b", words)]
    day, *year = [int(number) for number in re.findall(r"\d+", words)]
    return day, month, year[0] if year else 0


def _add(lasting: str, base: datetime) -> datetime | None:
    """The moment after a duration; None if it is beyond the calendar."""
    amounts: Counter[str] = Counter()
    for number, unit in re.findall(r"(\d+) ?([a-z]+)", lasting):
        amounts[next(name for start, name in _UNITS if unit.startswith(start))] += int(number)
    duration: dict[str, Any] = dict(amounts)
    with suppress(ValueError, OverflowError):
        return base + relativedelta(**duration)
    return None


def _next_day(at: datetime) -> datetime:
    return datetime.combine(at.date() + timedelta(days=1), at.time(), at.tzinfo)


def _spell_out_amounts(words: str) -> str:
    """Amounts in words as numbers."""
    words = re.sub(r"\ban? hour and a half\b|\bone and a half hours\b", "90 minutes", words)
    words = re.sub(r"\bhalf an hour\b", "30 minutes", words)
    words = re.sub(r"\ba couple of\b", "2", words)
    return re.sub(
        rf"\b({'|'.join(NUMBERS)})(?= {_UNIT}\b)",
        lambda found: str(NUMBERS[found[1]]),
        words,
    )


def describe_next(triggers: dict[str, Any], after: datetime) -> str:
    """The next moment in words, or `never`."""
    due = hook_points.upcoming(triggers, after)
    return "never" if due is None else format_moment(due, str(triggers.get("zone", "UTC")))


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
        found = QuietHours(_parse_time(begin), _parse_time(end), ZoneInfo(zone or local_zone()))
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
