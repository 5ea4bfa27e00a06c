"""The names, numbers and dates of a statement: what can be checked without understanding it."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from typing import Final

from nexus.memory.languages import dates, fold, lexicon, speech
from nexus.memory.languages.dates import Moment, Span
from nexus.memory.languages.lexicon import lexicons

_WORD: Final = re.compile(r"[^\W\d_][\w\u2019']*(?:-\w+)*")
_KATAKANA: Final = re.compile(r"[\u30a0-\u30ff]{2,}")
_POSSESSIVE: Final = re.compile(r"['\u2019]s?$")
_ENDINGS: Final = ("s", "es", "n", "en", "'s")


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchors:
    """What a statement names."""

    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    dates: tuple[Moment, ...] = ()
    weekdays: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Mentions:
    """Names, numbers and dates in some texts, and the days that they resolve to."""

    words: frozenset[str]
    numbers: frozenset[str]
    dates: tuple[Moment, ...]
    weekdays: frozenset[int]
    spans: tuple[Span, ...]
    said_on: tuple[date, ...]

    def join(self, other: "Mentions") -> "Mentions":
        return Mentions(
            words=self.words | other.words,
            numbers=self.numbers | other.numbers,
            dates=(*self.dates, *other.dates),
            weekdays=self.weekdays | other.weekdays,
            spans=(*self.spans, *other.spans),
            said_on=(*self.said_on, *other.said_on),
        )

    def with_words(self, texts: Iterable[str]) -> "Mentions":
        """Add the words of some more texts, by which names are found."""
        return replace(self, words=self.words | {word for text in texts for word in _split_words(text)})

    def find_missing(self, wanted: Anchors) -> list[str]:
        """Find the names, numbers and dates of a statement that these texts don't give."""
        absent = [name for name in wanted.names if not self.names(name)]
        absent += [number for number in wanted.numbers if number not in self.numbers]
        absent += [_format_date(each) for each in wanted.dates if not self._gives_date(each)]
        resolved = {first.weekday() for first, last in self.spans if first == last}
        absent += [f"weekday {n + 1}" for n in wanted.weekdays if n not in self.weekdays | resolved]
        return absent

    def names(self, name: str) -> bool:
        """Whether every word of a name stands here."""
        return all(_is_among(word, self.words) for word in _split_name(name))

    def has(self, anchor: str) -> bool:
        """Whether a name or number that was missing elsewhere stands here."""
        return self.names(anchor) if not anchor[0].isdigit() else bool(set(anchor.split("-")) & self.numbers)

    def find_shared(self, wanted: Anchors, *, but: Iterable[str]) -> list[str]:
        """Find what of a statement these texts give, without those whom it is about."""
        left = {part for name in but for part in _split_name(name)}
        found = [n for n in wanted.names if self.names(n) and not set(_split_name(n)) <= left]
        found += [number for number in wanted.numbers if number in self.numbers]
        found += [_format_date(each) for each in wanted.dates if self._gives_part_of(each)]
        return found + [str(n) for n in wanted.weekdays if n in self.weekdays]

    def find_contradiction(self, wanted: Anchors) -> str:
        """Find a day of the statement that these texts contradict, as they name other days only."""
        said = {str(each.day) for each in self.dates if each.day}
        days = [each for each in wanted.dates if each.day]
        if (
            not said
            or not days
            or any(str(each.day) in said | self.numbers or self._spans_date(each) for each in days)
        ):
            return ""
        return _format_date(days[0])

    def _gives_part_of(self, moment: Moment) -> bool:
        if self._spans_date(moment):
            return True
        if moment.day is not None:
            return any(each.day == moment.day for each in self.dates) or str(moment.day) in self.numbers
        if moment.month is not None:
            return any(each.month == moment.month for each in self.dates)
        return any(each.year == moment.year for each in self.dates)

    def _gives_date(self, moment: Moment) -> bool:
        """Whether each part of a date was said, or follows from when it was."""
        if self._spans_date(moment):
            return True
        days = {each.day for each in self.dates} | {
            int(n) for n in self.numbers if len(n) <= 2 and n.isdigit()
        }
        months = {each.month for each in self.dates}
        near = {on.month for on in self.said_on} | {(on + timedelta(days=31)).month for on in self.said_on}
        years = {each.year for each in self.dates} | {on.year + n for on in self.said_on for n in (-1, 0, 1)}
        years |= {int(n) for n in self.numbers if len(n) == 4 and n.isdigit()}
        is_bare = any(each.day == moment.day and each.month is None for each in self.dates)
        return (
            (moment.day is None or moment.day in days)
            and (moment.month is None or moment.month in months or (is_bare and moment.month in near))
            and (moment.year is None or moment.year in years)
        )

    def _spans_date(self, moment: Moment) -> bool:
        return any(_fits(moment, span) for span in self._shift_spans())

    def _shift_spans(self) -> Iterator[Span]:
        for first, last in self.spans:
            yield first, last
            if first == last and first.weekday() in self.weekdays:
                for days in (-7, 7):
                    yield first + timedelta(days=days), last + timedelta(days=days)


