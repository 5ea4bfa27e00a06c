"""Whether a text states something, judged by its words: no model is asked, and the result is repeatable.

Words are stemmed, function words dropped, dates and phone numbers brought to one form. A paraphrase in
entirely other words counts as missing, so these figures are a lower bound; a judge model reads better.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from nexus.memory.languages import DEFAULT
from nexus.memory.recall.words import function_words, tokens

# Calibrated on the lives in bench/lives/train: see tests/unit/evaluation/test_matching.py.
_STATED: Final = 0.6
_STATED_TOGETHER: Final = 0.8
_MOST_TOGETHER: Final = 3
_CONTRARY: Final = 0.85
_ISO_DATE: Final = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)(?:T\S+)?")
_PHONE: Final = re.compile(r"\+?\d[\d\s()/-]{5,}\d")
_PHONE_DIGITS: Final = 7
# What people and memories call the owner, besides their name.
_OWNER_WORDS: Final = "I me my mine owner user"
_NEGATIONS: Final = re.compile(
    r"\b(?:no|not|never|without|cannot|\w+n't|nicht|nie|kein\w*|ohne|nunca|sin|ni|ne|n'|pas|jamais|sans|não|nem"
    r"|sem)\b",
    re.IGNORECASE,
)
_MONTHS: Final = (
    "January Januar enero janvier janeiro",
    "February Februar febrero février fevereiro",
    "March März marzo mars março",
    "April abril avril",
    "May Mai mayo maio",
    "June Juni junio juin junho",
    "July Juli julio juillet julho",
    "August agosto août",
    "September septiembre septembre setembro",
    "October Oktober octubre octobre outubro",
    "November noviembre novembre novembro",
    "December Dezember diciembre décembre dezembro",
)


@dataclass(frozen=True, slots=True)
class Statement:
    """The words of a text that carry its content."""

    words: frozenset[str]
    numbers: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.words | self.numbers


@dataclass(frozen=True, slots=True)
class Matcher:
    """Compares texts about one owner, whose own name says nothing: most statements are about them."""

    dropped: frozenset[str]

    @classmethod
    def of(cls, owner: str, language: str) -> "Matcher":
        return cls(frozenset(tokens(f"{owner} {_OWNER_WORDS}")) | function_words(DEFAULT, language))

    def read(self, text: str) -> Statement:
        phones = {digits[-_PHONE_DIGITS:] for digits in _phones(text)}
        plain = _ISO_DATE.sub(_written_out, _PHONE.sub(_without_phone, text))
        found = frozenset(tokens(plain)) - self.dropped
        numbers = {word for word in found if any(character.isdigit() for character in word)}
        return Statement(found - numbers, frozenset(number.lstrip("0") or "0" for number in numbers) | phones)

    def said(self, text: str) -> frozenset[str]:
        """The words of a text without its dates and numbers, which may follow from what was said."""
        return self.read(_ISO_DATE.sub(" ", text)).words

    def stating(self, text: str, rows: Sequence[str]) -> list[int]:
        """The places of the rows that state a text, alone or a few together; none where it isn't stated."""
        wanted = self.read(text)
        held = [self.read(row).all & wanted.all for row in rows]
        order = [place for place in range(len(rows)) if held[place]]
        for count in range(1, min(_MOST_TOGETHER, len(order)) + 1):
            chosen = _greedy(order, held, count)
            together = frozenset[str]().union(*(held[place] for place in chosen))
            enough = _STATED if count == 1 else _STATED_TOGETHER
            if share(wanted.all, together) >= enough and wanted.numbers <= together:
                return chosen
        return []

    def is_same(self, one: str, other: str) -> bool:
        """Whether two texts state the same: one of them may say more than the other."""
        first, second = self.read(one), self.read(other)
        more, less = (first, second) if len(first.all) > len(second.all) else (second, first)
        return less.numbers <= more.numbers and share(less.all, more.all) >= _STATED

    def repeats(self, text: str, row: str) -> bool:
        """Whether one row says nearly all of a text, and as little denies it: for what must not be there."""
        wanted, held = self.read(text).all, self.read(row).all
        same_sense = _denies(text) == _denies(row)
        return same_sense and share(wanted, held) >= _CONTRARY


def _denies(text: str) -> bool:
    return bool(_NEGATIONS.search(text.replace("\u2019", "'")))


def share(wanted: frozenset[str], held: frozenset[str]) -> float:
    """How much of what is wanted is held."""
    return len(wanted & held) / len(wanted) if wanted else 0.0


def _greedy(order: Sequence[int], held: Sequence[frozenset[str]], count: int) -> list[int]:
    """So many rows, each the one that adds the most."""
    chosen: list[int] = []
    have = frozenset[str]()
    for _ in range(count):
        best = max((p for p in order if p not in chosen), key=lambda p: len(held[p] - have))
        chosen.append(best)
        have |= held[best]
    return chosen


def _phones(text: str) -> Iterable[str]:
    found = ("".join(filter(str.isdigit, match)) for match in _PHONE.findall(_ISO_DATE.sub(" ", text)))
    return [digits for digits in found if len(digits) >= _PHONE_DIGITS]


def _without_phone(match: re.Match[str]) -> str:
    text = match.group()
    is_phone = not _ISO_DATE.search(text) and len(re.sub(r"\D", "", text)) >= _PHONE_DIGITS
    return " " if is_phone else text


def _written_out(match: re.Match[str]) -> str:
    year, month, day = match.groups()
    months = _MONTHS[int(month) - 1] if 1 <= int(month) <= len(_MONTHS) else month
    return f"{int(day)} {months} {year}"
