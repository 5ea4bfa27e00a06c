"""Facts with the names of whom they tie and the messages that they came from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nexus.gateway.views import events, names
from nexus.gateway.views.events import Said
from nexus.gateway.views.page import Page, begin, columns, named, page, position
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
    ledgers: Ledgers, *, matching: str | None = None, cursor: str | None = None, limit: int = 50
) -> Page[Fact]:
    """Facts, the one that was recorded last first; with a text, those that hold all of its words."""
    wanted = words(matching or "")
    (before,) = begin(cursor, 1)
    values: dict[str, Any] = {
        "before": position(before),
        "limit": limit + 1,
        "match": match_all(wanted) if wanted else None,
    }
    query = sql.queries("memory")["matching_facts" if wanted else "facts_before"]
    if not wanted:
        del values["match"]
    found = await ledgers.memory.read(sql.rows, query, values)
    return page(await told(ledgers, found), limit, lambda fact: (str(fact.seq),))


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
