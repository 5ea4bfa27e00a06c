"""Dates in what people say and ask: written out, by weekday, or relative to when it was said.

A statement speaks of what comes as well as of what was, and may leave out parts of a date. A question asks
for an interval in the past: "last spring", "between May and July". Both read the calendar of the lexicon.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Final

from nexus.memory.languages import speech
from nexus.memory.languages.detection import DEFAULT
from nexus.memory.languages.lexicon import Calendar, Forms, Periods, lexicon

Span = tuple[date, date]
"""First and last day."""

_AFTER_TOMORROW: Final = 2
_UNIT_DAYS: Final = {"day": 1, "week": 7, "weekend": 7, "month": 30, "quarter": 91, "year": 365}
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_ISO: Final = re.compile(r"\b((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?\b")
_YEARLY: Final = re.compile(r"(?<!\S)--(\d\d)-(\d\d)(?!\d)")
_NUMERIC: Final = re.compile(r"(?<![\d.])(\d{1,2})[./](\d{1,2})(?:[./]((?:19|20)?\d\d))?(?![\d%])\.?")
_JAPANESE: Final = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(?:(\d{1,2})日)?")


# Statements


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """A date as far as it was written: any part may be missing."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    start: int = 0
    end: int = 0


def find_moments(text: str, spoken: Iterable[str]) -> list[Moment]:
    """Find the dates that are written out in a text, also in part ("the 17th", "in May")."""
    plain = speech.align(text)
    taken = bytearray(len(plain))
    found: list[Moment] = []
    for pattern, read in _moment_readers(tuple(spoken)):
        for match in pattern.finditer(plain):
            start, end = match.span()
            if taken.find(1, start, end) < 0 and (dates := [each for each in read(match) if _is_real(each)]):
                found += dates
                taken[start:end] = bytes([1]) * (end - start)
    return sorted(found, key=lambda each: each.start)


def find_relative(
    text: str, said_on: Sequence[date], spoken: Iterable[str]
) -> list[tuple[tuple[Span, ...], int, int]]:
    """Find what a text names by when it was said: what each date makes of it, and where it stands."""
    plain = speech.align(text)
    taken = bytearray(len(plain))
    found: list[tuple[tuple[Span, ...], int, int]] = []
    for code in spoken:
        numbers = _list_numbers(code)
        for pattern, unit, sign in _relative_forms(code):
            for match in pattern.finditer(plain):
                start, end = match.span()
                if taken.find(1, start, end) < 0:
                    spans = tuple(_resolve(match, unit, sign, on, numbers) for on in said_on)
                    found.append((spans, start, end))
                    taken[start:end] = bytes([1]) * (end - start)
    return sorted(found, key=lambda each: each[1])


def find_weekdays(text: str, spoken: Iterable[str]) -> frozenset[int]:
    """Find the weekdays that a text names; Monday is 0."""
    plain = speech.align(text)
    return frozenset(
        number
        for code in spoken
        for number, pattern in enumerate(_weekday_patterns(code))
        if pattern.search(plain)
    )


def add_dates(text: str, said_on: date) -> str:
    """Put the date behind each word of a text that only means something on the day that it was said."""
    spoken = speech.languages(text)[:1]
    if find_moments(text, spoken):
        return text
    plain = speech.align(text)
    past, habit = _tense_patterns(spoken[0])
    for ((first, last),), start, end in reversed(find_relative(text, [said_on], spoken)):
        back = timedelta()
        if any(pattern.fullmatch(plain[start:end]) for pattern in _weekday_patterns(spoken[0])):
            if past is None or habit.search(plain[:start]) or plain[start:end].endswith("s"):
                continue
            # A weekday alone is the last one where somebody tells what was, and the next one otherwise.
            back = timedelta(days=7) if past.search(plain) else timedelta()
        told = (first - back).isoformat() if first == last else f"{first.isoformat()} to {last.isoformat()}"
        text = f"{text[:end]} ({told}){text[end:]}"
    return text


