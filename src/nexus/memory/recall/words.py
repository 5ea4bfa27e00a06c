"""Text as the full-text index cuts it, so that words counted here are the words that it counts."""

import sys
import threading
from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import cast

import apsw

from nexus.ledgers.text import storable

# Questions are made of these; alone they find everything and tell nothing apart.
_FUNCTION_WORDS = """
a about after again all also am an and any are as at be because been before being between both but by
can could d did do does doing don down during each either few for from had has have having he her here
hers him his how i if in into is it its just ll m many may me might mine more most much must my no nor
not now of off on once only or other our ours out over own re s same shall she should so some such t
than that the their theirs them then there these they this those through to too under until up us ve
very was we were what when where which while who whom whose why will with would you your yours
"""

_TIME_WORDS = """
yesterday today tomorrow tonight last next week weekend month year ago recently since monday tuesday
wednesday thursday friday saturday sunday summer winter spring fall autumn january february march april
may june july august september october november december
"""
_NUMBER_WORDS = "one two three four five six seven eight nine ten couple several once twice"

# Speakers that are a part played, not a person: nobody asks for them by name.
ROLE_WORDS = frozenset({"user", "assist", "assistant", "system", "agent", "bot", "tool", "human"})

_local = threading.local()
# A message is about what its first part says; a log pasted into a chat must not stall a recall.
_LONGEST_TEXT = 20_000


def tokens(text: str) -> list[str]:
    """The stemmed words of any text, in order."""
    data = storable(text[:_LONGEST_TEXT]).encode()
    found = _tokenizer()(
        data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
    )
    return cast("list[str]", found)


def forms(text: str) -> dict[str, str]:
    """Each stemmed word of a text with the first form in which it was written.

    The index stems what it is asked for, and stemming twice is not stemming once: ask with the form.
    """
    data = storable(text).encode()
    found: dict[str, str] = {}
    cut = _tokenizer()(data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
    for start, end, word in cast("list[tuple[int, int, str]]", cut):
        found.setdefault(word, data[start:end].decode(errors="replace"))
    return found


@dataclass(frozen=True, slots=True)
class Counted:
    """A text's stemmed words: how often each, how many, and in which order."""

    counts: dict[str, int]
    length: int
    order: str  # all of them, with a space before and after each
    says_time: bool
    says_number: bool

    def holds_pair(self, pair: tuple[str, str]) -> bool:
        first, second = pair
        return first in self.counts and second in self.counts and f" {first} {second} " in self.order


@lru_cache(maxsize=4096)
def counted(text: str) -> Counted:
    """The words of a text, counted. What was asked about lately is remembered: talk stays on a topic."""
    words = [sys.intern(word) for word in tokens(text)]
    counts = Counter(words)
    digits = [word for word in counts if word.isdigit()]
    return Counted(
        counts=counts,
        length=len(words),
        order=f" {' '.join(words)} ",
        says_time=not _time_words().isdisjoint(counts) or any(len(word) == 4 for word in digits),
        says_number=bool(digits) or not _number_words().isdisjoint(counts),
    )


@cache
def _time_words() -> frozenset[str]:
    return frozenset(tokens(_TIME_WORDS))


@cache
def _number_words() -> frozenset[str]:
    return frozenset(tokens(_NUMBER_WORDS))


@cache
def function_words() -> frozenset[str]:
    """Words that carry no content, stemmed."""
    return frozenset(tokens(_FUNCTION_WORDS))


def _tokenizer() -> apsw.FTS5Tokenizer:
    # A tokenizer belongs to a connection and a connection to one thread at a time.
    found: apsw.FTS5Tokenizer | None = getattr(_local, "tokenizer", None)
    if found is None:
        _local.connection = apsw.Connection(":memory:")
        found = _local.connection.fts5_tokenizer("porter", ["unicode61"])
        _local.tokenizer = found
    return found
