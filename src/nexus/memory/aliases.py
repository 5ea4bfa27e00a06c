"""Aliases: every name, address, number or handle that an entity goes by."""

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Final, cast

import apsw

from nexus import ids
from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.ledgers.sql import rows
from nexus.ledgers.text import storable
from nexus.memory import candidates
from nexus.memory.arguments import Arguments
from nexus.memory.candidates import Added, Candidate
from nexus.memory.normalisation import NAME, normalize, split_type
from nexus.memory.references import resolve
from nexus.memory.writing import Scope, Step

EXAMPLE: Final = 'memory-write.sh alias --entity "Sarah Chen" --alias "@sarahc:handle"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Alias:
    """An alias as it was written."""

    text: str
    type: str
    confidence: float = 1.0


@dataclass(kw_only=True, slots=True)
class AddAliases(Step):
    """Give an entity further aliases, and see whether others have them too."""

    writes_identity: ClassVar[bool] = True

    entity: str
    aliases: tuple[Alias, ...]
    source_type: str | None
    event_id: str | None
    entity_id: str = ""
    added: list[Added] = field(default_factory=list[Added])
    candidates: list[Candidate] = field(default_factory=list[Candidate])

    def in_identity(self, connection: apsw.Connection, scope: Scope) -> None:
        self.entity_id = resolve(connection, self.entity, scope)
        event_id = self.event_id or scope.provenance.event_id
        self.added = [
            add(connection, self.entity_id, alias, self.source_type, event_id, scope.phone_region)
            for alias in dict.fromkeys(self.aliases)
        ]
        new = [alias for alias in self.added if alias.is_new]
        self.candidates = candidates.note(connection, self.entity_id, new, {}, scope.now)

    def answer(self) -> dict[str, Any]:
        return {
            "entity_id": self.entity_id,
            "aliases": [
                {"id": each.id, "type": each.type, "normalized": each.normalized, "new": each.is_new}
                for each in self.added
            ],
            "candidates": [asdict(candidate) for candidate in self.candidates],
        }


def parse(arguments: Arguments) -> AddAliases:
    """`alias`: entity and alias, and optionally source_type and event."""
    entity, found = arguments.require("entity"), parse_list(arguments)
    if not found:
        raise arguments.error("`alias` needs `alias`, such as `@sarahc:handle`")
    return AddAliases(
        entity=entity,
        aliases=found,
        source_type=arguments.text("source_type"),
        event_id=arguments.text("event"),
    )


def add(
    connection: apsw.Connection,
    entity_id: str,
    alias: Alias,
    source_type: str | None,
    event_id: str | None,
    phone_region: str,
) -> Added:
    """Record an alias with the keys that near names are found by. One that the entity has is kept."""
    queries = sql.queries("identity")
    normalized = normalize(alias.text, alias.type, phone_region=phone_region)
    if not normalized:
        raise UsageError(f"{alias.text!r} is no alias", hint=f"For example: {EXAMPLE}")
    key = (entity_id, alias.type, normalized)
    known = connection.execute(queries["alias_id"], key).get
    if known:
        return Added(id=cast("str", known), type=alias.type, normalized=normalized, is_new=False)
    alias_id = ids.new("ali")
    connection.execute(
        queries["add_alias"],
        (
            alias_id,
            entity_id,
            storable(alias.text),
            alias.type,
            normalized,
            alias.confidence,
            source_type,
            event_id,
        ),
    )
    if alias.type == NAME:
        _add_keys(connection, alias_id, normalized)
    return Added(id=alias_id, type=alias.type, normalized=normalized, is_new=True)


def parse_list(arguments: Arguments) -> tuple[Alias, ...]:
    """Parse the argument `alias`: texts such as `Sarah:name`, or objects with `alias` and `type`."""
    return tuple(_parse_one(arguments, item) for item in arguments.items("alias"))


def _parse_one(arguments: Arguments, item: object) -> Alias:
    if isinstance(item, str) and item.strip():
        text, type_ = split_type(item)
        return Alias(text=text, type=type_)
    inner = Arguments("alias", item, EXAMPLE)
    text, guessed = split_type(inner.require("alias"))
    alias = Alias(text=text, type=inner.text("type") or guessed, confidence=inner.share("confidence"))
    inner.finish()
    return alias


def complete_keys(connection: apsw.Connection) -> None:
    """Make the keys of names that were written by hand, without this program."""
    for alias_id, normalized in rows(connection, sql.queries("identity")["aliases_without_keys"]):
        _add_keys(connection, alias_id, normalized)


def _add_keys(connection: apsw.Connection, alias_id: str, normalized: str) -> None:
    keys = [(key, alias_id) for key in sorted(candidates.blocking_keys(normalized))]
    connection.executemany(sql.queries("identity")["add_alias_key"], keys)