@cache
def is_date_name(word: str) -> bool:
    """Whether a lower-case word is a month or a weekday in any of the languages."""
    return any(
        re.fullmatch(each, word)
        for code in speech.list_languages()
        for each in (*lexicon(code).calendar.months, *lexicon(code).calendar.weekdays)
    )


@cache
def list_month_names(code: str) -> tuple[str, ...]:
    """List the full names of the months in a language."""
    return tuple(each.split("|")[0] for each in lexicon(code).calendar.months)


@cache
def list_weekday_names(code: str) -> tuple[str, ...]:
    """List the names of the weekdays in a language, also in the plural."""
    patterns = "|".join(lexicon(code).calendar.weekdays).replace("(?:-feiras?)?", "").split("|")
    return tuple(name for each in patterns for name in (each.removesuffix("s?"), each.replace("s?", "s")))


def _is_real(moment: Moment) -> bool:
    """Whether there is such a day: "31.6." is a number."""
    if not 1 <= (moment.month or 1) <= 12 or moment.month == 0 or moment.day == 0:
        return False
    # Without a year, or a month, any that has the day.
    return (moment.day or 1) <= monthrange(moment.year or 2000, moment.month or 1)[1]


MomentReader = Callable[[re.Match[str]], list[Moment]]


@cache
def _moment_readers(spoken: tuple[str, ...]) -> list[tuple[re.Pattern[str], MomentReader]]:
    readers: list[tuple[re.Pattern[str], MomentReader]] = [
        (_ISO, lambda match: [_at(match, match[1], match[2], match[3])]),
        (_YEARLY, lambda match: [_at(match, None, match[1], match[2])]),
        (_JAPANESE, lambda match: [_at(match, match[1], match[2], match[3])]),
        (_NUMERIC, _read_numeric),
    ]
    for code in spoken:
        readers += _language_readers(lexicon(code).calendar)
    return [*readers, (re.compile(rf"\b{_YEAR}\b"), lambda match: [_at(match, match[1])])]


def _at(match: re.Match[str], year: object = None, month: object = None, day: object = None) -> Moment:
    parts = [int(str(part)) if part else None for part in (year, month, day)]
    return Moment(year=parts[0], month=parts[1], day=parts[2], start=match.start(), end=match.end())


def _read_numeric(match: re.Match[str]) -> list[Moment]:
    if match[3] is None and not match[0].endswith(".") and "/" not in match[0]:
        return []  # a decimal, or an hour
    year = None if match[3] is None else int(match[3]) if len(match[3]) > 2 else 2000 + int(match[3])
    found = [_at(match, year, match[2], match[1])]
    # With slashes, people write the day first or the month.
    return [*found, _at(match, year, match[1], match[2])] if "/" in match[0] else found


def _language_readers(calendar: Calendar) -> list[tuple[re.Pattern[str], MomentReader]]:
    ordinals = _spell({word: place for place, word in enumerate(calendar.ordinals, start=1)})

    def read(match: re.Match[str]) -> list[Moment]:
        groups = match.groupdict()
        said, named = groups.get("day") or groups.get("day2"), groups.get("month")
        day = None if said is None else int(said) if said.isdigit() else int(ordinals[said])
        month = _find_place(calendar.months, named) if named else None
        return [_at(match, groups.get("year"), month, day)]

    if not calendar.is_spaced:
        return [(re.compile(calendar.bare_day), read)]
    month = _any("month", calendar.months)
    words = _either(ordinals) or "(?!)"
    day = rf"(?P<day>\d{{1,2}}|{words})(?:st|nd|rd|th|\.|º|er|[nrsm])?"
    of = r"(?:\s+(?:of|de|del|do))?"
    year = rf"(?:,?{of}\s+{_YEAR})?"
    full = [name for each in calendar.months if (name := each.split("|")[0]) not in calendar.doubtful_months]
    patterns = (
        rf"\b{day}{of}\s+{month}\b\.?{year}",
        rf"\b{month}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?![\d:])\b{year}",
        rf"\b{month}\.?,?{of}\s+{_YEAR}\b",
        rf"\b{_any('month', full)}\b",
        *calendar.doubtful_months.values(),
        calendar.bare_day,
        rf"\b(?P<day>{words})(?:[nrsm])?\b",
    )
    return [(re.compile(pattern), read) for pattern in patterns]


