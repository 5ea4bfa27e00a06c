"""Dates in what people say: written out, by weekday, or relative to when it was said."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Final

from nexus.memory.languages import lexicon, speech

Span = tuple[date, date]
"""First and last day."""

_ISO: Final = re.compile(r"\b((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?\b")
_YEARLY: Final = re.compile(r"(?<!\S)--(\d\d)-(\d\d)(?!\d)")
_NUMERIC: Final = re.compile(r"(?<![\d.])(\d{1,2})[./](\d{1,2})(?:[./]((?:19|20)?\d\d))?(?![\d%])\.?")
_JAPANESE: Final = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(?:(\d{1,2})日)?")
_YEAR: Final = re.compile(r"\b((?:19|20)\d\d)\b")
# A weekday alone is the last one where somebody tells what was, and the next one otherwise.
_TENSES: Final = {
    "en": re.compile(
        r"\b(?:was|were|had|did|went|met|saw|came|got|took|gave|left|bought|told|said|\w{3,}ed)\b"
    ),
    "de": re.compile(r"\b(?:war|waren|hatte\w*|ging\w*|traf\w*|kam\w*|ge\w{3,}(?:t|en))\b"),
}
_HABIT: Final = re.compile(r"\b(?:every|each|jede[nrs]?|immer|usually|always)\s+(?:\w+\s+)?$")
_UNIT_DAYS: Final = {"day": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """A date as far as it was written: any part may be missing."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    start: int = 0
    end: int = 0


def moments(text: str, spoken: Iterable[str]) -> list[Moment]:
    """The dates that are written out in a text, also in part ("the 17th", "in May")."""
    plain = speech.normalize(text)
    found: list[Moment] = []

    def overlaps(match: re.Match[str]) -> bool:
        return any(match.start() < each.end and each.start < match.end() for each in found)

    for pattern, read in _readers(tuple(spoken)):
        for match in pattern.finditer(plain):
            if not overlaps(match):
                found += [each for each in read(match) if _is_real(each)]
    return sorted(found, key=lambda each: each.start)


def relative(text: str, said_on: date, spoken: Iterable[str]) -> list[tuple[Span, int, int]]:
    """The days that a text names by when it was said, each with where it stands."""
    plain = speech.normalize(text)
    found: list[tuple[Span, int, int]] = []
    for code in spoken:
        for span, start, end in _relative(plain, said_on, code):
            if not any(start < other_end and other_start < end for _, other_start, other_end in found):
                found.append((span, start, end))
    return sorted(found, key=lambda each: each[1])


def weekdays(text: str, spoken: Iterable[str]) -> frozenset[int]:
    """The weekdays that a text names; Monday is 0."""
    plain = speech.normalize(text)
    return frozenset(
        number
        for code in spoken
        for number, pattern in enumerate(_weekday_patterns(code))
        if pattern.search(plain)
    )


def absolute(text: str, said_on: date) -> str:
    """The text with the date behind each word that only means something on the day that it was said."""
    spoken = speech.languages(text)[:1]
    if moments(text, spoken) or len(speech.normalize(text)) != len(text):
        return text
    plain = speech.normalize(text)
    for (first, last), start, end in reversed(relative(text, said_on, spoken)):
        back = timedelta()
        if any(pattern.fullmatch(plain[start:end]) for pattern in _weekday_patterns(spoken[0])):
            if spoken[0] not in _TENSES or _HABIT.search(plain[:start]) or plain[start:end].endswith("s"):
                continue
            back = timedelta(days=7) if _TENSES[spoken[0]].search(plain) else timedelta()
        told = (first - back).isoformat() if first == last else f"{first.isoformat()} to {last.isoformat()}"
        text = f"{text[:end]} ({told}){text[end:]}"
    return text


def _is_real(moment: Moment) -> bool:
    return (moment.month is None or 1 <= moment.month <= 12) and (moment.day is None or 1 <= moment.day <= 31)


