"""From what the arms found to an answer: features, scores, the choice, and the reasons for each result."""

from dataclasses import dataclass, field

import numpy as np

from nexus import clock
from nexus.memory.recall import features, pool, ranker, selection, surroundings, threads
from nexus.memory.recall.item import Answer, Item, Query, Reasons, Result, Sighting
from nexus.memory.recall.presets import preset
from nexus.memory.recall.question import Question
from nexus.memory.recall.timing import timed

_NEIGHBOUR_ARM = "neighbour"


@dataclass(slots=True)
class Found:
    """What the arms brought together, before it is ordered."""

    question: Question
    pool: pool.Pool
    sightings: dict[str, list[Sighting]]
    late: tuple[str, ...] = ()
    entities: dict[str, str] = field(default_factory=dict[str, str])
    timings_ms: dict[str, float] = field(default_factory=dict[str, float])


def order(found: Found, query: Query, now: clock.Clock) -> Answer:
    rows = np.flatnonzero(found.pool.candidate)
    if not len(rows):
        return Answer(
            results=(), late_arms=found.late, window=found.question.window, timings_ms=found.timings_ms
        )
    learned = ranker.load()
    with timed(found.timings_ms, "order"):
        table = features.table(found.question, found.pool)
        scores = learned.trees.score(table, rows)
        relevance = learned.relevance if found.pool.cosine.any() else learned.relevance_by_words
        chances = relevance.probability({name: values[rows] for name, values in table.items()})
        order = np.argsort(-scores, kind="stable")
        ranked = [
            selection.Ranked(
                item=found.pool.items[rows[i]], score=float(scores[i]), probability=float(chances[i])
            )
            for i in order
        ]
        chosen = selection.choose(
            ranked,
            floor=preset(query.budget).floor,
            max_results=query.max_results,
            max_tokens=query.max_tokens,
        )
        best_threads = threads.rank(found.pool, table, rows, scores, learned.threads)
    row_of = {item.id: row for row, item in enumerate(found.pool.items)}
    return Answer(
        results=tuple(_result(entry, found, row_of[entry.ranked.item.id], now) for entry in chosen),
        threads=best_threads,
        late_arms=found.late,
        window=found.question.window,
        timings_ms=found.timings_ms,
        considered=len(rows),
    )


def _result(chosen: selection.Chosen, found: Found, row: int, now: clock.Clock) -> Result:
    item = chosen.ranked.item
    return Result(
        item=item,
        score=chosen.ranked.score,
        probability=chosen.ranked.probability,
        tokens=chosen.tokens,
        reasons=_reasons(item, found, row, now),
        also=chosen.also,
    )


def _reasons(item: Item, found: Found, row: int, now: clock.Clock) -> Reasons:
    said = found.pool.counts[row] > 0
    seen = found.sightings.get(item.id, [])
    names = [name for name in found.pool.names if name == item.speaker]
    names += [name for name in found.entities.values() if name and name.lower() in item.text.lower()]
    return Reasons(
        arms={s.arm: (s.rank, s.score) for s in seen} or {_NEIGHBOUR_ARM: (0, 0.0)},
        matched_words=tuple(
            found.question.forms[term] for term, held in zip(found.question.terms, said, strict=True) if held
        ),
        matched_names=tuple(dict.fromkeys(names)),
        neighbour_of=None if seen else _nearest_seen(row, found),
        age_days=max(0.0, (now() - clock.parse(item.at)).total_seconds() / 86_400),
        stale_since=item.stale_since,
        source_event_id=item.source_event_id,
    )


def _nearest_seen(row: int, found: Found) -> str | None:
    for distance in range(1, surroundings.CANDIDATE_REACH + 1):
        for other in (row - distance, row + distance):
            if not 0 <= other < len(found.pool.items) or found.pool.stretch[other] != found.pool.stretch[row]:
                continue
            if found.pool.items[other].id in found.sightings:
                return found.pool.items[other].id
    return None
