"""The texts behind the sightings, from the ledgers that hold them."""

import asyncio
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

import apsw

from nexus.ledgers import Ledgers
from nexus.memory.recall import arms, surroundings
from nexus.memory.recall.item import Item, Kind, Sighting
from nexus.memory.recall.question import Question
from nexus.memory.recall.surroundings import Stretch

_SUMMARY_KINDS = {"observation", "mental_model", "episode"}


async def fetch(
    ledgers: Ledgers, question: Question, sightings: Mapping[str, list[Sighting]]
) -> tuple[list[Stretch], dict[str, float]]:
    """The stretches that hold what was seen, and how telling each word of the question is."""
    kinds: dict[str, Kind] = {id_: seen[0].kind for id_, seen in sightings.items()}
    event_ids = [id_ for id_, kind in kinds.items() if kind == "event"]
    other_ids = [id_ for id_, kind in kinds.items() if kind != "event"]

    def from_events(connection: apsw.Connection) -> tuple[list[Stretch], tuple[int, dict[str, int]]]:
        stretches = surroundings.around(connection, event_ids) if event_ids else []
        return stretches, arms.frequencies(connection, question, events=True)

    def from_memory(connection: apsw.Connection) -> tuple[list[Item], tuple[int, dict[str, int]]]:
        items = list(_others(connection, other_ids, kinds)) if other_ids else []
        return items, arms.frequencies(connection, question, events=False)

    (stretches, (events, event_frequency)), (items, (facts, fact_frequency)) = await asyncio.gather(
        ledgers.events.read(from_events), ledgers.memory.read(from_memory)
    )
    total = events + facts
    idf = {term: _idf(total, event_frequency[term] + fact_frequency[term]) for term in question.terms}
    return stretches + [Stretch([item], [True]) for item in items], idf


def _idf(total: int, holding: int) -> float:
    return math.log(1 + (max(total - holding, 0) + 0.5) / (holding + 0.5))


def _others(connection: apsw.Connection, ids: list[str], kinds: Mapping[str, Kind]) -> Iterable[Item]:
    for row in connection.execute(arms.SQL["facts"], (json.dumps(ids),)):
        yield _fact(cast("tuple[Any, ...]", row))
    if any(kind in _SUMMARY_KINDS for kind in kinds.values()):
        wanted = set(ids)
        for row in connection.execute(arms.SQL["summaries"], (arms.SUMMARIES,)):
            if row[1] in wanted:
                yield _summary(cast("tuple[Any, ...]", row))


def _fact(row: tuple[Any, ...]) -> Item:
    id_, text, at, seq, source_event_id, confidence, source, target = row
    return Item(
        kind="fact",
        id=id_,
        text=text,
        at=at,
        seq=seq,
        source_event_id=source_event_id,
        confidence=confidence,
        entity_ids=tuple(entity for entity in (source, target) if entity),
    )


def _summary(row: tuple[Any, ...]) -> Item:
    kind, id_, text, at, confidence, stale_since = row
    return Item(kind=kind, id=id_, text=text, at=at, confidence=confidence, stale_since=stale_since)
