"""Facts with the names of whom they tie and the messages that they came from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nexus.gateway.views import events, names
from nexus.gateway.views.events import Said
from nexus.gateway.views.page import ALWAYS, LAST, Page, Period, begin, columns, named, page, position
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.memory import Successor, successors
from nexus.ledgers.text import match_all, words

_SOURCE_CHARACTERS = 400


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


_STORED = columns(Fact, before="source_name")


async def listed(
    ledgers: Ledgers,
    *,
    matching: str | None = None,
    period: Period = ALWAYS,
    cursor: str | None = None,
    limit: int = 50,
) -> Page[Fact]:
    """Facts, the one that was recorded last first; with a text, those that hold all of its words."""
    wanted = words(matching or "")
    by_time = period != ALWAYS and not wanted
    at, before = begin(cursor, 2) if by_time else (LAST, *begin(cursor, 1))
    values: dict[str, Any] = {"before": position(before), "limit": limit + 1}
    if wanted:
        query = "matching_facts"
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

    return page(await told(ledgers, found), limit, key)


async def count(ledgers: Ledgers, since: str) -> int:
    """How many facts were recorded since a moment."""
    rows = await ledgers.memory.read(sql.rows, sql.queries("memory")["count_facts_since"], (since,))
    return rows[0][0]


async def told(ledgers: Ledgers, rows: Sequence[tuple[Any, ...]]) -> list[Fact]:
    """Rows of facts, with the names and messages that belong to them."""
    found = [named(_STORED, row) for row in rows]
    ends = [row[end] for row in found for end in ("source_entity_id", "target_entity_id")]
    known = await names.entities(ledgers, ends)
    sources = sorted({row["source_event_id"] for row in found if row["source_event_id"]})
    said = {each.id: each for each in await events.said(ledgers, sources, _SOURCE_CHARACTERS)}
    recorded = [row["id"] for row in found]
    replaced = await ledgers.memory.read(successors, recorded)
    return [
        Fact(
            **row,
            source_name=known.get(row["source_entity_id"] or ""),
            target_name=known.get(row["target_entity_id"] or ""),
            said=said.get(row["source_event_id"] or ""),
            replaced_by=replaced.get(row["id"]),
        )
        for row in found
    ]
