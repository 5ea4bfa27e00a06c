"""Senders in the identity ledger: whom a channel's identifier belongs to. An unknown one becomes somebody.

Rights hang on identifiers, so they match exactly: `SAM` and `sam` may be two people. A channel whose
identifiers have several spellings, such as email, gives one of them.
"""

from dataclasses import dataclass
from typing import cast

import apsw

from nexus import ids
from nexus.ledgers import sql
from nexus.ledgers.text import storable


@dataclass(frozen=True, kw_only=True, slots=True)
class Sender:
    """Who sent something."""

    entity_id: str
    contact_id: str
    is_owner: bool
    is_new: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """How a channel names somebody, and where that was first seen."""

    channel: str
    identifier: str
    display_name: str | None = None
    event_id: str | None = None
    is_owner: bool = False
    """Whether the channel is the owner's own terminal. Never taken from what a message says."""


def find(connection: apsw.Connection, channel: str, identifier: str) -> Sender | None:
    """Return whom an identifier belongs to."""
    values = {"channel": channel, "normalized": storable(identifier)}
    row = connection.execute(sql.queries("identity")["sender"], values).fetchone()
    if row is None:
        return None
    entity_id, contact_id, is_owner = cast("tuple[str, str, int]", row)
    return Sender(entity_id=entity_id, contact_id=contact_id, is_owner=bool(is_owner))


def resolve(connection: apsw.Connection, seen: Seen) -> Sender:
    """Return whom an identifier belongs to; an unknown one gets an entity and a contact.

    One that turns out to be the owner's becomes theirs. Whom it belonged to before keeps their memories.
    """
    found = find(connection, seen.channel, seen.identifier)
    if found is not None and (found.is_owner or not seen.is_owner):
        return found
    queries = sql.queries("identity")
    owner = connection.execute(queries["owner"]).get if seen.is_owner else None
    name = storable(seen.display_name or ("Owner" if seen.is_owner else seen.identifier))
    entity_id = cast("str | None", owner) or _new_entity(connection, seen, name)
    person = {"id": ids.new("per"), "entity_id": entity_id, "name": name, "is_owner": int(seen.is_owner)}
    connection.execute(queries["add_sender_person"], person)
    contact_id = _contact(connection, seen, entity_id, name)
    connection.execute(queries["link_sender"], {"entity_id": entity_id, "contact_id": contact_id})
    return Sender(entity_id=entity_id, contact_id=contact_id, is_owner=seen.is_owner, is_new=True)


def find_named(connection: apsw.Connection, text: str) -> list[tuple[str, str]]:
    """Return the entities that somebody means by an id or a name: their ids and names."""
    values = {"text": text, "normalized": normalize_name(text)}
    rows = connection.execute(sql.queries("identity")["named_entities"], values).fetchall()
    return cast("list[tuple[str, str]]", rows)


def normalize_name(text: str) -> str:
    """Return a name as it is matched."""
    return " ".join(storable(text).casefold().split())


def _new_entity(connection: apsw.Connection, seen: Seen, name: str) -> str:
    entity_id = ids.new("ent")
    values = {"id": entity_id, "name": name, "normalized": normalize_name(name), "event_id": seen.event_id}
    connection.execute(sql.queries("identity")["add_sender_entity"], values)
    return entity_id


def _contact(connection: apsw.Connection, seen: Seen, entity_id: str, name: str) -> str:
    """Find or make a contact. One that is known without anybody behind it is theirs from now on."""
    queries = sql.queries("identity")
    key = {"channel": seen.channel, "normalized": storable(seen.identifier)}
    known = cast("str | None", connection.execute(queries["contact_of"], key).get)
    if known is not None:
        connection.execute(queries["adopt_contact"], {"entity_id": entity_id, "contact_id": known})
        return known
    contact_id = ids.new("con")
    values = {"id": contact_id, "entity_id": entity_id, "channel": seen.channel, "name": name}
    connection.execute(queries["add_sender_contact"], values)
    identifier = {**key, "contact_id": contact_id, "identifier": storable(seen.identifier)}
    connection.execute(queries["add_sender_identifier"], identifier)
    return contact_id
