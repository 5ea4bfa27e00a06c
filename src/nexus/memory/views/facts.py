"""Facts with the names of whom they tie and the messages that they came from."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from nexus.errors import MissingError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.memory import Successor, Written, find_fact, find_written_by_hand, reviews, successors
from nexus.ledgers.memory.reviews import UNDECIDED, State
from nexus.ledgers.text import match_all, words
from nexus.memory import merging
from nexus.memory.facts import PERSON
from nexus.memory.views import events, names
from nexus.memory.views.events import Said
from nexus.memory.views.page import (
    ALWAYS,
    LAST,
    Page,
    Period,
    list_columns,
    make_page,
    name_columns,
    parse_cursor,
    parse_position,
)

_SOURCE_CHARACTERS = 400
WHOLE = 1 << 30
_CHAIN = 30
_RIVALS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One entry of the observation log."""

    seq: int
    id: str
    at: str
    """When it was true."""
    fact: str
    relation_type: str | None
    source_entity_id: str | None
    target_entity_id: str | None
    confidence: float
    source_type: str
    as_of: str | None
    """When it was true, where that was said."""
    created_at: str
    source_event_id: str | None
    source_episode_id: str | None
    source_request_id: str | None
    source_name: str | None
    target_name: str | None
    said: Said | None
    """The message that it came from."""
    replaced_by: Successor | None
    """The fact that replaced it."""
    state: State = UNDECIDED
    """What the owner decided about it."""
    written: Written | None = None
    """Who wrote it by hand, where and when; None if it was learned."""

    @property
    def is_written(self) -> bool:
        """Whether a person wrote it by hand."""
        sources = (self.source_event_id, self.source_episode_id, self.source_request_id)
        by_person = (self.state.by or "").startswith(PERSON)
        return by_person and self.state.at == self.created_at and not any(sources)


_STORED = list_columns(Fact, before="source_name")


async def load_page(
    ledgers: Ledgers,
    *,
    matching: str | None = None,
    period: Period = ALWAYS,
    cursor: str | None = None,
    limit: int = 50,
) -> Page[Fact]:
    """Load facts, the one that was recorded last first; with a text, those that hold all of its words."""
    wanted = words(matching or "")
    by_time = period != ALWAYS and not wanted
    at, before = parse_cursor(cursor, 2) if by_time else (LAST, *parse_cursor(cursor, 1))
    values: dict[str, Any] = {"before": parse_position(before), "limit": limit + 1}
    if wanted and period == ALWAYS:
        query = "matching_facts"
        values["match"] = match_all(wanted)
    elif wanted:
        query = "matching_facts_between"
        values |= {"match": match_all(wanted), "since": period.since, "until": period.until}
    elif by_time:
        query = "facts_between"
        values |= {"since": period.since, "at": min(at, period.until)}
        values["before"] = values["before"] if at < period.until else 0
    else:
        query = "facts_before"
    found = await ledgers.memory.read(sql.rows, sql.queries("memory")[query], values)

    def key(fact: Fact) -> tuple[str, ...]:
        return (fact.created_at, str(fact.seq)) if by_time else (str(fact.seq),)

    return make_page(await describe(ledgers, found), limit, key)


async def count_since(ledgers: Ledgers, since: str) -> int:
    """How many facts were recorded since a moment."""
    rows = await ledgers.memory.read(sql.rows, sql.queries("memory")["count_facts_since"], (since,))
    return rows[0][0]


@dataclass(frozen=True, kw_only=True, slots=True)
class FactView:
    """One fact with what it replaced and what replaced it, and what else is said of the kind."""

    fact: Fact
    chain: tuple[Fact, ...]
    """The newest first; the fact itself alone where nothing replaced anything."""
    rivals: tuple[Fact, ...]
    """Other facts of the same kind about the same entity that still hold."""


Review = Literal["pending", "accepted", "rejected"]


async def get(ledgers: Ledgers, fact_id: str) -> FactView:
    """Load one fact, whole, by its id or the end of that."""
    queries = sql.queries("memory")
    fact_id = await ledgers.memory.read(find_fact, fact_id)
    row = await ledgers.memory.read(sql.row, queries["fact"], (fact_id,))
    if row is None:
        raise MissingError(f"Unknown fact {fact_id!r}", hint="It may have been forgotten.")
    (fact,) = await describe(ledgers, [row])
    chain = await ledgers.memory.read(sql.rows, queries["fact_chain"], {"id": fact_id, "limit": _CHAIN})
    rivals: list[tuple[Any, ...]] = []
    if fact.source_entity_id and fact.relation_type and fact.replaced_by is None:
        same = await ledgers.identity.read(merging.family, fact.source_entity_id)
        values = {
            "entities": json.dumps(same),
            "type": fact.relation_type,
            "id": fact_id,
            "limit": _RIVALS,
        }
        rivals = await ledgers.memory.read(sql.rows, queries["rival_facts"], values)
    return FactView(
        fact=fact, chain=tuple(await describe(ledgers, chain)), rivals=tuple(await describe(ledgers, rivals))
    )


