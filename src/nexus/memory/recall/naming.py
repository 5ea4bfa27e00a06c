"""Which people and things a question names: by any of their aliases, and by one written with a slip."""

import json
from collections.abc import Collection, Iterable
from typing import cast

import apsw
from rapidfuzz.distance import OSA

from nexus.memory.candidates import blocking_keys
from nexus.memory.languages import DEFAULT
from nexus.memory.recall.item import Named
from nexus.memory.recall.question import Question
from nexus.memory.recall.reading import SQL
from nexus.memory.recall.words import tokens

_LONGEST_ALIAS_WORDS = 4
_NO_NAMES = frozenset({"", "i", "me", "my", "you", "the", "a"})
_AROUND = ".,;:!?\"'()[]¿¡«»„“”"
# A slip is one letter too many, too few, wrong or swapped, and not at the beginning. In a shorter word it
# makes another word.
_SHORTEST_SLIP = 4
_SURE_LETTERS = 2
_COMPARED = 500


def entities_named(connection: apsw.Connection, question: Question) -> dict[str, Named]:
    """The entities that the question names by an alias, and those that are one with them, by id."""
    rows = connection.execute(SQL["aliases"], (json.dumps(sorted(spans(question.text))),))
    said = [(str(row[0]), str(row[1]), str(row[2])) for row in rows]
    return with_families(connection, _collected(said, question.language, "name"))


def spans(text: str, *, capitalized: bool = False) -> set[str]:
    """Whatever in a text may be a name: its words and short runs of them, as aliases are matched."""
    words = [word.strip(_AROUND) for word in text.replace("\u2019", "'").split()]
    words = [word.removesuffix("'s").removesuffix("'") for word in words]
    found = {
        " ".join(words[i : i + n])
        for n in range(1, _LONGEST_ALIAS_WORDS + 1)
        for i in range(len(words) - n + 1)
        if not capitalized or words[i][:1].isupper()
    }
    # German: Johannas Bruder.
    found |= {word[:-1] for word in words if word.endswith("s") and word[:1].isupper()}
    return {span.lower() for span in found} - _NO_NAMES


def aliases_of(connection: apsw.Connection, names: Iterable[str]) -> dict[str, frozenset[str]]:
    """The entities that each of the names stands for; names that stand for none are left out."""
    found: dict[str, frozenset[str]] = {}
    for said, id_, _ in connection.execute(SQL["aliases"], (json.dumps(sorted(names)),)):
        found[str(said)] = found.get(str(said), frozenset()) | {str(id_)}
    return found


def entities_misspelt(
    connection: apsw.Connection, words: Collection[str], language: str = DEFAULT
) -> dict[str, Named]:
    """The entities of which one of the words is an alias but for a slip."""
    found: list[tuple[str, str, str]] = []
    for word in (word.lower() for word in words if len(word) >= _SHORTEST_SLIP):
        given = {
            "keys": json.dumps(sorted(blocking_keys(word))),
            "shortest": len(word) - 1,
            "longest": len(word) + 1,
            "limit": _COMPARED,
        }
        rows = cast("Iterable[tuple[str, str, str]]", connection.execute(SQL["near_aliases"], given))
        found += [(word, entity_id, name) for alias, entity_id, name in rows if _is_slip(word, alias)]
    return with_families(connection, _collected(found, language, "slip"))


def narrowed_to(connection: apsw.Connection, entity: str) -> dict[str, Named]:
    """The entity of that id or name, and those that are one with it."""
    rows = connection.execute(SQL["aliases"], (json.dumps([entity.lower().strip()]),))
    named = {str(row[1]): Named(str(row[2]), via="filter", said=entity) for row in rows}
    return with_families(connection, named or {entity: Named("", via="filter", said=entity)})


def _is_slip(word: str, alias: str) -> bool:
    alike = word[:_SURE_LETTERS] == alias[:_SURE_LETTERS]
    return alike and OSA.distance(word, alias, score_cutoff=1) <= 1


def _collected(rows: Iterable[tuple[str, str, str]], language: str, via: str) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for said, entity_id, name in rows:
        before = found.get(entity_id)
        words = frozenset(tokens(said, language)) | (before.words if before else frozenset[str]())
        found[entity_id] = Named(name, words, via, before.said if before else said)
    return found


def with_families(connection: apsw.Connection, found: dict[str, Named]) -> dict[str, Named]:
    """Them, and every entity that is one with one of them."""
    family = connection.execute(SQL["families"], (json.dumps(list(found)),))
    return found | {str(row[1]): found[str(row[0])] for row in family}
