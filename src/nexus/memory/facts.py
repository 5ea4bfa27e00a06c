"""Facts and relationships: the append-only observation log. A repeated observation is one more row."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

import apsw

from nexus import clock, ids
from nexus.ledgers import memory, sql
from nexus.ledgers.memory import NewFact, reviews
from nexus.memory.arguments import Arguments
from nexus.memory.references import resolve
from nexus.memory.writing import Scope, Step, storable_or_none

PERSON: Final = "person:"
"""How actors begin that are people at the terminal or the dashboard."""
FACT_EXAMPLE: Final = 'memory-write.sh fact --about "Sarah Chen" --fact "Sarah is allergic to nuts"'
RELATIONSHIP_EXAMPLE: Final = (
    'memory-write.sh relationship --source "Sarah Chen" --target Anthropic --type WORKS_AT '
    '--fact "Sarah works at Anthropic" --source-type self_disclosed --confidence 1.0'
)
CLAIM: Final = 0.6
"""The confidence of a link that a model states: the judge of replacements may still say no."""
_HOW: Final = ("corrected", "changed", "cancelled")
CAUSE_EXAMPLE: Final = "memory-write.sh causal-link --cause fact_01… --effect fact_02… --relation caused"


@dataclass(kw_only=True, slots=True)
class AppendFact(Step):
    """Append one observation with what it refers to."""

    id: str
    # Its entities are still as the writer named them.
    fact: NewFact
    entities: tuple[str, ...]
    caused_by: tuple[str, ...]
    replaces: tuple[str, ...]
    how: str | None
    extracted: str | None
    source_id: str | None = None
    target_id: str | None = None
    linked: list[str] = field(default_factory=list[str])

    @property
    def needs(self) -> list[tuple[str, str]]:
        episode = self.fact.source_episode_id
        return [
            *([("episode", episode)] if episode else []),
            *(("fact", id_) for id_ in (*self.caused_by, *self.replaces)),
        ]

    @property
    def makes(self) -> list[tuple[str, str]]:
        return [("fact", self.id)]

    def in_identity(self, connection: apsw.Connection, scope: Scope) -> None:
        source, target = self.fact.source_entity_id, self.fact.target_entity_id
        self.source_id = resolve(connection, source, scope) if source else None
        self.target_id = resolve(connection, target, scope) if target else None
        self.linked = [resolve(connection, each, scope) for each in self.entities]

    def in_memory(self, connection: apsw.Connection, scope: Scope) -> None:
        given, where = self.fact, scope.provenance
        recorded = replace(
            given,
            source_entity_id=self.source_id,
            target_entity_id=self.target_id,
            source_event_id=given.source_event_id or where.event_id,
            source_episode_id=given.source_episode_id or where.episode_id,
            source_request_id=given.source_request_id or where.request_id,
        )
        learned_from = (recorded.source_event_id, recorded.source_episode_id, recorded.source_request_id)
        if where.channel and not any(learned_from):
            written = {"by": where.author, "channel": where.channel}
            recorded = replace(recorded, metadata=recorded.metadata | {"written": written})
        memory.append_facts(connection, [recorded], lambda: clock.parse(scope.now))
        if where.kind == "owner" and where.actor.startswith(PERSON):
            # What somebody wrote by hand needs no review.
            reviews.add(connection, self.id, "accept", actor=where.actor, now=scope.now)
        if self.linked:
            connection.executemany(
                sql.queries("memory")["link_fact_entity"],
                [(self.id, each, "mentioned") for each in self.linked],
            )
        episode_id = recorded.source_episode_id
        for cause in self.caused_by:
            _link(connection, cause, self.id, "caused", 1.0, episode_id, scope.now)
        for old in self.replaces:
            confidence = CLAIM if where.kind == "writer" else 1.0
            _link(connection, old, self.id, "replaced", confidence, episode_id, scope.now, self.how)
        if recorded.source_episode_id:
            self._mention(connection, recorded, recorded.source_episode_id, scope.now)

    def _mention(self, connection: apsw.Connection, fact: NewFact, episode_id: str, now: str) -> None:
        """Say in the episode's own tables that it holds this fact and names these entities."""
        queries = sql.queries("memory")
        if fact.source_entity_id and fact.relation_type:
            words = storable_or_none(self.extracted)
            connection.execute(
                queries["mention_relationship"],
                (episode_id, self.id, fact.source_type, words, fact.confidence, now),
            )
        named = dict.fromkeys(filter(None, (self.source_id, self.target_id, *self.linked)))
        connection.executemany(queries["mention_entity"], [(episode_id, each, 1) for each in named])

    def answer(self) -> dict[str, Any]:
        ties = {"source_entity_id": self.source_id, "target_entity_id": self.target_id}
        return {"id": self.id, **{name: id_ for name, id_ in ties.items() if id_}}