@cache
def _relative_forms(code: str) -> list[tuple[re.Pattern[str], int | str, int]]:
    """Tomorrow; next Friday, la semana que viene; in two weeks, vor drei Tagen; Friday.

    Each with the number of a weekday or the name of a unit, and how many of them lie between.
    """
    calendar = lexicon(code).calendar
    before, after, edge, gap = (
        (r"(?<![\w-])", r"(?![\w-])", r"\b", r"\s+") if calendar.is_spaced else [""] * 4
    )
    forms: list[tuple[str, int | str, int]] = [
        (f"{before}{re.escape(word)}{after}", "day", calendar.days[word])
        for word in sorted(calendar.days, key=len, reverse=True)
    ]

    units = {unit: pattern for unit, pattern in calendar.units.items() if unit != "quarter"}
    names: dict[int | str, str] = {**dict(enumerate(calendar.weekdays)), **units}
    for key, name in names.items():
        far = _AFTER_TOMORROW if isinstance(key, int) else 1
        for which, sign in ((calendar.next, far), (calendar.coming, 1), (calendar.last, -1)):
            either = rf"(?:{which}){gap}(?:{name})|(?:{name}){gap}(?:{which})"
            if which:
                forms.append((rf"{before}(?:{either}){after}", key, sign))

    count = rf"(?P<count>\d{{1,3}}|{_either(_list_numbers(code))})"
    for written, sign in ((calendar.ahead, 1), (calendar.ago, -1)):
        for form in written:
            for unit, name in units.items():
                said = form.replace("{count}", count).replace("{unit}", f"(?:{name}){_half(calendar)}")
                forms.append((f"{edge}{said}{edge}", unit, sign))

    forms += [(pattern.pattern, number, 1) for number, pattern in enumerate(_weekday_patterns(code))]
    return [(re.compile(pattern), key, sign) for pattern, key, sign in forms]