def find_anchors(statement: str, spoken: Sequence[str] = ()) -> Anchors:
    """Find what a statement names."""
    statement = unicodedata.normalize("NFC", statement)
    spoken = tuple(spoken) or speech.languages(statement)
    moments = dates.find_moments(statement, spoken)
    rest = _cut_out(statement, [(each.start, each.end) for each in moments])
    numbers = {
        number
        for number in speech.numbers(rest, spoken)
        if number != "1" or re.search(r"(?<!\d)1(?!\d)", rest)
    }
    own = tuple(speech.languages(statement))
    return Anchors(
        names=tuple(dict.fromkeys(found(rest, own[0]))),
        numbers=tuple(sorted(numbers)),
        dates=tuple(moments),
        weekdays=tuple(sorted(dates.find_weekdays(statement, spoken))),
    )


def find_opening(statement: str) -> list[str]:
    """Find the name that a statement begins with, without a title."""
    found: list[str] = []
    end = 0
    for match in _WORD.finditer(statement):
        word = _POSSESSIVE.sub("", match[0])
        if _normalize(word) in _titles() and not found:
            end = match.end() + statement[match.end() :].startswith(".")
            continue
        if (
            not word[:1].isupper()
            or _normalize(re.split(r"['\u2019]", word)[0]) in _nobody()
            or (found and match.start() > end + 1)
        ):
            break
        found.append(word)
        end = match.end()
        if word != match[0]:
            break
    return found


def find_mentions(texts: Iterable[str], said_on: Sequence[date], spoken: Sequence[str] = ()) -> Mentions:
    """Find what some texts name. Relative dates resolve by the days on which they were said."""
    texts = [unicodedata.normalize("NFC", text) for text in texts if text]
    spoken = tuple(spoken) or speech.languages(*texts)
    said_on = tuple(dict.fromkeys(said_on))
    return Mentions(
        words=frozenset(word for text in texts for word in _split_words(text)),
        numbers=frozenset(number for text in texts for number in speech.numbers(text, tuple(spoken))),
        dates=tuple(each for text in texts for each in dates.find_moments(text, spoken)),
        weekdays=frozenset(n for text in texts for n in dates.find_weekdays(text, spoken)),
        spans=tuple(
            span
            for text in texts
            for spans, *_ in dates.find_relative(text, said_on, spoken)
            for span in spans
        ),
        said_on=said_on,
    )


def found(text: str, language: str) -> list[str]:
    """Find the names in a text by their capitals; in scripts without them, only foreign words."""
    names: list[str] = [*_KATAKANA.findall(text)]
    for sentence in speech.sentences(text):
        words = list(_WORD.finditer(sentence))
        for number, match in enumerate(words):
            word = _POSSESSIVE.sub("", match[0])
            if not word[:1].isupper() or is_common(word, language):
                continue
            before = words[number - 1][0] if number else ""
            after = words[number + 1][0] if number + 1 < len(words) else ""
            if number == 0 and not _opens_with_name(match[0], after):
                continue
            if before.lower() in lexicon(language).noun_articles:
                continue
            names.append(word)
    return names


def _opens_with_name(word: str, after: str) -> bool:
    return bool(_POSSESSIVE.search(word)) or after[:1].isupper() or after.lower() in _name_verbs()


def is_common(word: str, language: str) -> bool:
    """Whether a word with a capital names nobody: a function word, a month, a weekday."""
    plain = speech.normalize(word)
    if plain in _nobody() or plain in _titles():
        return True
    known = lexicon(language)
    small = (known.function_words, known.time_words)
    return dates.is_date_name(plain) or any(form in each for form in (plain, word.lower()) for each in small)


@cache
def _titles() -> frozenset[str]:
    return frozenset[str]().union(*(known.titles for known in lexicons().values()))


@cache
def _nobody() -> frozenset[str]:
    return frozenset[str]().union(*(known.nobody for known in lexicons().values()))


@cache
def _name_verbs() -> frozenset[str]:
    """After these a capital at the start of a sentence begins a name: "Sarah leads", "Anna ist"."""
    return frozenset[str]().union(*(known.name_verbs for known in lexicons().values()))


def _split_name(name: str) -> list[str]:
    words = (_normalize(each[0]) for each in _WORD.finditer(name))
    found = [word for word in words if word not in _nobody() and word not in _titles()]
    return [*found, *re.findall(r"\d+", name)]


def _split_words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        yield _normalize(match[0])
        yield from (_normalize(part) for part in match[0].split("-") if "-" in match[0])
    yield from re.findall(r"\d+", text)
    yield from _KATAKANA.findall(text)


def _normalize(word: str) -> str:
    return fold(speech.normalize(_POSSESSIVE.sub("", word)))


def _is_among(word: str, words: frozenset[str]) -> bool:
    if word in words or (not word.isascii() and any(word in each for each in words)):
        return True
    forms = [f"{word}{ending}" for ending in _ENDINGS] + [
        word[: -len(ending)] for ending in _ENDINGS if word.endswith(ending) and len(word) - len(ending) > 2
    ]
    return any(form in words for form in forms)


def _fits(moment: Moment, span: Span) -> bool:
    """Whether a date that may lack parts can be a day of a span."""
    if moment.day is None and moment.month is None:
        return False
    day, last = span
    while day <= last:
        if (
            moment.day in (None, day.day)
            and moment.month in (None, day.month)
            and moment.year in (None, day.year)
        ):
            return True
        day += timedelta(days=1)
    return False


def _format_date(moment: Moment) -> str:
    parts = (("{:04}", moment.year), ("{:02}", moment.month), ("{:02}", moment.day))
    return "-".join(form.format(part) for form, part in parts if part)


def _cut_out(text: str, places: Iterable[tuple[int, int]]) -> str:
    for start, end in sorted(places, reverse=True):
        text = f"{text[:start]} {text[end:]}"
    return text
