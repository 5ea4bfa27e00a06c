"""People: how they are reached on each channel, and hard facts about them with who said so."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final, cast

import apsw

from nexus import clock, ids
from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.ledgers.sql import rows
from nexus.ledgers.text import storable
from nexus.memory.arguments import Arguments
from nexus.memory.merging import root
from nexus.memory.normalisation import guess_type, normalize
from nexus.memory.references import resolve
from nexus.memory.writing import Scope, Step, storable_or_none

CONTACT_EXAMPLE: Final = (
    'memory-write.sh contact --entity "Sarah Chen" --channel email --identifier sarah.chen@company.com'
)
PERSON_FACT_EXAMPLE: Final = (
    'memory-write.sh person-fact --entity "Sarah Chen" --category personal --type birthday --value 1990-04-01'
)


@dataclass(kw_only=True, slots=True)
class AddContact(Step):
    """Record an address of an entity on a channel. One that the channel has is tied to the entity."""

    writes_identity: ClassVar[bool] = True

    id: str
    entity: str
    channel: str
    identifier: str
    type: str
    display_name: str | None
    confidence: float
    source_type: str | None
    entity_id: str = ""

    def in_identity(self, connection: apsw.Connection, scope: Scope) -> None:
        queries = sql.queries("identity")
        self.entity_id = resolve(connection, self.entity, scope)
        normalized = normalize(self.identifier, self.type, phone_region=scope.phone_region)
        known = rows(connection, queries["contact_by_identifier"], (self.channel, normalized))
        owner = known[0][1] if known else None
        if owner and root(connection, owner) != root(connection, self.entity_id):
            raise UsageError(
                f"{self.identifier!r} on {self.channel} is a contact of {owner}",
                hint=f"Merge the two entities if they are one: {owner} and {self.entity_id}.",
            )
        if known:
            self.id = known[0][0]
            connection.execute(queries["tie_contact"], (self.entity_id, scope.now, self.id))
        else:
            name = storable_or_none(self.display_name)
            contact = (self.id, self.entity_id, self.channel, name, scope.now)
            connection.execute(queries["add_contact"], contact)
            identifier = (self.id, self.channel, self.type, storable(self.identifier), normalized, scope.now)
            connection.execute(queries["add_contact_identifier"], identifier)
        link = (self.id, self.confidence, self.source_type, scope.now, self.entity_id)
        connection.execute(queries["link_person_contact"], link)

    def answer(self) -> dict[str, Any]:
        return {"id": self.id, "entity_id": self.entity_id}


@dataclass(kw_only=True, slots=True)
class AddPersonFact(Step):
    """Record a hard fact about a person. An older one with another value stays beside it."""

    writes_identity: ClassVar[bool] = True

    id: str
    entity: str
    category: str
    type: str
    value: str
    confidence: float
    source_type: str | None
    event_id: str | None
    as_of: datetime | None = None
    person_id: str = ""

    def in_identity(self, connection: apsw.Connection, scope: Scope) -> None:
        queries = sql.queries("identity")
        entity_id = resolve(connection, self.entity, scope)
        person = connection.execute(queries["person_of_entity"], (entity_id,)).get
        if person is None:
            raise UsageError(
                f"{self.entity!r} is not a person",
                hint=f"Use `fact` for what is known of other things: {entity_id}.",
            )
        self.person_id = cast("str", person)
        event_id = self.event_id or scope.provenance.event_id
        connection.execute(
            queries["add_person_fact"],
            (
                self.id,
                self.person_id,
                self.category,
                self.type,
                storable(self.value),
                self.confidence,
                self.source_type,
                event_id,
                scope.now,
                clock.timestamp(self.as_of) if self.as_of else None,
            ),
        )
        connection.execute(queries["touch_entity"], (scope.now, entity_id))

    def answer(self) -> dict[str, Any]:
        return {"id": self.id, "person_id": self.person_id}


def parse_contact(arguments: Arguments) -> AddContact:
    """`contact`: entity, channel and identifier, and optionally type, display_name, …"""
    identifier = arguments.require("identifier")
    return AddContact(
        id=ids.new("con"),
        entity=arguments.require("entity"),
        channel=arguments.require("channel"),
        identifier=identifier,
        type=arguments.text("type") or guess_type(identifier),
        display_name=arguments.text("display_name"),
        confidence=arguments.share("confidence"),
        source_type=arguments.text("source_type"),
    )


def parse_person_fact(arguments: Arguments) -> AddPersonFact:
    """`person-fact`: entity, category, type and value, and optionally as_of, confidence, …"""
    return AddPersonFact(
        id=ids.new("pfa"),
        entity=arguments.require("entity"),
        category=arguments.require("category"),
        type=arguments.require("type"),
        value=arguments.require("value"),
        confidence=arguments.share("confidence"),
        source_type=arguments.text("source_type"),
        event_id=arguments.text("event"),
        as_of=arguments.moment("as_of"),
    )