Reader = Callable[[re.Match[str]], list[Moment]]


@cache
def _readers(spoken: tuple[str, ...]) -> list[tuple[re.Pattern[str], Reader]]:
    readers: list[tuple[re.Pattern[str], Reader]] = [
        (_ISO, _iso),
        (_YEARLY, _yearly),
        (_JAPANESE, _japanese),
        (_NUMERIC, _numeric),
    ]
    for code in spoken:
        readers += _language_readers(code)
    return [*readers, (_YEAR, _year)]


def _at(match: re.Match[str], year: object = None, month: object = None, day: object = None) -> Moment:
    parts = [int(str(part)) if part else None for part in (year, month, day)]
    return Moment(year=parts[0], month=parts[1], day=parts[2], start=match.start(), end=match.end())


def _iso(match: re.Match[str]) -> list[Moment]:
    return [_at(match, match[1], match[2], match[3])]


def _yearly(match: re.Match[str]) -> list[Moment]:
    return [_at(match, None, match[1], match[2])]


def _japanese(match: re.Match[str]) -> list[Moment]:
    return [_at(match, match[1], match[2], match[3])]


def _year(match: re.Match[str]) -> list[Moment]:
    return [_at(match, match[1])]


def _numeric(match: re.Match[str]) -> list[Moment]:
    if match[3] is None and not match[0].endswith(".") and "/" not in match[0]:
        return []  # a decimal, or an hour
    year = None if match[3] is None else int(match[3]) if len(match[3]) > 2 else 2000 + int(match[3])
    found = [_at(match, year, match[2], match[1])]
    # With slashes, people write the day first or the month.
    return [*found, _at(match, year, match[1], match[2])] if "/" in match[0] else found


def _language_readers(code: str) -> list[tuple[re.Pattern[str], Reader]]:
    section = lexicon(code).dates
    bare_day = re.compile(section["bare_day"])
    if code == "ja":
        return [(bare_day, lambda match: [_at(match, day=match["day"])])]
    names: list[str] = section["months"]
    month = rf"(?P<month>{'|'.join(names)})"
    ordinals: dict[str, int] = {
        word: place for place, word in enumerate(section["ordinals"].split(), start=1)
    }
    words = "|".join(sorted(ordinals, key=len, reverse=True)) or "(?!)"
    day = rf"(?P<day>\d{{1,2}}|{words})(?:st|nd|rd|th|\.|º|er|[nrsm])?"
    of = r"(?:\s+(?:of|de|del|do))?"
    year = rf"(?:,?{of}\s+(?P<year>(?:19|20)\d\d))?"
    # "May" is a month where it is written like one.
    full = "|".join(name.split("|")[0] for name in names if name != "may")

    def read(match: re.Match[str]) -> list[Moment]:
        groups = match.groupdict()
        said, named = groups.get("day") or groups.get("day2"), groups.get("month")
        number = None if said is None else int(said) if said.isdigit() else ordinals[said]
        place = next((n for n, each in enumerate(names, 1) if named and re.fullmatch(each, named)), None)
        return [_at(match, groups.get("year"), 5 if groups.get("may") else place, number)]

    patterns = (
        rf"\b{day}{of}\s+{month}\b\.?{year}",
        rf"\b{month}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?![\d:])\b{year}",
        rf"\b{month}\.?,?{of}\s+(?P<year>(?:19|20)\d\d)\b",
        rf"\b(?P<month>{full})\b|\b(?:in|of|this|next|last|until|by) (?P<may>may)\b",
        section["bare_day"],
        rf"\b(?P<day>{words})(?:[nrsm])?\b",
    )
    return [(re.compile(pattern), read) for pattern in patterns]


