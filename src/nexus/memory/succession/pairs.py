"""Two facts side by side, as numbers: what speaks for the later one replacing the earlier one."""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from nexus import clock

_WORDS: Final = cast("dict[str, Any]", json.loads(Path(__file__).with_name("cues.json").read_text("utf-8")))
# Of a list of beginnings, words up to this length are whole words.
_WHOLE_UP_TO: Final = 4
_WORD: Final = re.compile(r"[^\W_]+")
_MONEY: Final = re.compile(
    r"[€£$¥]|\b(?:eur|usd|gbp|cad|chf|euros?|dollars?|pounds?|kronor|reais|francs?)\b", re.IGNORECASE
)
_CLOCK: Final = re.compile(
    r"\b\d{1,2}(?:[:.h]\d\d)?\s?(?:[ap]\.?m\b|uhr\b|h\b)|\b\d{1,2}[:h]\d\d\b", re.IGNORECASE
)
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
# Inflected forms of a word mostly agree in so many letters.
_STEM: Final = 6
_SHORTEST: Final = 3


def _phrases(name: str) -> re.Pattern[str]:
    longest_first = sorted(map(re.escape, cast("list[str]", _WORDS[name])), key=len, reverse=True)
    return re.compile(rf"(?<!\S)(?:{'|'.join(longest_first)})(?!\S)")


def _beginnings(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(word if len(word) <= _WHOLE_UP_TO else rf"{word}\w*" for word in words))


CHANGE: Final = _phrases("change")
"""Something is different from now on, or from a given date."""
END: Final = _phrases("end")
"""Something that held has ended."""
ADDITION: Final = _phrases("addition")
"""Something holds beside what was there before."""
PLAN: Final = _phrases("plan")
"""Something was only planned, expected or wished for."""
WEEKDAYS: Final = frozenset(cast("list[str]", _WORDS["weekdays"]))
MONTHS: Final = frozenset(cast("list[str]", _WORDS["months"]))
FUNCTION_WORDS: Final = frozenset(cast("list[str]", _WORDS["function_words"]))

# What somebody or something has one of at a time, by the beginnings of the words that speak of it.
_ATTRIBUTES: Final = {
    name: _beginnings(words) for name, words in cast("dict[str, list[str]]", _WORDS["attributes"]).items()
}


def attributes(words: Iterable[str]) -> frozenset[str]:
    """The attributes that a text speaks of, by its folded words."""
    spoken = list(words)
    return frozenset(
        name for name, pattern in _ATTRIBUTES.items() if any(pattern.fullmatch(word) for word in spoken)
    )


