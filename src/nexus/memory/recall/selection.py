"""From an order to an answer: each thing once, and a token budget filled greedily."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from nexus.memory.recall.item import Item
from nexus.memory.recall.words import split_words

# Two texts that share this much of their words say the same.
_SAME = 0.8
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """An item in its place."""

    item: Item
    score: float
    probability: float
    strong: bool = False
    need: float = 0.0
    factors: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """An item that made it, its size, and those that say the same."""

    ranked: Ranked
    tokens: int
    also: tuple[str, ...]


def choose(ranked: Sequence[Ranked], *, max_results: int, max_tokens: int) -> list[Chosen]:
    """The best that fit.

    One that is too large for what is left of the tokens is passed over, not the end.
    """
    chosen: list[Chosen] = []
    said = _Said()
    left = max_tokens
    for entry in ranked:
        if len(chosen) >= max_results:
            break
        words = split_words(entry.item.text).distinct
        twin = said.same_as(words)
        if twin is not None:
            old = chosen[twin]
            chosen[twin] = Chosen(ranked=old.ranked, tokens=old.tokens, also=(*old.also, entry.item.id))
            continue
        size = token_count(entry.item.text)
        if size <= left:
            chosen.append(Chosen(ranked=entry, tokens=size, also=()))
            said.add(words)
            left -= size
    return chosen


class _Said:
    """The words of each text that was chosen, found again by a few of them.

    Of two sorted sets that share so much, each has one of its first words among the first of the other:
    as many as it may lack, and one. So only texts with such a word in common are compared.
    """

    def __init__(self) -> None:
        self._texts: list[frozenset[str]] = []
        self._by_word: dict[str, list[int]] = {}

    def same_as(self, words: frozenset[str]) -> int | None:
        """The place of the first text that says the same."""
        found = {place for word in _first(words) for place in self._by_word.get(word, ())}
        return min((place for place in found if _same(words, self._texts[place])), default=None)

    def add(self, words: frozenset[str]) -> None:
        for word in _first(words):
            self._by_word.setdefault(word, []).append(len(self._texts))
        self._texts.append(words)


def token_count(text: str) -> int:
    """About how many tokens a model reads for it."""
    return 1 + len(text) // _CHARACTERS_A_TOKEN


def _first(words: frozenset[str]) -> list[str]:
    return sorted(words)[: len(words) - ceil(_SAME * len(words)) + 1]


def _same(one: frozenset[str], other: frozenset[str]) -> bool:
    if min(len(one), len(other)) < _SAME * max(len(one), len(other)):
        return False  # even if the shorter one were part of the longer one
    shared = len(one & other)
    total = len(one) + len(other) - shared
    if total == 0 or shared < _SAME * total:
        return False
    # Numbers tell things apart that are otherwise said in the same words.
    return not any(word.isdigit() for word in one ^ other)
