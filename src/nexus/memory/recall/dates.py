"""Time in a question: "last spring", "in March", "between May and July", "two weeks ago" to an interval.

Relative to a given now; what names no time gives none. Words that are also something else ("may",
"march", "fall") count only where the sentence makes them a time.
"""

import re
from datetime import UTC, datetime, timedelta

Window = tuple[datetime, datetime]

_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTH_NUMBER = {name: i + 1 for i, name in enumerate(_MONTHS)} | {
    name[:3]: i + 1 for i, name in enumerate(_MONTHS)
}
_MONTH = r"(?P<month>" + "|".join(sorted(_MONTH_NUMBER, key=len, reverse=True)) + r")\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_NUMBERS = {
    word: i
    for i, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ]
    )
} | {"a": 1, "an": 1, "couple of": 2, "few": 3}
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}

_FULL_DATE = [
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}\b(?:,?\s+{_YEAR})?", re.IGNORECASE),
    re.compile(rf"\b{_MONTH}\s+{_DAY}\b(?:,?\s+{_YEAR})?", re.IGNORECASE),
]
_ISO = re.compile(r"\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b")
_MONTH_YEAR = re.compile(rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}\b", re.IGNORECASE)
_BARE_MONTH = re.compile(
    rf"\b(?:in|of|since|during|by|until|early|late|mid|last|this|next|and|to|from|between)\s+{_MONTH}\b",
    re.IGNORECASE,
)
_SEASON = re.compile(
    r"\b(?P<which>last|this|next|in|the|during)\s+(?:the\s+)?(?P<season>spring|summer|autumn|fall|winter)\b"
    rf"(?:\s+(?:of\s+)?{_YEAR})?",
    re.IGNORECASE,
)
_QUARTER = re.compile(
    rf"\b(?:q(?P<number>[1-4])|(?P<word>first|second|third|fourth) quarter)\b(?:\s+(?:of\s+)?{_YEAR})?",
    re.IGNORECASE,
)
_YEAR_ALONE = re.compile(
    rf"\b(?:in|since|during|of|year|summer|winter|spring|fall|autumn|early|late)\s+{_YEAR}\b", re.IGNORECASE
)
_AGO = re.compile(
    r"\b(?P<count>\d{1,3}|"
    + "|".join(sorted(_NUMBERS, key=len, reverse=True))
    + r")\s+(?P<unit>day|week|month|year)s?\s+ago\b",
    re.IGNORECASE,
)
_LAST_UNIT = re.compile(
    r"\b(?P<which>last|this|past|previous)\s+(?P<unit>week|weekend|month|year|quarter)\b", re.IGNORECASE
)
_NAMED_DAY = re.compile(r"\b(?P<name>yesterday|today|tonight|this morning)\b", re.IGNORECASE)
_WEEKDAY = re.compile(r"\b(?:last|on|this|past)\s+(?P<day>" + "|".join(_WEEKDAYS) + r")\b", re.IGNORECASE)


def window(text: str, now: datetime) -> Window | None:
    """The interval that a question speaks of; the hull where it names several times."""
    now = now.astimezone(UTC)
    try:
        found = _absolute(text, now) or _relative(text, now)
    except (ValueError, OverflowError):
        return None
    if not found:
        return None
    return min(start for start, _ in found), max(end for _, end in found)


def _absolute(text: str, now: datetime) -> list[Window]:
    found = [_day(int(m[1]), int(m[2]), int(m[3])) for m in _ISO.finditer(text)]
    for pattern in _FULL_DATE:
        found += [_full_date(match, now) for match in pattern.finditer(text)]
        text = pattern.sub(" ", text)  # "7 May 2023" is a day, and not also the month
    found += [_month(int(m["year"]), _MONTH_NUMBER[m["month"].lower()]) for m in _MONTH_YEAR.finditer(text)]
    return found or _periods(text, now)


def _periods(text: str, now: datetime) -> list[Window]:
    found = [_season(match, now) for match in _SEASON.finditer(text)]
    found += [_quarter(match, now) for match in _QUARTER.finditer(text)]
    found = found or [_bare_month(match, now) for match in _BARE_MONTH.finditer(text) if _is_time(match)]
    return found or [_year(int(match["year"])) for match in _YEAR_ALONE.finditer(text)]


