"""Time in a question: "last spring", "in March", "between May and July", "two weeks ago" to an interval.

Relative to a given now; what names no time gives none. Words that are also something else ("may",
"march", "fall") count only where the sentence makes them a time. English is read here, other languages
by the table of words in their lexicon.
"""

import re
from datetime import UTC, datetime

from nexus.memory.languages import DEFAULT, lexicon
from nexus.memory.recall import date_grammar, periods
from nexus.memory.recall.periods import Window

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


def window(text: str, now: datetime, language: str = DEFAULT) -> Window | None:
    """The interval that a question speaks of; the hull if it names several times."""
    now = now.astimezone(UTC)
    try:
        if lexicon(language).calendar:
            found = date_grammar.grammar(language).windows(text, now)
        else:
            found = _absolute(text, now) or _relative(text, now)
    except (ValueError, OverflowError):
        return None
    if not found:
        return None
    return min(start for start, _ in found), max(end for _, end in found)


def _absolute(text: str, now: datetime) -> list[Window]:
    found = [periods.day(int(m[1]), int(m[2]), int(m[3])) for m in _ISO.finditer(text)]
    for pattern in _FULL_DATE:
        found += [_full_date(match, now) for match in pattern.finditer(text)]
        text = pattern.sub(" ", text)  # "7 May 2023" is a day, and not also the month
    found += [
        periods.month(int(m["year"]), _MONTH_NUMBER[m["month"].lower()]) for m in _MONTH_YEAR.finditer(text)
    ]
    return found or _periods(text, now)


def _periods(text: str, now: datetime) -> list[Window]:
    found = [_season(match, now) for match in _SEASON.finditer(text)]
    found += [_quarter(match, now) for match in _QUARTER.finditer(text)]
    found = found or [
        periods.latest_month(_MONTH_NUMBER[match["month"].lower()], now)
        for match in _BARE_MONTH.finditer(text)
        if _is_time(match)
    ]
    return found or [periods.year(int(match["year"])) for match in _YEAR_ALONE.finditer(text)]


def _relative(text: str, now: datetime) -> list[Window]:
    found: list[Window] = []
    for match in _AGO.finditer(text):
        count = match["count"].lower()
        number = int(count) if count.isdigit() else _NUMBERS[count]
        found.append(periods.ago(number, match["unit"].lower(), now))
    found += [
        periods.around(match["unit"].lower(), now, this=match["which"].lower() == "this")
        for match in _LAST_UNIT.finditer(text)
    ]
    found += [
        periods.days_back(1 if match["name"].lower() == "yesterday" else 0, now)
        for match in _NAMED_DAY.finditer(text)
    ]
    found += [
        periods.weekday(_WEEKDAYS.index(match["day"].lower()), now) for match in _WEEKDAY.finditer(text)
    ]
    return found


def _full_date(match: re.Match[str], now: datetime) -> Window:
    month, day = _MONTH_NUMBER[match["month"].lower()], int(match["day"])
    return (
        periods.day(int(match["year"]), month, day) if match["year"] else periods.latest_day(month, day, now)
    )


def _season(match: re.Match[str], now: datetime) -> Window:
    first_month = _SEASONS[match["season"].lower()]
    return periods.season(first_month, _year_of(match), now, over=match["which"].lower() == "last")


def _quarter(match: re.Match[str], now: datetime) -> Window:
    number = int(match["number"] or 1 + ["first", "second", "third", "fourth"].index(match["word"].lower()))
    return periods.quarter(number, _year_of(match), now)


def _year_of(match: re.Match[str]) -> int | None:
    return int(match["year"]) if match["year"] else None


def _is_time(match: re.Match[str]) -> bool:
    # "in may", "to march": an abbreviation or a verb unless it is written as a name.
    name = match["month"]
    return name[0].isupper() or name.lower() not in {"may", "march", "mar", "dec", "jan"}
