"""Entities that may be meant by the names in a turn: looked up beforehand, so that none is made twice."""

import json
from collections.abc import Iterable

import apsw

from nexus.ledgers import sql
from nexus.memory.references import called

_MOST = 30


def entities(connection: apsw.Connection, names: Iterable[str]) -> list[str]:
    """One line for each entity that goes by one of the names, or by a word of it."""
    forms = dict.fromkeys(form for name in names for form in (name, *name.split()))
    found = dict.fromkeys(id_ for form in forms for id_ in called(connection, form))
    ids = json.dumps(list(found)[:_MOST])
    rows = connection.execute(sql.queries("identity")["told_of"], (ids,)).fetchall()
    return [f"{id_} {name} ({type_})" for id_, name, type_ in rows]


def met_in(connection: apsw.Connection, event_ids: Iterable[str]) -> bool:
    """Whether some events taught a name or an address."""
    found = connection.execute(sql.queries("identity")["named_in"], (json.dumps(list(event_ids)),)).get
    return bool(found)
