"""Time in a question: "last spring", "between May and July", by the calendar of its lexicon."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal

from nexus.memory.languages import DEFAULT, lexicon

Window = tuple[datetime, datetime]
Unit = Literal["day", "week", "weekend", "month", "quarter", "year"]

_UNIT_DAYS: dict[str, int] = {"day": 1, "week": 7, "weekend": 7, "month": 30, "quarter": 91, "year": 365}


def day_window(year: int, month: int, day: int) -> Window:
    start = datetime(year, month, day, tzinfo=UTC)
    return start, start + timedelta(days=1)


def latest_day(month_number: int, day_number: int, now: datetime) -> Window:
    """The last such day, today included."""
    start, end = day_window(now.year, month_number, day_number)
    return day_window(now.year - 1, month_number, day_number) if start > now else (start, end)


def days_back(count: int, now: datetime) -> Window:
    start = midnight(now) - timedelta(days=count)
    return start, start + timedelta(days=1)


def weekday_window(number: int, now: datetime) -> Window:
    """The last such day before today; Monday is 0."""
    return days_back((now.weekday() - number) % 7 or 7, now)


def month_window(year: int, month: int) -> Window:
    start = datetime(year, month, 1, tzinfo=UTC)
    return start, months_on(start, 1)


def latest_month(number: int, now: datetime) -> Window:
    """The last such month, this one included."""
    return month_window(now.year if number <= now.month else now.year - 1, number)


def season_window(first_month: int, year: int | None, now: datetime, *, over: bool = False) -> Window:
    """Three months. Without a year: the last one that has begun, or, if `over`, that has ended."""
    start = datetime(now.year if year is None else year, first_month, 1, tzinfo=UTC)
    if year is None and start > now:
        start = start.replace(year=start.year - 1)
    if year is None and over and months_on(start, 3) > now:
        start = start.replace(year=start.year - 1)
    return start, months_on(start, 3)


def quarter_window(number: int, year: int | None, now: datetime) -> Window:
    return season_window(3 * number - 2, year, now)


def year_window(number: int) -> Window:
    return datetime(number, 1, 1, tzinfo=UTC), datetime(number + 1, 1, 1, tzinfo=UTC)


def window_ago(count: int, unit: str, now: datetime) -> Window:
    """About so long ago: people round."""
    days = count * _UNIT_DAYS[unit]
    slack = max(1, days // 8)
    middle = midnight(now) - timedelta(days=days)
    return middle - timedelta(days=slack), middle + timedelta(days=slack + 1)


def window_around(unit: str, now: datetime, *, this: bool) -> Window:
    """This week, month or year, or the last one. A weekend is always the last one."""
    today = midnight(now)
    match unit:
        case "day":
            return days_back(0 if this else 1, now)
        case "week":
            start = today - timedelta(days=today.weekday() + (0 if this else 7))
            return start, start + timedelta(days=7)
        case "weekend":
            start = today - timedelta(days=today.weekday() + 2)
            return start, start + timedelta(days=2)
        case "month":
            first = today.replace(day=1)
            return (first, months_on(first, 1)) if this else (months_on(first, -1), first)
        case "quarter":
            start = today.replace(month=3 * ((today.month - 1) // 3) + 1, day=1)
            return (start, months_on(start, 3)) if this else (months_on(start, -3), start)
        case _:
            return year_window(today.year if this else today.year - 1)


def months_on(start: datetime, count: int) -> datetime:
    index = start.year * 12 + start.month - 1 + count
    return start.replace(year=index // 12, month=index % 12 + 1)


def midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


_YEAR = r"(?P<year>(?:19|20)\d\d)"
_ISO = re.compile(r"\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b")
_NUMERIC = re.compile(r"(?<![\d.])(\d{1,2})[./](\d{1,2})[./]((?:19|20)\d\d)\b")
# "2024" alone is a year unless it counts something.
_BARE_YEAR = rf"(?<![\d.,-]){_YEAR}(?![\d.,]?\d)(?!\s*(?:€|%|euro|kilo|kg|km|meter|gramm|stück|mal\b))"
_FIRST_MONTHS = (3, 6, 9, 12)

Reader = Callable[[re.Match[str], datetime], Window]
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

_FULL_DATE = [
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}\b(?:,?\s+{_YEAR})?", re.IGNORECASE),
    re.compile(rf"\b{_MONTH}\s+{_DAY}\b(?:,?\s+{_YEAR})?", re.IGNORECASE),
]
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


class Grammar:
    """One language's patterns, compiled."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._months: Sequence[str] = table["months"]
        self._weekdays: Sequence[str] = table["weekdays"]
        self._seasons: Sequence[str] = table["seasons"]
        self._ordinals: Sequence[str] = table["ordinals"]
        self._units: Mapping[str, str] = table["units"]
        self._numbers: Mapping[str, int] = table["numbers"]
        self._named_days: Mapping[str, int] = table["named_days"]
        self._last: str = table["last"]
        self._range, self._absolute, self._relative = self._compiled(table)

    def windows(self, text: str, now: datetime) -> list[Window]:
        """Every time that the text names; where it names dates, relative times aren't looked for."""
        found = [day_window(int(m[1]), int(m[2]), int(m[3])) for m in _ISO.finditer(text)]
        found += [day_window(int(m[3]), int(m[2]), int(m[1])) for m in _NUMERIC.finditer(text)]
        text = _NUMERIC.sub(" ", _ISO.sub(" ", text))
        ranges = list(self._ranges(text, now))
        return (
            found or ranges or self._read(self._absolute, text, now) or self._read(self._relative, text, now)
        )

    def _ranges(self, text: str, now: datetime) -> Iterator[Window]:
        """ "between May and July": the first month is never after the second."""
        for match in self._range.finditer(text):
            first, last = (_number(self._months, match[name]) for name in ("first", "last"))
            if match["year"]:
                year = int(match["year"])
                yield (
                    month_window(year if first <= last else year - 1, first)[0],
                    month_window(year, last)[1],
                )
                continue
            end = latest_month(last, now)
            yield month_window(end[0].year if first <= last else end[0].year - 1, first)[0], end[1]

    @staticmethod
    def _read(readers: Iterable[tuple[re.Pattern[str], Reader]], text: str, now: datetime) -> list[Window]:
        found: list[Window] = []
        for pattern, read in readers:
            found += [read(match, now) for match in pattern.finditer(text)]
            text = pattern.sub(" ", text)  # a day is not also a month, nor a month a year
        return found

    def _compiled(
        self, table: Mapping[str, Any]
    ) -> tuple[re.Pattern[str], list[tuple[re.Pattern[str], Reader]], list[tuple[re.Pattern[str], Reader]]]:
        month, full = (
            _any("month", self._months),
            _any("month", (each.split("|")[0] for each in self._months)),
        )
        of = rf"(?:\s+(?:{table['of']}))?" if table["of"] else ""
        inside = rf"(?:{table['in']}|{table['this']}|{table['last']})\s*"
        last = rf"(?:{self._last})"
        which = rf"(?P<which>{self._last}|{table['this']})"
        unit = _any("unit", self._units.values())
        season = _any("season", self._seasons)
        weekday = _any("weekday", self._weekdays)
        day = r"(?P<day>\d{1,2})(?:\.|º|er)?"
        count = rf"(?P<count>\d{{1,3}}|{'|'.join(sorted(self._numbers, key=len, reverse=True))})"
        agos = [each.replace("{count}", count).replace("{unit}", unit) for each in table["ago"]]
        years = _BARE_YEAR if table["bare_years"] else rf"\b(?:{table['in']}|{table['of']})\s+{_YEAR}\b"
        first, second = _any("first", self._months), _any("last", self._months)
        between = rf"\b{first}\s+(?:{table['and']})\s+{second}\b(?:{of}\s+{_YEAR})?"
        absolute: list[tuple[str, Reader]] = [
            (rf"\b{day}{of}\s+{month}\b\.?(?:{of}\s+{_YEAR})?", self._date),
            (rf"\b{month}\.?{of}\s+{_YEAR}\b", self._month_of_year),
            (rf"\b{season}{of}\s+{_YEAR}\b", self._season),
            (rf"\b(?:{table['in']})\s*{season}\s+{which}\b", self._season),
            (rf"\b{which}\s+{season}\b", self._season),
            (rf"\b(?:{table['in']})\s*{season}\b", self._season),
            (
                rf"\b(?:{'|'.join(f'(?P<q{n}>{each})' for n, each in enumerate(self._ordinals, 1))})\s+"
                rf"(?:{self._units['quarter']})\b(?:{of}\s+{_YEAR})?",
                self._quarter,
            ),
            (rf"\b(?:{inside})?{full}\b(?:\s+{last}\b)?", self._bare_month),
            (years, lambda match, _: year_window(int(match["year"]))),
        ]
        relative: list[tuple[str, Reader]] = [
            *((rf"\b{each}\b", self._ago) for each in agos),
            (rf"\b(?:{which}\s+)(?:{weekday})\b", self._weekday),
            (rf"\b{weekday}\s+{last}\b", self._weekday),
            (rf"\b{which}\s+{unit}\b", self._around),
            (rf"\b{unit}\s+{which}\b", self._around),
            (rf"(?<![\w-])(?P<name>{'|'.join(self._named_days)})\b", self._named_day),
        ]
        return re.compile(between, re.IGNORECASE), _all(absolute), _all(relative)

    def _date(self, match: re.Match[str], now: datetime) -> Window:
        month, day = _number(self._months, match["month"]), int(match["day"])
        return day_window(int(match["year"]), month, day) if match["year"] else latest_day(month, day, now)

    def _month_of_year(self, match: re.Match[str], _now: datetime) -> Window:
        return month_window(int(match["year"]), _number(self._months, match["month"]))

    def _bare_month(self, match: re.Match[str], now: datetime) -> Window:
        return latest_month(_number(self._months, match["month"]), now)

    def _season(self, match: re.Match[str], now: datetime) -> Window:
        groups = match.groupdict()
        first_month = _FIRST_MONTHS[_number(self._seasons, match["season"]) - 1]
        year = int(groups["year"]) if groups.get("year") else None
        return season_window(first_month, year, now, over=self._is_last(groups.get("which") or ""))

    def _quarter(self, match: re.Match[str], now: datetime) -> Window:
        number = next(n for n in range(1, 5) if match[f"q{n}"])
        return quarter_window(number, int(match["year"]) if match["year"] else None, now)

    def _ago(self, match: re.Match[str], now: datetime) -> Window:
        count = match["count"].lower()
        number = int(count) if count.isdigit() else self._numbers[count]
        return window_ago(number, self._unit(match["unit"]), now)

    def _weekday(self, match: re.Match[str], now: datetime) -> Window:
        return weekday_window(_number(self._weekdays, match["weekday"]) - 1, now)

    def _around(self, match: re.Match[str], now: datetime) -> Window:
        return window_around(self._unit(match["unit"]), now, this=not self._is_last(match["which"]))

    def _named_day(self, match: re.Match[str], now: datetime) -> Window:
        return days_back(self._named_days[match["name"].lower()], now)

    def _unit(self, written: str) -> str:
        return next(name for name, each in self._units.items() if re.fullmatch(each, written, re.IGNORECASE))

    def _is_last(self, written: str) -> bool:
        return re.fullmatch(self._last, written, re.IGNORECASE) is not None


