"""How likely two entities are one, from what is known of both. Pure functions, no ledger."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Indel, JaroWinkler

# Two entities become a merge candidate from this score on.
THRESHOLD: Final = 0.7

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")
_READ_DIGITS: Final = 100
_ROMAN = re.compile(r"(?=[ivx])(?:x{0,3})(?:ix|iv|v?i{0,3})")
_NUMBER_WORDS: Final = {
    word: str(value)
    for value, words in enumerate(
        (
            ("zero",), ("one", "first", "1st"), ("two", "second", "2nd"), ("three", "third", "3rd"),
            ("four", "fourth", "4th"), ("five", "fifth", "5th"), ("six", "sixth"), ("seven", "seventh"),
            ("eight", "eighth"), ("nine", "ninth"), ("ten", "tenth"), ("eleven",), ("twelve",),
        )
    )
    for word in words
}  # fmt: skip
# How far each sign alone goes towards "the same".
_SAME_IDENTIFIER: Final = {"email": 0.95, "phone": 0.9, "url": 0.9, "handle": 0.8}
_SAME_NAME: Final = 0.85
_LEAST_RATIO: Final = 0.84
# What `_ratio` needs at least, in hundredths, with room for accents and commas that the quick look sees.
_LEAST_INDEL: Final = 64
_WORDS_WITHIN: Final = 0.55
_LEAST_COSINE: Final = 0.75
_MOST_BY_COSINE: Final = 0.6
_BY_CONTEXT: Final = (0.0, 0.3, 0.5)
_OTHER_TYPE: Final = 0.6
_ANY_TYPE: Final = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """One sign that two entities may be the same: what was compared, and how far it goes."""

    signal: str
    detail: str
    weight: float


def by_identifier(type_: str, normalized: str) -> Reason | None:
    """Check whether both have the same address, number, handle or page."""
    weight = _SAME_IDENTIFIER.get(type_)
    return Reason(signal=f"same {type_}", detail=normalized, weight=weight) if weight else None


def by_name(one: str, other: str) -> Reason | None:
    """Check whether both have names that are equal, nearly equal, or one within the other."""
    if one == other:
        return Reason(signal="same name", detail=one, weight=_SAME_NAME)
    first, second = _sorted_words(one), _sorted_words(other)
    ratio = max(_ratio(first, second), _ratio(one, other))
    signal, weight = "similar name", _SAME_NAME - (_SAME_NAME - 0.5) * (1 - ratio) / (1 - _LEAST_RATIO)
    if ratio < _LEAST_RATIO:
        if not _is_within(first, second):
            return None
        signal, weight = "name within name", _WORDS_WITHIN
    if tells_apart(one, other):
        return None
    return Reason(signal=signal, detail=f"{one} / {other}", weight=round(weight, 3))


def near(name: str, others: Sequence[str]) -> list[str]:
    """Find those among many names for which `by_name` may say something: quickly, and missing none."""
    found: dict[str, None] = {}
    for scorer, least in (
        (fuzz.ratio, _LEAST_INDEL),
        (fuzz.token_sort_ratio, _LEAST_INDEL),
        (fuzz.token_set_ratio, 100),
    ):
        found |= dict.fromkeys(
            other
            for other, _, _ in process.extract(name, others, scorer=scorer, score_cutoff=least, limit=None)
        )
    return list(found)


def by_meaning(cosine: float) -> Reason | None:
    """Check whether their vectors are close."""
    if cosine < _LEAST_COSINE:
        return None
    share = min(1.0, (cosine - _LEAST_COSINE) / (1 - _LEAST_COSINE))
    return Reason(
        signal="similar meaning", detail=f"cosine {cosine:.2f}", weight=round(_MOST_BY_COSINE * share, 3)
    )


def by_context(shared: Iterable[str]) -> Reason | None:
    """Check whether both occur with the same other entities."""
    names = sorted(set(shared))
    weight = _BY_CONTEXT[min(len(names), len(_BY_CONTEXT) - 1)]
    return Reason(signal="shared context", detail=", ".join(names[:3]), weight=weight) if weight else None


def score(reasons: Iterable[Reason], type_a: str, type_b: str) -> float:
    """Combine all signs, each one making the rest of the doubt smaller."""
    doubt = 1.0
    for reason in reasons:
        doubt *= 1.0 - reason.weight
    types = {type_a.casefold(), type_b.casefold()} - {_ANY_TYPE}
    return round((1.0 - doubt) * (_OTHER_TYPE if len(types) > 1 else 1.0), 3)


def tells_apart(one: str, other: str) -> bool:
    """Whether two names differ in a number, a version or a letter that stands alone.

    `Room 101` and `Room 102`, `v1` and `v2`, `Plan A` and `Plan B` are near in letters, and never the same.
    """
    if _numbers(one) != _numbers(other):
        return True
    letters, others = _letters(one), _letters(other)
    return bool(letters and others and letters != others)


def _numbers(name: str) -> list[str]:
    """Find the numbers of a name in order, whether in digits, words or Roman."""
    found: list[str] = []
    for position, word in enumerate(_WORD.findall(_plain(name))):
        if word in _NUMBER_WORDS:
            found.append(_NUMBER_WORDS[word])
        elif position and len(word) > 1 and _ROMAN.fullmatch(word):
            found.append(str(_from_roman(word)))
        else:
            found += [_value(digits) for digits in _NUMBER.findall(word)]
    return found


def _value(digits: str) -> str:
    """Read a number without leading zeros, in any script of digits; a very long one stays as it is."""
    return str(int(digits)) if len(digits) < _READ_DIGITS else digits


def _letters(name: str) -> list[str]:
    return [word for word in _WORD.findall(_plain(name)) if len(word) == 1 and word.isalpha()]


def _from_roman(word: str) -> int:
    values = [{"i": 1, "v": 5, "x": 10}[letter] for letter in word]
    return sum(-value if value < max(values[place:]) else value for place, value in enumerate(values))


def _ratio(one: str, other: str) -> float:
    """Compare two texts: a typo counts little, another ending much."""
    return min(
        JaroWinkler.normalized_similarity(one, other), 0.5 + 0.5 * Indel.normalized_similarity(one, other)
    )


def _sorted_words(name: str) -> str:
    return " ".join(sorted(_WORD.findall(_plain(name))))


def _is_within(one: str, other: str) -> bool:
    first, second = set(one.split()), set(other.split())
    return bool(first and second) and (first < second or second < first)


def _plain(name: str) -> str:
    """Without accents: `José` and `Jose` are the same name."""
    if name.isascii():
        return name
    parts = unicodedata.normalize("NFKD", name)
    return "".join(part for part in parts if not unicodedata.combining(part))