def _relative(plain: str, said_on: date, code: str) -> Iterator[tuple[Span, int, int]]:
    section = lexicon(code).dates
    edge = ("", "") if code == "ja" else (r"(?<![\w-])", r"(?![\w-])")
    for word in sorted(section["days"], key=len, reverse=True):
        for match in re.finditer(rf"{edge[0]}{re.escape(word)}{edge[1]}", plain):
            on = said_on + timedelta(days=section["days"][word])
            yield (on, on), match.start(), match.end()
    yield from _weeks(plain, said_on, code, edge)
    yield from _read_counts(plain, said_on, code)
    for number, pattern in enumerate(_weekday_patterns(code)):
        for match in pattern.finditer(plain):
            on = said_on + timedelta(days=(number - said_on.weekday()) % 7 or 7)
            yield (on, on), match.start(), match.end()


def _weeks(plain: str, said_on: date, code: str, edge: tuple[str, str]) -> Iterator[tuple[Span, int, int]]:
    """Next Friday, last week, nächsten Monat, la semana que viene."""
    section = lexicon(code).dates
    gap = "" if code == "ja" else r"\s+"
    days: list[str] = section["weekdays"]
    names: dict[int | str, str] = {**dict(enumerate(days)), **section["units"]}
    for key, pattern in names.items():
        for which, sign in (("next", 1), ("last", -1)):
            either = rf"(?:{section[which]}){gap}(?:{pattern})|(?:{pattern}){gap}(?:{section[which]})"
            for match in re.finditer(rf"{edge[0]}(?:{either}){edge[1]}", plain):
                yield _around(key, said_on, sign), match.start(), match.end()


def _around(key: object, said_on: date, sign: int) -> Span:
    monday = said_on - timedelta(days=said_on.weekday())
    if isinstance(key, int):
        ahead = (key - said_on.weekday()) % 7 or 7
        nearest = said_on + timedelta(days=ahead if sign > 0 else ahead - 7 * (1 + (ahead == 7)))
        return (nearest, nearest)
    if key == "week":
        return monday + timedelta(days=7 * sign), monday + timedelta(days=7 * sign + 6)
    if key == "weekend":
        return monday + timedelta(days=7 * (sign > 0) - 2), monday + timedelta(days=7 * (sign > 0) - 1)
    if key == "month":
        first = (said_on.replace(day=1) + timedelta(days=32 * sign if sign > 0 else -1)).replace(day=1)
        return first, (first + timedelta(days=32)).replace(day=1) - timedelta(days=1)
    if key == "year":
        return date(said_on.year + sign, 1, 1), date(said_on.year + sign, 12, 31)
    on = said_on + timedelta(days=sign)
    return on, on


def _read_counts(plain: str, said_on: date, code: str) -> Iterator[tuple[Span, int, int]]:
    """In two weeks, vor drei Tagen."""
    section = lexicon(code).dates
    words = {word: place for place, word in enumerate(section["cardinals"].split(), start=1)} | section[
        "more"
    ]
    count = rf"(?P<count>\d{{1,3}}|{'|'.join(sorted(words, key=len, reverse=True))})"
    for cue, sign in (("in", 1), ("ago", -1)):
        for form in section[cue]:
            for unit, pattern in section["units"].items():
                written = form.replace("{count}", count).replace("{unit}", f"(?:{pattern})")
                edge = ("", "") if code == "ja" else (r"\b", r"\b")
                for match in re.finditer(f"{edge[0]}{written}{edge[1]}", plain):
                    said = match["count"]
                    number = int(said) if said.isdigit() else words[said]
                    on = said_on + timedelta(days=sign * min(number, 2_000) * _UNIT_DAYS[unit])
                    slack = 0 if unit == "day" or (unit == "week" and number < 3) else _UNIT_DAYS[unit] // 2
                    yield (on - timedelta(days=slack), on + timedelta(days=slack)), match.start(), match.end()


@cache
def _weekday_patterns(code: str) -> tuple[re.Pattern[str], ...]:
    edge = "" if code == "ja" else r"\b"
    return tuple(re.compile(f"{edge}(?:{each}){edge}") for each in lexicon(code).dates["weekdays"])
