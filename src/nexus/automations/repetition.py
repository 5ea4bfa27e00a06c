"""Times of day and repetitions in words, and repetitions as cron expressions: `every Monday at 9`."""

import re
from collections.abc import Sequence
from datetime import datetime, time
from typing import Final

from nexus.errors import AutomationError, UsageError

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


class TimeError(AutomationError, UsageError):
    """Words that say no time, or one that has passed."""


def plain(words: str) -> str:
    """Words without what stands around them."""
    return " ".join(words.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split()).strip(_AROUND)


def cron_of(words: str, local: datetime) -> str | None:
    """The cron expression of a repetition; None if the words say none."""
    if found := re.fullmatch(rf"(?:every (?:(\d+|{'|'.join(NUMBERS)}) )?(minute|hour)s?|(hourly))", words):
        return _interval(found[1], "hour" if found[3] else found[2], local)
    said, rest = time_of_day(words)
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
    if days := _weekdays(rest):
        return f"{clock_} * * {days}"
    return _of_month(rest, clock_, local)


def _interval(amount: str | None, unit: str, local: datetime) -> str:
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


def _weekdays(rest: str) -> str:
    """The days of `every Monday and Friday`, `on Mondays` or `every week on Monday`, as cron counts them."""
    repeated = rest.removeprefix("every week on ").removeprefix("every ")
    plural = rest.removeprefix("on ")
    listed = repeated if repeated != rest else plural if re.search(r"days\b", plural) else ""
    if not _DAY_LIST.fullmatch(listed):
        return ""
    found = [_number(word[:3], DAYS) for word in re.findall(DAY, listed)]
    return ",".join(str(number % 7) for number in sorted(set(found)))


def _of_month(rest: str, clock_: str, local: datetime) -> str | None:
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
        return f"{clock_} {day} {_number(month, MONTHS)} *" if 1 <= int(day) <= 31 else None
    return None


def _number(start: str, names: Sequence[str]) -> int:
    return next(number for number, name in enumerate(names, start=1) if name.startswith(start))


def described(cron: str) -> str:
    """A cron expression as words, where it is one of those that words become; otherwise itself."""
    fields = cron.split()
    if len(fields) != 5 or not fields[0].isdecimal() or not fields[1].isdecimal():
        return _steps(fields) or f"cron {cron}"
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


def _steps(fields: list[str]) -> str:
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


def time_of_day(words: str) -> tuple[time | None, str]:
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