@dataclass(kw_only=True, slots=True)
class LinkFacts(Step):
    """Say that one fact led to another."""

    id: str
    cause: str
    effect: str
    relation: str
    confidence: float
    how: str | None
    episode_id: str | None

    @property
    def needs(self) -> list[tuple[str, str]]:
        episode = [("episode", self.episode_id)] if self.episode_id else []
        return [("fact", self.cause), ("fact", self.effect), *episode]

    def in_memory(self, connection: apsw.Connection, scope: Scope) -> None:
        episode = self.episode_id or scope.provenance.episode_id
        confidence = self.confidence
        if self.relation == "replaced":
            confidence = CLAIM if scope.provenance.kind == "writer" else 1.0
        _link(
            connection,
            self.cause,
            self.effect,
            self.relation,
            confidence,
            episode,
            scope.now,
            self.how,
            self.id,
        )

    def answer(self) -> dict[str, Any]:
        return {"id": self.id, "cause_fact_id": self.cause, "effect_fact_id": self.effect}


def parse_fact(arguments: Arguments) -> AppendFact:
    """`fact`: the statement, and optionally what it is about, its type and a second entity."""
    about = arguments.text("about") or arguments.text("source")
    return _parse(arguments, source=about, type_=arguments.text("type"))


def parse_relationship(arguments: Arguments) -> AppendFact:
    """`relationship`: source, type and fact; without a target it is about a value."""
    return _parse(arguments, source=arguments.require("source"), type_=arguments.require("type"))


def parse_causal_link(arguments: Arguments) -> LinkFacts:
    """`causal-link`: cause and effect, and optionally relation and confidence."""
    cause, effect = arguments.require("cause"), arguments.require("effect")
    if cause == effect:
        raise arguments.error("A fact cannot be its own cause")
    return LinkFacts(
        id=ids.new("cau"),
        cause=cause,
        effect=effect,
        relation=arguments.text("relation") or "caused",
        confidence=arguments.share("confidence"),
        how=_how(arguments),
        episode_id=arguments.text("episode"),
    )


def _parse(arguments: Arguments, *, source: str | None, type_: str | None) -> AppendFact:
    id_ = ids.new("fact")
    fact = NewFact(
        id=id_,
        fact=arguments.require("fact"),
        source_entity_id=source,
        relation_type=type_,
        target_entity_id=arguments.text("target"),
        confidence=arguments.share("confidence"),
        source_type=arguments.text("source_type") or "mentioned",
        as_of=arguments.moment("as_of"),
        valid_at=arguments.moment("valid_at"),
        source_event_id=arguments.text("event"),
        source_episode_id=arguments.text("episode"),
        source_request_id=arguments.text("request"),
        metadata=_metadata(arguments),
    )
    return AppendFact(
        id=id_,
        fact=fact,
        entities=arguments.texts("entities"),
        caused_by=arguments.texts("caused_by"),
        replaces=arguments.texts("replaces"),
        how=_how(arguments),
        extracted=arguments.text("extracted_fact"),
    )


def _how(arguments: Arguments) -> str | None:
    how = arguments.text("how")
    if how is not None and how not in _HOW:
        raise arguments.error(f"`how` is {', '.join(_HOW[:-1])} or {_HOW[-1]}, not {how!r}")
    return how


def _metadata(arguments: Arguments) -> dict[str, Any]:
    until = arguments.moment("valid_until")
    return arguments.mapping("metadata") | ({"valid_until": clock.timestamp(until)} if until else {})


def _link(
    connection: apsw.Connection,
    cause: str,
    effect: str,
    relation: str,
    confidence: float,
    episode_id: str | None,
    now: str,
    how: str | None = None,
    id_: str | None = None,
) -> None:
    row = (id_ or ids.new("cau"), cause, effect, relation, confidence, episode_id, now, how)
    connection.execute(sql.queries("memory")["add_causal_link"], row)
