"""How the words of a question are spelled in a full-text index.

The index stems every text as English, so that one index serves any mix of languages and the plain
`sqlite3` program can read it. For a question in another language, the index's vocabulary is asked for
the words that begin like the question's and have the same stem: "Häuser" also asks for "Haus". In a
script without spaces, a pair of characters asks for every run of three that begins with it.
"""

from collections.abc import Iterator
from typing import Literal, cast

import apsw

from nexus.memory.languages import DEFAULT, fold, stem
from nexus.memory.recall.statements import SQL
from nexus.memory.recall.words import tokens, unspaced

Index = Literal["events", "facts", "summaries"]

# Fewer letters begin too many words.
_SHORTEST_BEGINNING = 3
_MOST_LOOKED_AT = 400
_MOST_SPELLINGS = 24
# What the English stemmer of the index may have cut off a word of another language.
_CUT_OFF = ("", "s", "e", "es", "ed", "ing", "ment", "ement", "ation", "ion")


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
