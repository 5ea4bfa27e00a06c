"""Find names in what was said, and the entities that go by them, so that none is made twice."""

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import apsw

from nexus.ledgers import sql
from nexus.memory.languages import DEFAULT
from nexus.memory.languages.dates import list_month_names, list_weekday_names
from nexus.memory.languages.lexicon import words
from nexus.memory.references import find_called

if TYPE_CHECKING:
    from nexus.roles.memory_writer.turns import Message

EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_CAPITALISED = re.compile(r"(?<![\w@.])[^\W\d_a-z][\w\u2019'-]*(?:\s+[^\W\d_a-z][\w\u2019'-]*)*")
_SENTENCE_END = re.compile(r"(?:[.!?:;\n…]|[\"\u201c(])\s*$|(?:^|\n)\s*[-*>]\s*$")
# What stands before a word tells whether it begins a sentence; further back nothing does.
_BEFORE = 8
# A log pasted into a chat names nobody after its first part.
_LONGEST = 20_000
_POSSESSIVE = re.compile(r"['\u2019]s?$")
# Written with a capital without naming anybody, as are months and weekdays.
_NO_NAMES = words("""
i i'm i'd i'll ok okay yes no the this that my your it he she we you they and but if
""")
_MOST = 30
_MOST_TOLD = 12


def find_names(text: str) -> list[str]:
    """Find the names in a text, each once, in order. A capital that only starts a sentence is no sign."""
    text = text[:_LONGEST]
    names = dict.fromkeys(EMAIL.findall(text))
    for match in _CAPITALISED.finditer(text):
        words = [_POSSESSIVE.sub("", word) for word in match.group().split()]
        if _begins_sentence(text, match.start()):
            # "Sarah Chen called" names somebody, "The plan" and "Write" do not.
            words = words if len(words) > 1 and not _is_common(words[0]) else words[1:]
        kept = [word for word in words if not _is_common(word)]
        if len("".join(kept)) > 1:
            names[" ".join(kept)] = None
    return list(names)


def _begins_sentence(text: str, start: int) -> bool:
    before = text[max(0, start - _BEFORE) : start]
    is_first = start <= _BEFORE and not before.strip()
    return is_first or _SENTENCE_END.search(before) is not None


def _is_common(word: str) -> bool:
    plain = word.casefold().replace("\u2019", "'")
    return plain in _NO_NAMES or plain in list_month_names(DEFAULT) or plain in list_weekday_names(DEFAULT)


def list_entities(connection: apsw.Connection, names: Iterable[str]) -> list[str]:
    """List the entities that go by one of the names, or by a word of it, with their ids."""
    forms = dict.fromkeys(form for name in names for form in (name, *name.split()))
    found = dict.fromkeys(id_ for form in forms for id_ in find_called(connection, form))
    ids = json.dumps(list(found)[:_MOST])
    rows = connection.execute(sql.queries("identity")["told_of"], (ids,)).fetchall()
    return [f"{id_} {name} ({type_})" for id_, name, type_ in rows]


def load_sender_names(connection: apsw.Connection, messages: Iterable["Message"]) -> dict[str, str]:
    """Load what the senders of some messages are called, by their entities."""
    return load_names(
        connection, sorted({message.sender.entity_id for message in messages if message.sender})
    )


def load_names(connection: apsw.Connection, ids: Iterable[str]) -> dict[str, str]:
    """Load the names of some entities, by their ids."""
    rows = connection.execute(sql.queries("identity")["told_of"], (json.dumps(list(ids)),)).fetchall()
    return {str(id_): str(name) for id_, name, _ in rows}


def describe_entities(connection: apsw.Connection, names: Iterable[str]) -> list[str]:
    """Describe the entities that go by one of the names, as a model sees them: without ids."""
    forms = dict.fromkeys(form for name in names for form in (name, *name.split()))
    ids = json.dumps(
        list(dict.fromkeys(id_ for form in forms for id_ in find_called(connection, form)))[:_MOST_TOLD]
    )
    others: dict[str, list[str]] = {}
    for id_, alias, type_, *_ in connection.execute(sql.queries("identity")["aliases_of"], (ids,)).fetchall():
        if type_ == "name":
            others.setdefault(str(id_), []).append(str(alias))
    lines: list[str] = []
    for id_, name, type_ in connection.execute(sql.queries("identity")["told_of"], (ids,)).fetchall():
        also = [each for each in others.get(str(id_), []) if each != name][:2]
        lines.append(f"{name} ({type_}{', also ' + ' or '.join(also) if also else ''})")
    return lines


def has_names_from(connection: apsw.Connection, event_ids: Iterable[str]) -> bool:
    """Whether some events taught a name or an address."""
    found = connection.execute(sql.queries("identity")["named_in"], (json.dumps(list(event_ids)),)).get
    return bool(found)