@dataclass(frozen=True, slots=True)
class Text:
    """What is compared of a text."""

    stems: frozenset[str]
    numbers: frozenset[str]
    weekdays: frozenset[str]
    dates: frozenset[str]
    years: frozenset[str]
    attributes: frozenset[str]
    money: bool
    clock: bool
    changes: bool
    ends: bool
    adds: bool
    plans: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A fact, as far as another may replace it."""

    id: str
    text: str
    at: str  # when it was true
    seq: int
    subject: str | None = None
    target: str | None = None
    relation_type: str | None = None
    entities: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()  # stems of what its entities are called
    event_id: str | None = None
    valid_until: str | None = None

    @property
    def place(self) -> tuple[str, int]:
        """Where it stands in time."""
        return self.at, self.seq


@dataclass(frozen=True, kw_only=True, slots=True)
class Nearness:
    """How near two statements are in meaning, beside other statements."""

    closeness: float  # cosine, in standard deviations above that of unrelated texts
    rank: int  # of the earlier one among what is known when the later one is learned; 1 is the nearest
    margin: float  # how much nearer it is than the next best, or how much farther than the best


@lru_cache(maxsize=8192)
def read(text: str) -> Text:
    """What a text says that matters here."""
    plain = fold(text)
    words = _WORD.findall(plain)
    running = " ".join(words)
    numbers = frozenset(_numbers(text))
    return Text(
        stems=frozenset(stem(word) for word in words if _tells(word)),
        numbers=numbers,
        weekdays=frozenset(word.rstrip("s") for word in words if word in WEEKDAYS),
        dates=frozenset(word for word in words if word in MONTHS),
        years=frozenset(number for number in numbers if _YEAR.fullmatch(number)),
        attributes=attributes(words),
        money=_MONEY.search(text) is not None,
        clock=_CLOCK.search(text) is not None,
        changes=CHANGE.search(running) is not None,
        ends=END.search(running) is not None,
        adds=ADDITION.search(running) is not None,
        plans=PLAN.search(running) is not None,
    )


def features(old: Statement, new: Statement, near: Nearness) -> dict[str, float]:
    """What the judge weighs. `old` is the earlier one."""
    one, two = read(old.text), read(new.text)
    shared_names = old.names & new.names
    first, second = one.stems - shared_names, two.stems - shared_names
    both = first & second
    share = len(both) / max(1, min(len(first), len(second)))
    overlap = len(both) / max(1, len(first | second))
    closeness = min(near.closeness, 6.0)
    days = (clock.parse(new.at) - clock.parse(old.at)).total_seconds() / 86_400
    changed = float(two.changes or two.ends)
    told_apart = _differ(one, two)
    return {
        "closeness": closeness,
        "nearest": 1.0 if near.rank == 1 else 0.0,
        "rank": 1.0 / near.rank,
        "margin": max(-2.0, min(2.0, near.margin)),
        "same_subject": float(old.subject is not None and old.subject == new.subject),
        "same_entities": len(old.entities & new.entities) / max(1, len(old.entities | new.entities)),
        "other_entity": float(bool(old.entities - new.entities) and bool(new.entities - old.entities)),
        "share": share,
        "overlap": overlap,
        "first_word": float(_opening(old) == _opening(new)),
        "changes": float(two.changes),
        "ends": float(two.ends),
        "adds": float(two.adds),
        "planned": float(one.plans),
        "numbers_differ": float(bool(one.numbers) and bool(two.numbers) and not one.numbers & two.numbers),
        "numbers_shared": float(bool(one.numbers & two.numbers)),
        "weekdays_differ": float(bool(one.weekdays) and bool(two.weekdays) and one.weekdays != two.weekdays),
        "both_money": float(one.money and two.money),
        "both_clock": float(one.clock and two.clock),
        "both_dates": float(bool(one.dates) and bool(two.dates)),
        "one_money": float(one.money != two.money),
        "value_differs": told_apart,
        "days": math.log1p(max(0.0, days)),
        "same_attribute": float(bool(one.attributes & two.attributes)),
        "other_attribute": float(
            bool(one.attributes) and bool(two.attributes) and not one.attributes & two.attributes
        ),
        "attribute_changed": float(bool(one.attributes & two.attributes)) * changed,
        "years_differ": float(bool(one.years) and bool(two.years) and not one.years & two.years),
        "old_changes": float(one.changes),
        "same_day": float(days < 1),
        "changed_share": changed * share,
        "changed_closeness": changed * closeness,
        "share_closeness": share * closeness,
    }


def restates(old: Statement, new: Statement) -> bool:
    """Whether the later one says the same again, perhaps with more detail: nothing is taken back."""
    one, two = read(old.text), read(new.text)
    if two.ends and not one.ends:
        return False
    return one.stems <= two.stems and one.numbers <= two.numbers and one.weekdays <= two.weekdays


def fold(text: str) -> str:
    """Lower case, without accents."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(part for part in parts if not unicodedata.combining(part))


def stem(word: str) -> str:
    """The beginning of a word, which its forms share."""
    return word[:_STEM]


def stems_of(text: str) -> frozenset[str]:
    """The stems of all words of a name."""
    return frozenset(stem(word) for word in _WORD.findall(fold(text)) if len(word) >= _SHORTEST)


def _tells(word: str) -> bool:
    return word.isalpha() and len(word) >= _SHORTEST and word not in FUNCTION_WORDS


def _numbers(text: str) -> list[str]:
    """The numbers of a text, whatever separates their thousands."""
    joined = re.sub(r"(?<=\d)[.,\u00a0\u202f ](?=\d{3}(?!\d))", "", text)
    return re.findall(r"\d+(?:[.,:]\d+)?", joined)


def _opening(statement: Statement) -> str:
    words = _WORD.findall(fold(statement.text))
    return words[0] if words else ""


def _differ(one: Text, two: Text) -> float:
    """Whether a value of the same kind is said in both, and is another."""
    kinds = (
        (one.weekdays, two.weekdays),
        (one.numbers if one.money else frozenset[str](), two.numbers if two.money else frozenset[str]()),
        (one.numbers if one.clock else frozenset[str](), two.numbers if two.clock else frozenset[str]()),
        (one.dates, two.dates),
    )
    return float(any(first and second and first != second for first, second in kinds))


def vector(values: Mapping[str, float], names: tuple[str, ...]) -> list[float]:
    """The features in a fixed order."""
    return [values[name] for name in names]
