"""Which people and things a question names: by any of their aliases, and by one written with a slip."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import cast

import apsw
from rapidfuzz.distance import OSA

from nexus.memory.blocking import keys
from nexus.memory.languages import DEFAULT
from nexus.memory.recall.question import Question
from nexus.memory.recall.statements import SQL
from nexus.memory.recall.words import tokens

_LONGEST_ALIAS_WORDS = 4
_NO_NAMES = frozenset({"i", "me", "my", "you", "the", "a"})
# A slip is one letter too many, too few, wrong or swapped, and not at the beginning. In a shorter word it
# makes another word.
_SHORTEST_SLIP = 4
_SURE_LETTERS = 2
_COMPARED = 500


@dataclass(frozen=True, slots=True)
class Named:
    """An entity that a question names."""

    name: str
    words: frozenset[str] = frozenset()  # the stemmed words of the question that name it


def entities_named(connection: apsw.Connection, question: Question) -> dict[str, Named]:
    """The entities that the question names by an alias, and those that are one with them, by id."""
    words = [word.strip(".,;:!?\"'()[]").removesuffix("'s") for word in question.text.lower().split()]
    spans = {
        " ".join(words[i : i + n])
        for n in range(1, _LONGEST_ALIAS_WORDS + 1)
        for i in range(len(words) - n + 1)
    }
    names = [span for span in spans if span and span not in _NO_NAMES]
    rows = connection.execute(SQL["aliases"], (json.dumps(names),))
    said = [(str(row[0]), str(row[1]), str(row[2])) for row in rows]
    return _with_families(connection, _collected(said, question.language))


def entities_misspelt(
    connection: apsw.Connection, words: Collection[str], language: str = DEFAULT
) -> dict[str, Named]:
    """The entities of which one of the words is an alias but for a slip."""
    found: list[tuple[str, str, str]] = []
    for word in (word.lower() for word in words if len(word) >= _SHORTEST_SLIP):
        given = {
            "keys": json.dumps(sorted(keys(word))),
            "shortest": len(word) - 1,
            "longest": len(word) + 1,
            "limit": _COMPARED,
        }
        rows = cast("Iterable[tuple[str, str, str]]", connection.execute(SQL["near_aliases"], given))
        found += [(word, entity_id, name) for alias, entity_id, name in rows if _is_slip(word, alias)]
    return _with_families(connection, _collected(found, language))


def narrowed_to(connection: apsw.Connection, entity: str) -> dict[str, Named]:
    """The entity of that id or name, and those that are one with it."""
    rows = connection.execute(SQL["aliases"], (json.dumps([entity.lower().strip()]),))
    named = {str(row[1]): Named(str(row[2])) for row in rows}
    return _with_families(connection, named or {entity: Named("")})


def _is_slip(word: str, alias: str) -> bool:
    alike = word[:_SURE_LETTERS] == alias[:_SURE_LETTERS]
    return alike and OSA.distance(word, alias, score_cutoff=1) <= 1


def _collected(rows: Iterable[tuple[str, str, str]], language: str) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for said, entity_id, name in rows:
        before = found[entity_id].words if entity_id in found else frozenset[str]()
        found[entity_id] = Named(name, before | frozenset(tokens(said, language)))
    return found


def _with_families(connection: apsw.Connection, found: dict[str, Named]) -> dict[str, Named]:
    family = connection.execute(SQL["families"], (json.dumps(list(found)),))
    return found | {str(row[1]): found[str(row[0])] for row in family}
