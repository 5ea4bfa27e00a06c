"""From an order to an answer: each thing once, and a token budget filled greedily."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from nexus.memory.recall.item import Item
from nexus.memory.recall.words import counted

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
    said: list[frozenset[str]] = []
    # Nothing chosen says the same as something else chosen, so the same words can be those of one alone.
    place_of: dict[frozenset[str], int] = {}
    left = max_tokens
    for entry in ranked:
        if len(chosen) >= max_results:
            break
        words = frozenset(counted(entry.item.text).counts)
        twin = place_of.get(words)
        if twin is None:
            twin = next((i for i, other in enumerate(said) if _same(words, other)), None)
        if twin is not None:
            old = chosen[twin]
            chosen[twin] = Chosen(ranked=old.ranked, tokens=old.tokens, also=(*old.also, entry.item.id))
            continue
        size = token_count(entry.item.text)
        if size <= left:
            chosen.append(Chosen(ranked=entry, tokens=size, also=()))
            if words:  # texts without a word have nothing in common
                place_of[words] = len(said)
            said.append(words)
            left -= size
    return chosen


def token_count(text: str) -> int:
    """About how many tokens a model reads for it."""
    return 1 + len(text) // _CHARACTERS_A_TOKEN


def _same(one: frozenset[str], other: frozenset[str]) -> bool:
    if min(len(one), len(other)) < _SAME * max(len(one), len(other)):
        return False  # even if the shorter one were part of the longer one
    shared = len(one & other)
    total = len(one) + len(other) - shared
    if total == 0 or shared < _SAME * total:
        return False
    # Numbers tell things apart that are otherwise said in the same words.
    return not any(word.isdigit() for word in one ^ other)