def _resolve(
    match: re.Match[str], key: int | str, sign: int, said_on: date, numbers: Mapping[str, float]
) -> Span:
    said = match.groupdict().get("count")
    if said is None or isinstance(key, int):
        return _find_span(key, said_on, sign)
    number = (int(said) if said.isdigit() else numbers[said]) + (0.5 if match["half"] else 0)
    on = said_on + timedelta(days=sign * round(min(number, 2_000) * _UNIT_DAYS[key]))
    is_exact = key == "day" or (key == "week" and number < 3)
    # Whoever counts halves doesn't round to whole ones.
    slack = timedelta(days=0 if is_exact else _UNIT_DAYS[key] // (2 if number == int(number) else 4))
    return on - slack, on + slack


@cache
def _weekday_patterns(code: str) -> tuple[re.Pattern[str], ...]:
    calendar = lexicon(code).calendar
    edge = r"\b" if calendar.is_spaced else ""
    return tuple(re.compile(f"{edge}(?:{each}){edge}") for each in calendar.weekdays)


@cache
def _tense_patterns(code: str) -> tuple[re.Pattern[str] | None, re.Pattern[str]]:
    """How a language tells what was, if that is known, and what is said before a day that returns."""
    calendar = lexicon(code).calendar
    past = re.compile(rf"\b(?:{calendar.past})\b") if calendar.past else None
    return past, re.compile(rf"\b(?:{calendar.habit})\s+(?:\w+\s+)?$")


# Questions


def find_window(text: str, now: datetime, language: str = DEFAULT) -> tuple[datetime, datetime] | None:
    """Find the interval that a question speaks of; the hull if it names several times."""
    try:
        found = _grammar(language).find_spans(text, now.astimezone(UTC).date())
        if not found:
            return None
        end = max(last for _, last in found) + timedelta(days=1)
    except (ValueError, OverflowError):
        return None
    return _midnight(min(first for first, _ in found)), _midnight(end)


# "2024" alone is a year unless it counts something.
_BARE_YEAR: Final = r"(?<![\d.,-]){year}(?![\d.,]?\d)(?!\s*(?:€|%|euro|kilo|kg|km|meter|gramm|stück|mal\b))"
_FORMS: Final[Forms] = (
    (
        ("numeric", r"\b{year}-(?P<number>\d\d)-(?P<day>\d\d)\b"),
        ("numeric", r"(?<![\d.])(?P<day>\d{1,2})[./](?P<number>\d{1,2})[./]{year}\b"),
    ),
    (("range", r"\b{first}\s+(?:{and})\s+{second}\b(?:{of}\s+{year})?"),),
    (
        ("date", r"\b{day}{of}\s+{month}\b\.?(?:{of}\s+{year})?"),
        ("month", r"\b{month}\.?{of}\s+{year}\b"),
        ("season", r"\b{season}{of}\s+{year}\b"),
        ("season", r"\b(?:{in})\s*{season}\s+{which}\b"),
        ("season", r"\b{which}\s+{season}\b"),
        ("season", r"\b(?:{in})\s*{season}\b"),
        ("quarter", r"\b(?:{quarter})\s+(?:{quarter_unit})\b(?:{of}\s+{year})?"),
        ("month", r"\b(?:(?:{in}|{this}|{last})\s*)?{full_month}\b(?:\s+(?:{last})\b)?"),
        ("year", r"{bare_year}"),
    ),
    (
        ("ago", r"\b(?:{ago})\b"),
        ("weekday", r"\b(?:{which}\s+)(?:{weekday})\b"),
        ("weekday", r"\b{weekday}\s+(?:{last})\b"),
        ("unit", r"\b{which}\s+{unit}\b"),
        ("unit", r"\b{unit}\s+{which}\b"),
        ("day", r"(?<![\w-]){named_day}\b"),
    ),
)


class _Grammar:
    """How one language names times in questions, compiled."""

    def __init__(self, calendar: Calendar, periods: Periods, numbers: Mapping[str, float]) -> None:
        self._calendar, self._periods = calendar, periods
        self._numbers = {**numbers, **periods.rough}
        self._ago = [[f"{part}{n}" for n in range(len(calendar.ago))] for part in ("count", "unit", "half")]
        forms = _expand_forms(calendar, periods, _either(self._numbers))
        self._stages = [
            [(form, re.compile(pattern, re.IGNORECASE)) for form, pattern in stage] for stage in forms
        ]

    def find_spans(self, text: str, today: date) -> list[Span]:
        """Find every time that the text names in the first of the stages that finds any."""
        found: list[Span] = []
        for stage in self._stages:
            for form, pattern in stage:
                if matches := list(pattern.finditer(text)):
                    found += [self._read(form, match, today) for match in matches]
                    text = pattern.sub(" ", text)  # a day is not also a month, nor a month a year
            if found:
                break
        return found

    def _read(self, form: str, match: re.Match[str], today: date) -> Span:
        calendar, groups = self._calendar, match.groupdict()
        year = int(groups["year"]) if groups.get("year") else None
        is_last = re.fullmatch(calendar.last, groups.get("which") or "", re.IGNORECASE) is not None
        match form:
            case "numeric":
                on = date(int(match["year"]), int(match["number"]), int(match["day"]))
                return on, on
            case "range":
                first, second = (_find_place(calendar.months, match[name]) for name in ("first", "second"))
                return _find_range(first, second, year, today)
            case "date":
                return _find_day(_find_place(calendar.months, match["month"]), int(match["day"]), year, today)
            case "month":
                return _find_month(_find_place(calendar.months, match["month"]), year, today)
            case "season":
                place = _find_place(self._periods.seasons, match["season"])
                return _find_season(3 * place, year, today, is_over=is_last)
            case "quarter":
                number = next(n for n in range(1, 5) if match[f"q{n}"])
                return _find_season(3 * number - 2, year, today)
            case "year":
                return date(int(match["year"]), 1, 1), date(int(match["year"]), 12, 31)
            case "ago":
                count, unit, half = (next(filter(None, map(match.group, names)), "") for names in self._ago)
                number = int(count) if count.isdigit() else self._numbers[count.lower()]
                return _find_past((number + (0.5 if half else 0)) * _UNIT_DAYS[self._find_unit(unit)], today)
            case "weekday":
                return _find_span(_find_place(calendar.weekdays, match["weekday"]) - 1, today, -1)
            case "unit":
                unit = self._find_unit(match["unit"])
                # A weekend is always the last one.
                return _find_span(unit, today, -1 if is_last or unit == "weekend" else 0)
            case _:
                return _find_span("day", today, calendar.days[match["named"].lower()])

    def _find_unit(self, written: str) -> str:
        units = self._calendar.units
        return next(name for name, each in units.items() if re.fullmatch(each, written, re.IGNORECASE))


@cache
def _grammar(language: str) -> _Grammar:
    """The grammar of a language; the default one's if it is not known how the language asks for times."""
    calendar = lexicon(language).calendar
    return (
        _grammar(DEFAULT)
        if calendar.periods is None
        else _Grammar(calendar, calendar.periods, _list_numbers(language))
    )


def _expand_forms(calendar: Calendar, periods: Periods, numbers: str) -> list[list[tuple[str, str]]]:
    """Put a language's words into the forms in which it names times."""
    count = rf"(?:{periods.about})?(?P<count>\d{{1,3}}|{numbers})"
    unit = _any("unit", calendar.units.values())
    units = f"{unit}{_half(calendar)}"
    agos = [
        each.replace(" ", r"\s+")
        .replace("{count}", count.replace("<count>", f"<count{n}>"))
        .replace("{unit}", units.replace("<unit>", f"<unit{n}>").replace("<half>", f"<half{n}>"))
        for n, each in enumerate(calendar.ago)
    ]
    named_days = [word for word, ahead in calendar.days.items() if ahead <= 0]
    parts = {
        "ago": "|".join(agos),
        "bare_year": _BARE_YEAR if periods.has_bare_years else r"\b(?:{in}|{of_words})\s+{year}\b",
        "in": periods.within,
        "this": periods.this,
        "last": calendar.last,
        "and": periods.joins,
        "of": r"(?:\s+(?:{of_words}))?" if periods.of else "",
        "of_words": periods.of,
        "which": rf"(?P<which>{calendar.last}|{periods.this})",
        "day": r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.|º|er)?",
        "named_day": rf"(?P<named>{_either(named_days)})",
        "month": _any("month", calendar.months),
        "full_month": _any("month", (each.split("|")[0] for each in calendar.months)),
        "first": _any("first", calendar.months),
        "second": _any("second", calendar.months),
        "weekday": _any("weekday", calendar.weekdays),
        "season": _any("season", periods.seasons),
        "quarter": "|".join(rf"(?P<q{n}>{each})" for n, each in enumerate(periods.quarters, 1)),
        "quarter_unit": calendar.units["quarter"],
        "unit": unit,
        "year": _YEAR,
    }

    def expand(pattern: str) -> str:
        while (whole := re.sub(r"\{([a-z_]+)\}", lambda match: parts[match[1]], pattern)) != pattern:
            pattern = whole
        return pattern

    return [[(form, expand(pattern)) for form, pattern in stage] for stage in periods.forms or _FORMS]


