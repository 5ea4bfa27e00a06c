"""Entities that may be meant by the names in a turn: looked up beforehand, so that none is made twice."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import apsw

from nexus.ledgers import sql
from nexus.memory.references import called

if TYPE_CHECKING:
    from nexus.roles.memory_writer.turns import Message

_MOST = 30
_MOST_TOLD = 12


def entities(connection: apsw.Connection, names: Iterable[str]) -> list[str]:
    """One line for each entity that goes by one of the names, or by a word of it."""
    forms = dict.fromkeys(form for name in names for form in (name, *name.split()))
    found = dict.fromkeys(id_ for form in forms for id_ in called(connection, form))
    ids = json.dumps(list(found)[:_MOST])
    rows = connection.execute(sql.queries("identity")["told_of"], (ids,)).fetchall()
    return [f"{id_} {name} ({type_})" for id_, name, type_ in rows]


def names_of(connection: apsw.Connection, messages: Iterable["Message"]) -> dict[str, str]:
    """What the senders of some messages are called, by their entities."""
    return called_by(connection, sorted({message.sender.entity_id for message in messages if message.sender}))


def called_by(connection: apsw.Connection, ids: Iterable[str]) -> dict[str, str]:
    """The names of some entities, by their ids."""
    rows = connection.execute(sql.queries("identity")["told_of"], (json.dumps(list(ids)),)).fetchall()
    return {str(id_): str(name) for id_, name, _ in rows}


def told(connection: apsw.Connection, names: Iterable[str]) -> list[str]:
    """The entities that go by one of the names, as a model is shown them: without ids."""
    forms = dict.fromkeys(form for name in names for form in (name, *name.split()))
    ids = json.dumps(
        list(dict.fromkeys(id_ for form in forms for id_ in called(connection, form)))[:_MOST_TOLD]
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


def met_in(connection: apsw.Connection, event_ids: Iterable[str]) -> bool:
    """Whether some events taught a name or an address."""
    found = connection.execute(sql.queries("identity")["named_in"], (json.dumps(list(event_ids)),)).get
    return bool(found)
