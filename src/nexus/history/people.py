"""Who took part: participants of an import, resolved to entities by the memory's own rules.

Somebody is known by an address, a number or a handle that an entity goes by. An unknown one becomes an
entity, and the memory notes which others it may be; nothing is merged. No contact is made: an import must
not decide from whom live messages are believed to come.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

import apsw

from nexus.errors import UsageError
from nexus.history.items import Card, Person
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.senders import Seen
from nexus.memory.normalisation import normalize
from nexus.memory.operations import Memory
from nexus.memory.writing import Provenance

OWNER: Final = "owner"
_REMEMBERED: Final = 50_000
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class Met:
    """Somebody, and the message in which they were met."""

    person: Person
    event_id: str


class People:
    """The entities of an import's participants. It remembers the latest ones."""

    def __init__(self, ledgers: Ledgers, memory: Memory, import_id: str, phone_region: str = "") -> None:
        self._ledgers = ledgers
        self._memory = memory
        self._provenance = Provenance(actor=f"import {import_id}", kind="owner")
        self._phone_region = phone_region
        self._known: OrderedDict[tuple[str, str], str | None] = OrderedDict()
        self.owner_id = ""

    async def open(self) -> None:
        """Look up the owner, who is made if this home has none yet."""
        seen = Seen(channel="cli", identifier=OWNER, is_owner=True)
        found = await self._ledgers.identity.write(senders.resolve, seen)
        self.owner_id = found.entity_id

    def entity_of(self, person: Person) -> str | None:
        """The entity of somebody whom `meet` has seen."""
        return self._known.get(self._key(person))

    async def meet(self, met: Iterable[Met]) -> None:
        """Find or make the entities of these people."""
        new: dict[tuple[str, str], Met] = {}
        for each in met:
            key = self._key(each.person)
            if key in self._known:
                self._known.move_to_end(key)
            elif not each.person.is_automated:
                new.setdefault(key, each)
        if not new:
            return
        found = await self._ledgers.identity.read(_found, list(new))
        unknown = [(key, each) for key, each in new.items() if key not in found and key[1]]
        found |= await self._made(unknown)
        for key in new:
            self._known[key] = found.get(key)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    async def describe(self, card: Card, event_id: str) -> str | None:
        """Record whom a contact card describes; returns the entity, or None if the memory refuses it."""
        aliases = [{"alias": _plain(text), "type": type_} for text, type_ in card.aliases]
        keys = [
            (type_, normalize(text, type_, phone_region=self._phone_region)) for text, type_ in card.aliases
        ]
        found = await self._ledgers.identity.read(_found, keys)
        known = next(iter(found.values()), None)
        try:
            if known is None:
                entity = {"name": _plain(card.name), "type": "Person", "alias": aliases, "event": event_id}
                known = str((await self._memory.run("entity", entity, self._provenance))["id"])
            elif aliases:
                given = {"entity": known, "alias": aliases, "event": event_id}
                await self._memory.run("alias", given, self._provenance)
            await self._add_facts(known, card, event_id)
        except UsageError:
            return known
        return known

    async def _add_facts(self, entity_id: str, card: Card, event_id: str) -> None:
        facts = [
            {"entity": entity_id, "category": category, "type": type_, "value": value, "event": event_id}
            for category, type_, value in card.facts
        ]
        for fact in facts:
            await self._memory.run("person-fact", fact, self._provenance)

    async def _made(self, unknown: list[tuple[tuple[str, str], Met]]) -> dict[tuple[str, str], str]:
        if not unknown:
            return {}
        operations = [_entity(each) for _, each in unknown]
        try:
            written = await self._memory.run("batch", operations, self._provenance)
        except UsageError:
            if len(unknown) == 1:
                return {}  # the memory refuses the name, such as one that is a secret
            half = len(unknown) // 2
            return {**await self._made(unknown[:half]), **await self._made(unknown[half:])}
        results = cast("list[dict[str, Any]]", written["results"])
        return {key: str(result["id"]) for (key, _), result in zip(unknown, results, strict=True)}

    def _key(self, person: Person) -> tuple[str, str]:
        return person.kind, normalize(_plain(person.identifier), person.kind, phone_region=self._phone_region)


def _entity(met: Met) -> dict[str, Any]:
    person = met.person
    name = _plain(person.name or "")
    if not normalize(name):
        name = _plain(person.identifier.rpartition("/")[2] or person.identifier)
    return {
        "operation": "entity",
        "name": name,
        "type": "Person",
        "alias": [{"alias": _plain(person.identifier), "type": person.kind}],
        "event": met.event_id,
        "source_type": "observed",
    }


def _plain(text: str) -> str:
    """A colon would end an alias, as in `Sarah:name`."""
    return " ".join(text.replace(":", "·").split())[:_LONGEST_NAME]


def _found(connection: apsw.Connection, keys: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    query = sql.queries("identity")["root_by_alias"]
    found = {key: connection.execute(query, key).get for key in keys}
    return {key: cast("str", id_) for key, id_ in found.items() if id_ is not None}