def _relative(text: str, now: datetime) -> list[Window]:
    found: list[Window] = []
    for match in _AGO.finditer(text):
        count = match["count"].lower()
        days = (int(count) if count.isdigit() else _NUMBERS[count]) * _UNIT_DAYS[match["unit"].lower()]
        slack = max(1, days // 8)
        middle = _midnight(now) - timedelta(days=days)
        found.append((middle - timedelta(days=slack), middle + timedelta(days=slack + 1)))
    found += [_unit(match, now) for match in _LAST_UNIT.finditer(text)]
    for match in _NAMED_DAY.finditer(text):
        start = _midnight(now) - timedelta(days=1 if match["name"].lower() == "yesterday" else 0)
        found.append((start, start + timedelta(days=1)))
    for match in _WEEKDAY.finditer(text):
        back = (now.weekday() - _WEEKDAYS.index(match["day"].lower())) % 7 or 7
        start = _midnight(now) - timedelta(days=back)
        found.append((start, start + timedelta(days=1)))
    return found


def _unit(match: re.Match[str], now: datetime) -> Window:
    this = match["which"].lower() == "this"
    today = _midnight(now)
    match match["unit"].lower():
        case "week":
            start = today - timedelta(days=today.weekday() + (0 if this else 7))
            return start, start + timedelta(days=7)
        case "weekend":
            start = today - timedelta(days=today.weekday() + 2)
            return start, start + timedelta(days=2)
        case "month":
            first = today.replace(day=1)
            return _month(first.year, first.month) if this else _month_before(first)
        case "quarter":
            start = today.replace(month=3 * ((today.month - 1) // 3) + 1, day=1)
            return (start, _months_on(start, 3)) if this else (_months_on(start, -3), start)
        case _:
            return _year(today.year if this else today.year - 1)


def _full_date(match: re.Match[str], now: datetime) -> Window:
    month, day = _MONTH_NUMBER[match["month"].lower()], int(match["day"])
    if match["year"]:
        return _day(int(match["year"]), month, day)
    start, _ = _day(now.year, month, day)
    return _day(now.year - 1, month, day) if start > now else _day(now.year, month, day)


def _is_time(match: re.Match[str]) -> bool:
    # "in may", "to march": an abbreviation or a verb unless it is written as a name.
    name = match["month"]
    return name[0].isupper() or name.lower() not in {"may", "march", "mar", "dec", "jan"}


def _bare_month(match: re.Match[str], now: datetime) -> Window:
    number = _MONTH_NUMBER[match["month"].lower()]
    return _month(now.year if number <= now.month else now.year - 1, number)


def _season(match: re.Match[str], now: datetime) -> Window:
    first_month = _SEASONS[match["season"].lower()]
    year = int(match["year"]) if match["year"] else now.year
    start = datetime(year, first_month, 1, tzinfo=UTC)
    if not match["year"]:
        if start > now:
            start = start.replace(year=year - 1)
        if match["which"].lower() == "last" and _months_on(start, 3) > now:
            start = start.replace(year=start.year - 1)
    return start, _months_on(start, 3)


def _quarter(match: re.Match[str], now: datetime) -> Window:
    number = int(match["number"] or 1 + ["first", "second", "third", "fourth"].index(match["word"].lower()))
    year = int(match["year"]) if match["year"] else now.year
    start = datetime(year, 3 * number - 2, 1, tzinfo=UTC)
    if not match["year"] and start > now:
        start = start.replace(year=year - 1)
    return start, _months_on(start, 3)


def _day(year: int, month: int, day: int) -> Window:
    start = datetime(year, month, day, tzinfo=UTC)
    return start, start + timedelta(days=1)


def _month(year: int, month: int) -> Window:
    start = datetime(year, month, 1, tzinfo=UTC)
    return start, _months_on(start, 1)


def _month_before(first: datetime) -> Window:
    return _months_on(first, -1), first


def _year(year: int) -> Window:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)


def _months_on(start: datetime, count: int) -> datetime:
    index = start.year * 12 + start.month - 1 + count
    return start.replace(year=index // 12, month=index % 12 + 1)


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