async def load_to_review(
    ledgers: Ledgers,
    *,
    since: str,
    status: Review = "pending",
    cursor: str | None = None,
    limit: int = 50,
    characters: int = _SOURCE_CHARACTERS,
) -> Page[Fact]:
    """Load what was learned since a moment and nobody has decided about, or what was decided since then."""
    (before,) = parse_cursor(cursor, 1)
    values: dict[str, Any] = {"since": since, "before": parse_position(before), "limit": limit + 1}
    if status == "pending":
        query = sql.queries("memory")["facts_to_review"]
    else:
        query = sql.queries("memory")["reviewed_facts"]
        values["decision"] = {"accepted": "accept", "rejected": "reject"}[status]
    found = await ledgers.memory.read(sql.rows, query, values)
    return make_page(await describe(ledgers, found, characters), limit, lambda fact: (str(fact.seq),))


async def count_waiting(ledgers: Ledgers, *, since: str, most: int = 1_000) -> int:
    """How many facts wait for a review, counted up to a number."""
    query = sql.queries("memory")["facts_to_review_count"]
    return cast("int", await ledgers.memory.read(sql.value, query, {"since": since, "limit": most}))


async def load_pinned(ledgers: Ledgers, *, cursor: str | None = None, limit: int = 50) -> Page[Fact]:
    """Load the pinned facts, the newest first."""
    (before,) = parse_cursor(cursor, 1)
    values = {"before": parse_position(before), "limit": limit + 1}
    found = await ledgers.memory.read(sql.rows, sql.queries("memory")["pinned"], values)
    return make_page(await describe(ledgers, found), limit, lambda fact: (str(fact.seq),))


async def load_log(ledgers: Ledgers, reference: str, *, limit: int = 1_000) -> list[Fact]:
    """Load the observation log of what a name or an id means, in the order in which things were true."""
    bindings = {"entities": json.dumps(await names.find_family(ledgers, reference)), "limit": limit}
    found = await ledgers.memory.read(sql.rows, sql.queries("memory")["facts_of"], bindings)
    return await describe(ledgers, found, WHOLE)


async def load_newest(
    ledgers: Ledgers, *, matching: str | None = None, type_: str | None = None, limit: int = 50
) -> list[Fact]:
    """Load the facts that were recorded last, in order."""
    match = match_all(words(matching)) if matching and words(matching) else None
    bindings = {"match": match, "type": type_, "limit": limit}
    found = await ledgers.memory.read(sql.rows, sql.queries("memory")["newest_facts"], bindings)
    return await describe(ledgers, found, WHOLE)


async def load_changes(ledgers: Ledgers, *, limit: int = 50) -> list[Fact]:
    """Load the facts that were replaced last, each with what holds now; the latest change last."""
    found = await ledgers.memory.read(sql.rows, sql.queries("memory")["facts_replaced"], {"limit": limit})
    return await describe(ledgers, found, WHOLE)


async def describe(
    ledgers: Ledgers, rows: Sequence[tuple[Any, ...]], characters: int = _SOURCE_CHARACTERS
) -> list[Fact]:
    """Describe rows of facts, with the names and messages that belong to them."""
    found = [name_columns(_STORED, row) for row in rows]
    ends = [row[end] for row in found for end in ("source_entity_id", "target_entity_id")]
    known = await names.load_entity_names(ledgers, ends)
    sources = sorted({row["source_event_id"] for row in found if row["source_event_id"]})
    said = {each.id: each for each in await events.load_messages(ledgers, sources, characters)}
    recorded = [row["id"] for row in found]
    replaced = await ledgers.memory.read(successors, recorded)
    decided = await ledgers.memory.read(reviews.states, recorded)
    written = await ledgers.memory.read(find_written_by_hand, recorded)
    return [
        Fact(
            **row,
            source_name=known.get(row["source_entity_id"] or ""),
            target_name=known.get(row["target_entity_id"] or ""),
            said=said.get(row["source_event_id"] or ""),
            replaced_by=replaced.get(row["id"]),
            state=decided[row["id"]],
            written=written.get(row["id"]),
        )
        for row in found
    ]
