"""Which words of a question a full-text index can afford.

To rank, SQLite visits every row that matches, at about a microsecond each, and finds out how often
each word occurs. So a question in everyday words would visit most of a large ledger, for words that
tell its rows apart the least. Here the rare words choose the rows, words that are more frequent only
weigh on their order, and the most frequent are left out.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nexus.ledgers.text import match_any

# What ranking may cost: rows that are visited, words that are looked for in each.
_RANKED_ROWS = 8_000
_RANKED_WORDS = 12
# How many rows may be counted to learn how much weight the frequent words have.
_SCANNED_ROWS = 60_000
# A look at so many of a word's newest rows tells how frequent it is, near enough.
_SAMPLED_ROWS = 500
# A pasted document is no question: its first words stand for the rest.
_MOST_WORDS = 64
# Where all words are frequent, rows that hold so many of them are asked for.
_TOGETHER = 4


@dataclass(frozen=True, slots=True)
class Frequency:
    """In how many rows of an index a word occurs: exact up to what may be ranked, beyond it estimated."""

    word: str
    rows: int
    spellings: tuple[str, ...] = ()
    """How the index may spell it, if not only as the word itself."""

    @property
    def match(self) -> str:
        """A full-text query for the rows that hold it."""
        return match_any(list(self.spellings) or [self.word])


@dataclass(frozen=True, slots=True)
class Plan:
    """One full-text query; where it is not ranked, the newest rows are the answer."""

    match: str
    ranked: bool


Probe = Callable[[str, int], tuple[int, int]]
"""For a word and a number of rows: how many of its newest rows there are, and the lowest's number."""


def frequencies(words: Iterable[str], newest: int, probe: Probe) -> list[Frequency]:
    """Return the words that occur in an index whose newest row is `newest`, rarest first."""
    found = [Frequency(word, _rows(word, newest, probe)) for word in list(words)[:_MOST_WORDS]]
    return sorted((each for each in found if each.rows), key=lambda each: each.rows)


def plans(
    found: list[Frequency], *, ranked_rows: int = _RANKED_ROWS, scanned_rows: int = _SCANNED_ROWS
) -> list[Plan]:
    """Return what to ask an index for, in this order, until there are hits enough."""
    if not found:
        return []
    chosen = _within(found[:_RANKED_WORDS], ranked_rows)
    if not chosen:
        return _of_frequent_words(found, scanned_rows)
    weighed = _within(found[len(chosen) :], scanned_rows)
    rows = _any(chosen)
    # The right side adds no row: it lets the frequent words count, where they stand in a chosen one.
    return [Plan(f"({rows}) AND ({_any(chosen + weighed)})" if weighed else rows, ranked=True)]


def _of_frequent_words(found: list[Frequency], scanned_rows: int) -> list[Plan]:
    rarest = Plan(found[0].match, ranked=False)
    if len(found) == 1:
        return [rarest]
    together = found[:_TOGETHER]
    affordable = sum(each.rows for each in together) <= scanned_rows
    return [Plan(" AND ".join(_group(each) for each in together), ranked=affordable), rarest]


def _within(found: list[Frequency], rows: int) -> list[Frequency]:
    within: list[Frequency] = []
    for each in found:
        rows -= each.rows
        if rows < 0:
            break
        within.append(each)
    return within


def _any(found: list[Frequency]) -> str:
    return " OR ".join(each.match for each in found)


def _group(each: Frequency) -> str:
    return f"({each.match})" if len(each.spellings) > 1 else each.match


def _rows(word: str, newest: int, probe: Probe) -> int:
    estimate = 0
    for most in (_SAMPLED_ROWS, _RANKED_ROWS + 1):
        count, lowest = probe(word, most)
        if count < most:
            return count
        estimate = max(count, count * newest // (newest - lowest + 1))
        # Too low an estimate would cost a slow search, so only a high one is believed unchecked.
        if estimate > _RANKED_ROWS:
            break
    return estimate