@cache
def grammar(language: str) -> Grammar:
    """The grammar of a language that has a calendar."""
    return Grammar(lexicon(language).calendar)


def _any(name: str, patterns: Iterable[str]) -> str:
    return rf"(?P<{name}>{'|'.join(patterns)})"


def _number(patterns: Sequence[str], written: str) -> int:
    """Which of the patterns a word matches, counted from one."""
    return next(n for n, pattern in enumerate(patterns, 1) if re.fullmatch(pattern, written, re.IGNORECASE))


def _all(patterns: Iterable[tuple[str, Reader]]) -> list[tuple[re.Pattern[str], Reader]]:
    return [(re.compile(pattern, re.IGNORECASE), read) for pattern, read in patterns]


def window(text: str, now: datetime, language: str = DEFAULT) -> Window | None:
    """The interval that a question speaks of; the hull if it names several times."""
    now = now.astimezone(UTC)
    try:
        if lexicon(language).calendar:
            found = grammar(language).windows(text, now)
        else:
            found = _absolute(text, now) or _relative(text, now)
    except (ValueError, OverflowError):
        return None
    if not found:
        return None
    return min(start for start, _ in found), max(end for _, end in found)


def _absolute(text: str, now: datetime) -> list[Window]:
    found = [day_window(int(m[1]), int(m[2]), int(m[3])) for m in _ISO.finditer(text)]
    for pattern in _FULL_DATE:
        found += [_full_date(match, now) for match in pattern.finditer(text)]
        text = pattern.sub(" ", text)  # "7 May 2023" is a day, and not also the month
    found += [
        month_window(int(m["year"]), _MONTH_NUMBER[m["month"].lower()]) for m in _MONTH_YEAR.finditer(text)
    ]
    return found or _periods(text, now)


