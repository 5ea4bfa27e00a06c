"""Entities as a list, and one of them whole: names, timeline, company, merges."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from nexus.ledgers import Ledgers, sql
from nexus.memory import merging
from nexus.memory.views import facts, names
from nexus.memory.views.facts import Fact
from nexus.memory.views.names import find_family, like
from nexus.memory.views.page import (
    ALWAYS,
    Page,
    Period,
    list_columns,
    make_page,
    make_record,
    name_columns,
    parse_cursor,
    parse_position,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityLine:
    """One entity in a list, as one with all that was merged into it."""

    id: str
    type: str
    name: str
    summary: str | None
    created_at: str
    updated_at: str
    facts: int
    merged: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Alias:
    """A name, address, number or handle."""

    entity_id: str
    alias: str
    type: str
    normalized: str
    confidence: float
    source_type: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Contact:
    """How an entity is reached on a channel."""

    entity_id: str
    channel: str
    identifier: str
    display_name: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonFact:
    """Hard identity data about a person."""

    entity_id: str
    category: str
    fact_type: str
    value: str
    confidence: float
    source_type: str | None
    source_event_id: str | None
    created_at: str
    as_of: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeEvent:
    """A merge, or one that was taken back."""

    id: str
    action: str
    source_entity_id: str
    target_entity_id: str
    actor: str
    reason: str | None
    created_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Merged:
    """An entity merged into another one; the merge can be undone."""

    id: str
    name: str
    type: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """A sign that two entities may be one."""

    signal: str
    detail: str
    weight: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """Two entities that may be one."""

    id: str
    entity_a_id: str
    name_a: str
    type_a: str
    entity_b_id: str
    name_b: str
    type_b: str
    score: float
    reasons: tuple[Reason, ...]
    status: str
    resolved_by: str | None
    resolved_at: str | None
    created_at: str

    @property
    def entities(self) -> tuple[str, str]:
        return self.entity_a_id, self.entity_b_id


_CANDIDATE = list_columns(Candidate)


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """Whom or what an entity occurs with."""

    entity_id: str
    name: str
    facts: int
    episodes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """One entity, whole, but for its timeline."""

    id: str
    type: str
    name: str
    summary: str | None
    source_event_id: str | None
    created_at: str
    updated_at: str
    facts: int
    same: tuple[str, ...]
    """Its id and those of all that was merged into it."""
    merged: tuple[Merged, ...]
    aliases: tuple[Alias, ...]
    contacts: tuple[Contact, ...]
    person_facts: tuple[PersonFact, ...]
    merge_events: tuple[MergeEvent, ...]
    candidates: tuple[Candidate, ...]
    neighbours: tuple[Neighbour, ...]


async def load_page(
    ledgers: Ledgers,
    *,
    matching: str | None = None,
    type_: str | None = None,
    period: Period = ALWAYS,
    cursor: str | None = None,
    limit: int = 50,
) -> Page[EntityLine]:
    """Load entities, those that changed last first; with a text, those that a name or alias of it finds."""
    at, id_ = period.begin(cursor)
    wanted = like(matching) if matching else None
    values: dict[str, Any] = {"type": type_, "like": wanted, "at": at, "id": id_, "limit": limit + 1}
    values["since"] = period.since
    if wanted is None:
        del values["like"]
    query = sql.queries("identity")["entities_before" if wanted is None else "matching_entities_before"]

    def work(connection: apsw.Connection) -> list[tuple[tuple[Any, ...], list[str]]]:
        return [(row, merging.family(connection, row[0])) for row in sql.rows(connection, query, values)]

    found = await ledgers.identity.read(work)
    counts = await count_facts(ledgers, [same for _, same in found])
    lines = [
        make_record(EntityLine, (*row, count, len(same) - 1))
        for (row, same), count in zip(found, counts, strict=True)
    ]
    return make_page(lines, limit, lambda line: (line.updated_at, line.id))


async def count_types(ledgers: Ledgers) -> tuple[tuple[str, int], ...]:
    """How many entities there are of each type, for a filter."""
    query = sql.queries("identity")["entity_types"]
    return tuple((row[0], row[1]) for row in await ledgers.identity.read(sql.rows, query))


async def get(ledgers: Ledgers, reference: str) -> Entity:
    """Load the entity that an id, a name or another alias means."""
    same = await find_family(ledgers, reference)
    (count,) = await count_facts(ledgers, [same])
    found = await ledgers.identity.read(_load_identity, same=same)
    return Entity(
        **found,
        facts=count,
        same=tuple(same),
        candidates=await load_candidates(ledgers, entity_ids=same),
        neighbours=await load_neighbours(ledgers, same),
    )


async def load_timeline(
    ledgers: Ledgers, same: Sequence[str], *, cursor: str | None = None, limit: int = 40
) -> Page[Fact]:
    """Load what was observed about an entity, the latest truth first."""
    at, seq = parse_cursor(cursor, 2)
    values = {
        "entities": json.dumps(list(same)),
        "at": at,
        "seq": parse_position(seq),
        "limit": limit + 1,
    }
    query = sql.queries("memory")["timeline_before"]
    found = await ledgers.memory.read(sql.rows, query, values)
    return make_page(await facts.describe(ledgers, found), limit, lambda fact: (fact.at, str(fact.seq)))


async def load_candidates(
    ledgers: Ledgers,
    *,
    status: str | None = "pending",
    entity_ids: Sequence[str] | None = None,
    period: Period = ALWAYS,
    limit: int = 50,
) -> tuple[Candidate, ...]:
    """Load pairs that may be one, the likeliest first."""
    wanted = None if entity_ids is None else json.dumps(list(entity_ids))
    values = {"status": status, "entities": wanted, "limit": limit}
    values |= {"since": period.since, "until": period.until}
    found = await ledgers.identity.read(sql.rows, sql.queries("identity")["listed_candidates"], values)
    return tuple(_make_candidate(row) for row in found)


async def load_contacts(ledgers: Ledgers, entity_id: str) -> tuple[Contact, ...]:
    """Load how an entity is reached, to tell two of one name apart."""
    wanted = (json.dumps([entity_id]),)
    rows = await ledgers.identity.read(sql.rows, sql.queries("identity")["contacts_of"], wanted)
    return _make_records(Contact, rows)


async def load_neighbours(ledgers: Ledgers, same: Sequence[str], *, limit: int = 16) -> tuple[Neighbour, ...]:
    """Load whom and what an entity occurs with most, in its newest facts and episodes."""
    found = await _load_company(ledgers, "neighbours", same, limit)
    return tuple(each for each in found if each.entity_id not in same)


async def load_company(ledgers: Ledgers, same: Sequence[str], *, limit: int = 20) -> tuple[Neighbour, ...]:
    """Load whom and what an entity occurs with, in all of its facts and episodes."""
    return await _load_company(ledgers, "seen_together", same, limit)


async def _load_company(
    ledgers: Ledgers, query: str, same: Sequence[str], limit: int
) -> tuple[Neighbour, ...]:
    values = {"entities": json.dumps(list(same)), "limit": limit}
    found = await ledgers.memory.read(sql.rows, sql.queries("memory")[query], values)
    known = await names.load_roots(ledgers, [row[0] for row in found])
    counts: dict[str, tuple[str, int, int]] = {}
    for entity_id, in_facts, in_episodes in found:
        root_id, name = known.get(entity_id, (entity_id, entity_id))
        _, before, episodes_before = counts.get(root_id, ("", 0, 0))
        counts[root_id] = (name, before + in_facts, episodes_before + in_episodes)
    return tuple(
        Neighbour(entity_id=id_, name=name, facts=in_facts, episodes=in_episodes)
        for id_, (name, in_facts, in_episodes) in counts.items()
    )


async def count_facts(ledgers: Ledgers, families: Sequence[Sequence[str]]) -> list[int]:
    """Count the facts about each of some entities, with all that was merged into it."""
    query = sql.queries("memory")["count_of_facts"]
    wanted = [json.dumps(list(same)) for same in families]
    return await ledgers.memory.read(lambda c: [sql.rows(c, query, (each,))[0][0] for each in wanted])


def _load_identity(connection: apsw.Connection, same: Sequence[str]) -> dict[str, Any]:
    queries, wanted = sql.queries("identity"), (json.dumps(list(same)),)
    id_, type_, name, summary, _, event_id, _, created_at, updated_at = sql.rows(
        connection, queries["entity"], (same[0],)
    )[0]
    return {
        "id": id_,
        "type": type_,
        "name": name,
        "summary": summary,
        "source_event_id": event_id,
        "created_at": created_at,
        "updated_at": updated_at,
        "merged": tuple(
            Merged(id=row[0], type=row[1], name=row[2])
            for each in same[1:]
            for row in sql.rows(connection, queries["entity"], (each,))
        ),
        "aliases": _make_records(Alias, sql.rows(connection, queries["aliases_of"], wanted)),
        "contacts": _make_records(Contact, sql.rows(connection, queries["contacts_of"], wanted)),
        "person_facts": _make_records(PersonFact, sql.rows(connection, queries["person_facts_of"], wanted)),
        "merge_events": _make_records(MergeEvent, sql.rows(connection, queries["merge_events_of"], wanted)),
    }


def _make_records(kind: type[Any], rows: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(make_record(kind, row) for row in rows)


def _make_candidate(row: tuple[Any, ...]) -> Candidate:
    pair = name_columns(_CANDIDATE, row)
    reasons = tuple(
        Reason(signal=each["signal"], detail=each["detail"], weight=each.get("weight", 0.0))
        for each in json.loads(pair.pop("reasons"))
    )
    return Candidate(**pair, reasons=reasons)