def _find_day(month: int, day: int, year: int | None, today: date) -> Span:
    """Without a year: the last such day, today included; 29 February comes every fourth year, or eighth."""
    years = range(today.year - 8, today.year + 1) if year is None else [year]
    days = [date(each, month, day) for each in years if day <= monthrange(each, month)[1]]
    on = max(each for each in days if year or each <= today)
    return on, on


def _find_month(month: int, year: int | None, today: date) -> Span:
    """Without a year: the last such month, this one included."""
    return _list_months(year or today.year - (month > today.month), month)


def _find_range(first: int, last: int, year: int | None, today: date) -> Span:
    """From one month to another: the first is never after the second."""
    start, end = _find_month(last, year, today)
    return _list_months(start.year - (first > last), first)[0], end


def _find_season(first_month: int, year: int | None, today: date, *, is_over: bool = False) -> Span:
    """Three months. Without a year: the last ones that have begun, or, if `is_over`, that have ended."""
    first, last = _list_months(year or today.year, first_month, 3)
    if year is None and first > today:
        first, last = _list_months(first.year - 1, first_month, 3)
    if year is None and is_over and last >= today:
        first, last = _list_months(first.year - 1, first_month, 3)
    return first, last


def _find_past(days: float, today: date) -> Span:
    """About so many days ago: people round."""
    middle, slack = today - timedelta(days=round(days)), timedelta(days=max(1, days // 8))
    return middle - slack, middle + slack


def _midnight(on: date) -> datetime:
    return datetime(on.year, on.month, on.day, tzinfo=UTC)


# Both


def _find_span(key: int | str, today: date, sign: int) -> Span:
    """Find a weekday (by its number), week, weekend, month, quarter, year or day: last, this or next."""
    monday = today - timedelta(days=today.weekday())
    match key:
        case int():
            ahead = (key - today.weekday()) % 7
            # Nobody says "next Friday" for tomorrow.
            ahead += 7 if sign == _AFTER_TOMORROW and ahead == 1 else 0
            first = last = today + timedelta(days=(ahead or 7) if sign > 0 else ahead - 7)
        case "week":
            first = monday + timedelta(days=7 * sign)
            last = first + timedelta(days=6)
        case "weekend":
            first = monday + timedelta(days=7 * (sign > 0) - 2)
            last = first + timedelta(days=1)
        case "month":
            return _list_months(today.year, today.month + sign)
        case "quarter":
            return _list_months(today.year, (today.month - 1) // 3 * 3 + 1 + 3 * sign, 3)
        case "year":
            return date(today.year + sign, 1, 1), date(today.year + sign, 12, 31)
        case _:
            first = last = today + timedelta(days=sign)
    return first, last


def _list_months(year: int, month: int, count: int = 1) -> Span:
    """The days of so many months; a month may lie outside of the year."""
    first, after = (date(year + n // 12, n % 12 + 1, 1) for n in (month - 1, month - 1 + count))
    return first, after - timedelta(days=1)


@cache
def _list_numbers(code: str) -> dict[str, float]:
    calendar = lexicon(code).calendar
    cardinals = {word: place for place, word in enumerate(calendar.cardinals, start=1)}
    halves = {word: number / 2 for word, number in calendar.halves.items()}
    return _spell({**cardinals, **calendar.numbers, **halves})


def _half(calendar: Calendar) -> str:
    """Match what may stand behind a unit: a year *and a half*."""
    gap = r"\s+" if calendar.is_spaced else ""
    return rf"(?P<half>{gap}(?:{calendar.and_half or '(?!)'}))?"


def _spell(words: Mapping[str, float]) -> dict[str, float]:
    """Words also as they are written where the language has no ß: "dreissig"."""
    return {form: value for word, value in words.items() for form in (word, word.casefold())}


def _either(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


def _any(name: str, patterns: Iterable[str]) -> str:
    return rf"(?P<{name}>{'|'.join(patterns)})"


def _find_place(patterns: Sequence[str], written: str) -> int:
    """Which of the patterns a word matches, counted from one."""
    return next(n for n, pattern in enumerate(patterns, 1) if re.fullmatch(pattern, written, re.IGNORECASE))
