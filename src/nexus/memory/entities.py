"""Entities: made and described, with their aliases."""

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Final, cast

import apsw

from nexus import ids
from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.ledgers.sql import rows
from nexus.ledgers.text import storable
from nexus.memory import aliases, candidates
from nexus.memory.aliases import Alias
from nexus.memory.arguments import Arguments
from nexus.memory.candidates import Added, Candidate, Signs
from nexus.memory.normalisation import NAME, normalize
from nexus.memory.references import OWN_ID, resolve
from nexus.memory.writing import Scope, Step, storable_or_none

UNKNOWN_TYPE: Final = "Unknown"
DESCRIBE_EXAMPLE: Final = (
    'memory-write.sh describe --entity "Sarah Chen" --summary "Leads the timeline project"'
)


@dataclass(kw_only=True, slots=True)
class AddEntity(Step):
    """Make an entity with its aliases, and see which others it may be. It is never merged by itself.

    With an id of the writer's own it is made once: written again, it gains the aliases that are new.
    """

    writes_identity: ClassVar[bool] = True

    id: str
    name: str
    type: str
    aliases: tuple[Alias, ...]
    summary: str | None
    metadata_json: str
    event_id: str | None
    source_type: str | None
    candidates: list[Candidate] = field(default_factory=list[Candidate])

    @property
    def makes(self) -> list[tuple[str, str]]:
        return [("entity", self.id)]

    def in_identity(self, connection: apsw.Connection, scope: Scope) -> None:
        self._put(connection, scope)
        event_id = self.event_id or scope.provenance.event_id
        added = [
            aliases.add(connection, self.id, alias, self.source_type, event_id, scope.phone_region)
            for alias in self._all_aliases()
        ]
        _ensure_person(connection, self.id, self.type, self.name, scope.now)
        self.candidates = candidates.note(connection, self.id, added, scope.alike.get(self.id, {}), scope.now)

    def signs(self, connection: apsw.Connection, phone_region: str) -> Signs:
        """Find what would speak for its being one of the known entities, before it is made."""
        given = [
            Added(
                id="",
                type=alias.type,
                normalized=normalize(alias.text, alias.type, phone_region=phone_region),
                is_new=True,
            )
            for alias in self._all_aliases()
        ]
        return candidates.signs(connection, self.id, given, {})

    def _all_aliases(self) -> list[Alias]:
        return list(dict.fromkeys((Alias(text=self.name, type=NAME), *self.aliases)))

    def _put(self, connection: apsw.Connection, scope: Scope) -> None:
        queries = sql.queries("identity")
        values = {
            "id": self.id,
            "type": storable(self.type),
            "name": storable(self.name),
            "normalized": normalize(self.name),
            "summary": storable_or_none(self.summary),
            "event": self.event_id or scope.provenance.event_id,
            "metadata": self.metadata_json,
            "now": scope.now,
            "scope": scope.provenance.scope,
        }
        known = rows(connection, queries["entity_state"], (self.id,))
        if not known:
            connection.execute(queries["add_entity"], values)
        elif known[0][1]:
            connection.execute(queries["describe_entity"], values)
        elif known[0][0] != values["normalized"]:
            raise UsageError(
                f"There is an entity {self.id!r} of another name already",
                hint="Leave `id` out to make a new entity, or add to that one with `alias` and `fact`.",
            )

    def answer(self) -> dict[str, Any]:
        told = {
            "id": self.id,
            "name": self.name,
            "type": self.type,
            "candidates": [asdict(candidate) for candidate in self.candidates],
        }
        if not self.candidates:
            return told
        merge = f"memory-write.sh merge --source {self.id} --target {self.candidates[0].entity_id}"
        return told | {"advice": f"If it is one of the candidates, make them one: {merge}"}


@dataclass(kw_only=True, slots=True)
class DescribeEntity(Step):
    """Change an entity's name, type or summary. What was learned about it is not touched.

    Its former name stays an alias.
    """

    writes_identity: ClassVar[bool] = True

    entity: str
    type: str | None
    summary: str | None
    name: str | None = None
    entity_id: str = ""

    @property
    def makes(self) -> list[tuple[str, str]]:
        return [("entity", self.entity_id)]

    def in_identity(self, connection: apsw.Connection, scope: Scope) -> None:
        self.entity_id = resolve(connection, self.entity, scope)
        values = {
            "id": self.entity_id,
            "type": storable_or_none(self.type),
            "summary": storable_or_none(self.summary),
            "name": storable_or_none(self.name),
            "normalized": None if self.name is None else normalize(self.name),
            "now": scope.now,
        }
        if self.name is not None:
            self._rename(connection, self.name, scope)
        type_, name = rows(connection, sql.queries("identity")["redescribe_entity"], values)[0]
        _ensure_person(connection, self.entity_id, type_, name, scope.now)

    def _rename(self, connection: apsw.Connection, name: str, scope: Scope) -> None:
        queries = sql.queries("identity")
        former = cast("str", connection.execute(queries["name_of"], (self.entity_id,)).get)
        for each in dict.fromkeys((former, name)):
            alias = Alias(text=each, type=NAME)
            aliases.add(
                connection, self.entity_id, alias, None, scope.provenance.event_id, scope.phone_region
            )
        connection.execute(queries["rename_person"], (storable(name), self.entity_id))

    def answer(self) -> dict[str, Any]:
        return {"id": self.entity_id}


def parse(arguments: Arguments) -> AddEntity:
    """`entity`: name, and optionally id, type, alias, summary, metadata, source_type, event."""
    name = arguments.require("name")
    if not normalize(name):
        raise arguments.error(f"{name!r} is not a name")
    id_ = arguments.text("id")
    if id_ is not None and not OWN_ID.fullmatch(id_):
        raise arguments.error(f"{id_!r} is not a valid id: use lowercase letters, digits, and . _ : -")
    return AddEntity(
        id=id_ or ids.new("ent"),
        name=name,
        type=arguments.text("type") or UNKNOWN_TYPE,
        aliases=aliases.parse_list(arguments),
        summary=arguments.text("summary"),
        metadata_json=arguments.json_object("metadata"),
        event_id=arguments.text("event"),
        source_type=arguments.text("source_type"),
    )


def parse_describe(arguments: Arguments) -> DescribeEntity:
    """`describe`: entity, and name, type or summary."""
    step = DescribeEntity(
        entity=arguments.require("entity"),
        type=arguments.text("type"),
        summary=arguments.text("summary"),
        name=arguments.text("name"),
    )
    if step.type is None and step.summary is None and step.name is None:
        raise arguments.error("`describe` needs `name`, `type` or `summary`")
    if step.name is not None and not normalize(step.name):
        raise arguments.error(f"{step.name!r} names nothing")
    return step


def _ensure_person(connection: apsw.Connection, entity_id: str, type_: str, name: str, now: str) -> None:
    if type_.casefold() == "person":
        values = {"id": ids.new("per"), "entity": entity_id, "name": storable(name), "now": now}
        connection.execute(sql.queries("identity")["ensure_person"], values)
