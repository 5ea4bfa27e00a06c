"""Text cut into words, stemmed by the rules of a language, and spelled as a full-text index has them."""

import re
import threading
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, cast

import apsw

from nexus.ledgers.text import storable
from nexus.memory.languages import DEFAULT, detect, fold, lexicon, stem
from nexus.memory.recall.reading import SQL

# Speakers that are a part played, not a person: nobody asks for them by name.
ROLE_WORDS = frozenset({"user", "assist", "assistant", "system", "agent", "bot", "tool", "human"})

_local = threading.local()
# A message is about what its first part says; a log pasted into a chat must not stall a recall.
_LONGEST_TEXT = 20_000

# Scripts that are written without spaces: Thai, Lao, Burmese, Khmer, kana, Chinese characters.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
# Beyond ASCII anything may be one: ², ٣, 三.
_DIGIT = re.compile(r"[0-9]|[^\x00-\x7f]")
Index = Literal["events", "facts", "summaries"]

_CHARACTERS_A_TOKEN = 4
# Fewer letters begin too many words.
_SHORTEST_BEGINNING = 3
_MOST_LOOKED_AT = 400
_MOST_SPELLINGS = 24
# What the English stemmer of the index may have cut off a word of another language.
_CUT_OFF = ("", "s", "e", "es", "ed", "ing", "ment", "ement", "ation", "ion")


def tokens(text: str, language: str = DEFAULT) -> list[str]:
    """The stemmed words of any text, in order."""
    text = storable(text[:_LONGEST_TEXT])
    if unspaced(text):
        return [word for word, _ in _cut(text, language)]
    porter = language == DEFAULT
    found = _tokenizer(porter=porter)(
        text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
    )
    words = cast("list[str]", found)
    return words if porter else [stem(word, language) for word in words]


def says_name(text: str, name: str) -> bool:
    """Whether a text has a name as a word of its own, be it with an ending (Clara's, Claras), in any case."""
    if unspaced(name):
        return name in text
    ending = r"\w?" if len(name) > _SHORTEST_BEGINNING else "s?"
    return (
        re.search(rf"(?<!\w){re.escape(name)}(?:['\u2019]s|{ending})(?!\w)", text, re.IGNORECASE) is not None
    )


def forms(text: str, language: str = DEFAULT) -> dict[str, str]:
    """Each stemmed word of a text with the first form in which it was written.

    The index stems what it is asked for, and stemming twice is not stemming once: ask with the form.
    """
    found: dict[str, str] = {}
    for word, form in _cut(storable(text), language):
        found.setdefault(word, form)
    return found


class Words(NamedTuple):
    """A text's stemmed words, in order, and each once."""

    order: list[str]
    distinct: frozenset[str]

    def count_pairs(self, pairs: Iterable[tuple[str, str]]) -> int:
        """Count which of the pairs of words it holds, one right behind the other."""
        distinct = self.distinct
        held = {pair for pair in pairs if pair[0] in distinct and pair[1] in distinct}
        return len(held.intersection(pairwise(self.order))) if held else 0


@lru_cache(maxsize=4096)
def split_words(text: str, language: str = DEFAULT) -> Words:
    """Cut a text into its words. What was asked about lately is remembered: talk stays on a topic."""
    words = tokens(text, language)
    return Words(words, frozenset(words))


@lru_cache(maxsize=16384)
def names_time_or_number(text: str, language: str = DEFAULT) -> tuple[bool, bool]:
    """Tell whether a text names a time, and whether it names a number: its own language tells."""
    own = detect(text, language)
    said = split_words(text, language).distinct if own == language else set(tokens(text, own))
    digits = [word for word in said if word.isdigit()] if may_hold_digit(text) else []
    names_time = not _time_words(own).isdisjoint(said) or any(len(word) == 4 for word in digits)
    return names_time, bool(digits) or not _number_words(own).isdisjoint(said)


def may_hold_digit(text: str) -> bool:
    """Whether a text may hold a digit of any script: sooner told than found."""
    return _DIGIT.search(text) is not None


@cache
def _time_words(language: str) -> frozenset[str]:
    return frozenset(tokens(" ".join(lexicon(language).time_words), language))