def _periods(text: str, now: datetime) -> list[Window]:
    found = [_season(match, now) for match in _SEASON.finditer(text)]
    found += [_quarter(match, now) for match in _QUARTER.finditer(text)]
    found = found or [
        latest_month(_MONTH_NUMBER[match["month"].lower()], now)
        for match in _BARE_MONTH.finditer(text)
        if _is_time(match)
    ]
    return found or [year_window(int(match["year"])) for match in _YEAR_ALONE.finditer(text)]


def _relative(text: str, now: datetime) -> list[Window]:
    found: list[Window] = []
    for match in _AGO.finditer(text):
        count = match["count"].lower()
        number = int(count) if count.isdigit() else _NUMBERS[count]
        found.append(window_ago(number, match["unit"].lower(), now))
    found += [
        window_around(match["unit"].lower(), now, this=match["which"].lower() == "this")
        for match in _LAST_UNIT.finditer(text)
    ]
    found += [
        days_back(1 if match["name"].lower() == "yesterday" else 0, now)
        for match in _NAMED_DAY.finditer(text)
    ]
    found += [weekday_window(_WEEKDAYS.index(match["day"].lower()), now) for match in _WEEKDAY.finditer(text)]
    return found


def _full_date(match: re.Match[str], now: datetime) -> Window:
    month, day = _MONTH_NUMBER[match["month"].lower()], int(match["day"])
    return day_window(int(match["year"]), month, day) if match["year"] else latest_day(month, day, now)


def _season(match: re.Match[str], now: datetime) -> Window:
    first_month = _SEASONS[match["season"].lower()]
    return season_window(first_month, _year_of(match), now, over=match["which"].lower() == "last")


def _quarter(match: re.Match[str], now: datetime) -> Window:
    number = int(match["number"] or 1 + ["first", "second", "third", "fourth"].index(match["word"].lower()))
    return quarter_window(number, _year_of(match), now)


def _year_of(match: re.Match[str]) -> int | None:
    return int(match["year"]) if match["year"] else None


def _is_time(match: re.Match[str]) -> bool:
    # "to march", "and may": a verb or an abbreviation, unless it is written as a name; "in march" is a time.
    name, before = match["month"], match[0].split()[0].lower()
    is_doubtful = name.lower() in {"may", "march", "mar", "dec", "jan"}
    return name[0].isupper() or not is_doubtful or before in {"in", "since", "during"}