@cache
def _number_words(language: str) -> frozenset[str]:
    return frozenset(tokens(" ".join(lexicon(language).number_words), language))


@cache
def function_words(language: str = DEFAULT, *others: str) -> frozenset[str]:
    """Words that carry no content, in a language and in others, as the first language stems them.

    Questions are made of these; alone they find everything and tell nothing apart.
    """
    return frozenset(
        word
        for code in (language, *others)
        for word in tokens(" ".join(lexicon(code).function_words), language)
    )


def unspaced(text: str) -> bool:
    """Whether a text holds words of a script that puts no spaces between them."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def _cut(text: str, language: str) -> Iterator[tuple[str, str]]:
    """Each word of a text: its stem, and as it was written."""
    data = text.encode()
    porter = language == DEFAULT
    cut = _tokenizer(porter=porter)(data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
    for start, end, word in cast("list[tuple[int, int, str]]", cut):
        form = data[start:end].decode(errors="replace")
        if unspaced(word):
            yield from _pairs(form.lower(), language)
        else:
            yield (word if porter else stem(word, language)), form


def _pairs(run: str, language: str) -> Iterator[tuple[str, str]]:
    """A run of letters without spaces, cut into overlapping pairs: most words have two."""
    end = 0
    for match in _UNSPACED.finditer(run):
        yield from _between(run[end : match.start()], language)
        piece = match[0]
        for start in range(max(1, len(piece) - 1)):
            yield piece[start : start + 2], piece[start : start + 2]
        end = match.end()
    yield from _between(run[end:], language)


def _between(piece: str, language: str) -> Iterator[tuple[str, str]]:
    if piece:
        yield stem(piece, language), piece


def _tokenizer(*, porter: bool) -> apsw.FTS5Tokenizer:
    # A tokenizer belongs to a connection and a connection to one thread at a time.
    found: dict[bool, apsw.FTS5Tokenizer] | None = getattr(_local, "tokenizers", None)
    if found is None:
        _local.connection = connection = apsw.Connection(":memory:")
        found = _local.tokenizers = {
            True: connection.fts5_tokenizer("porter", ["unicode61"]),
            # Stemmers need the accents.
            False: connection.fts5_tokenizer("unicode61", ["remove_diacritics", "0"]),
        }
    return found[porter]


def spellings(
    connection: apsw.Connection, index: Index, term: str, form: str, language: str
) -> tuple[str, ...]:
    """What to ask an index for, to find a word in any of its forms; the word itself comes first."""
    if unspaced(form):
        # Summaries have no such index: they are few, and found by meaning.
        return () if index == "summaries" else _trigrams(connection, index, form)
    if language == DEFAULT:
        return (form,)
    beginning = _common(fold(form.lower()), term)
    if len(beginning) < _SHORTEST_BEGINNING:
        return (form,)
    # The stem is often a form too, and the index may have cut it shorter still.
    found = dict.fromkeys([form, term] if stem(term, language) == term else [form])
    for known in _beginning(connection, f"{index}_words_beginning", beginning, _MOST_LOOKED_AT):
        if len(found) >= _MOST_SPELLINGS:
            break
        spelling = _spelling(known, term, language)
        if spelling is not None:
            found[spelling] = None
    return tuple(found)


def _spelling(known: str, term: str, language: str) -> str | None:
    """A form of the term that the index keeps as `known`; None if that is another word."""
    for ending in _CUT_OFF:
        written = known + ending
        if stem(written, language) == term and tokens(written) == [known]:
            return written
    return None


def _trigrams(connection: apsw.Connection, index: Index, form: str) -> tuple[str, ...]:
    return tuple(_beginning(connection, f"{index}_unspaced_beginning", form, _MOST_SPELLINGS))


def _beginning(connection: apsw.Connection, statement: str, beginning: str, most: int) -> Iterator[str]:
    given = {"first": beginning, "last": beginning + chr(0x10FFFF), "limit": most}
    for row in connection.execute(SQL[statement], given):
        yield cast("str", row[0])


def _common(one: str, other: str) -> str:
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return one[:length]


def token_count(text: str) -> int:
    """About how many tokens a model reads for it."""
    return 1 + len(text) // _CHARACTERS_A_TOKEN
