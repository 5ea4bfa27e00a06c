"""From what the arms found to an answer: features, scores, the choice, and the reasons for each result."""

import math
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from nexus import clock
from nexus.memory.recall import (
    causality,
    factors,
    features,
    pool,
    ranker,
    selection,
    succession,
    surroundings,
    threads,
)
from nexus.memory.recall.deadline import Deadline
from nexus.memory.recall.item import Answer, Item, Query, Reasons, Result, Sighting
from nexus.memory.recall.naming import Named
from nexus.memory.recall.pool import Floats, Whole
from nexus.memory.recall.presets import preset
from nexus.memory.recall.question import Question
from nexus.memory.recall.reranker import Reranker
from nexus.memory.recall.timing import timed

_NEIGHBOUR_ARM = "neighbour"
# The factors are small: what lies far down the order is not moved by them into the answer.
_WEIGHED = 3


@dataclass(slots=True)
class Found:
    """What the arms brought together, before it is ordered."""

    question: Question
    pool: pool.Pool
    sightings: dict[str, list[Sighting]]
    late: tuple[str, ...] = ()
    entities: dict[str, Named] = field(default_factory=dict[str, Named])
    timings_ms: dict[str, float] = field(default_factory=dict[str, float])
    # The model whose cosines the pool holds, if any: probabilities were learned for some.
    model_id: str | None = None


def order(
    found: Found,
    query: Query,
    now: clock.Clock,
    reranker: Reranker | None = None,
    deadline: Deadline | None = None,
) -> Answer:
    """The answer: best first, nothing far behind it, within the token budget."""
    rows = np.flatnonzero(found.pool.candidate)
    window = found.question.window
    if not len(rows):
        return Answer(
            results=(), late_arms=found.late, window=window, timings_ms=found.timings_ms, named=found.entities
        )
    with timed(found.timings_ms, "order"):
        learned, limits = ranker.load(), preset(query.budget)
        table = features.table(found.question, found.pool)
        scores = learned.trees.score(table, rows)
        chances, answerable = learned.chances(table, rows, found.model_id)
        heard = query.unjudged or answerable >= limits.answerable
        ranked = _ranked(found, rows, scores, chances, query, now()) if heard else []
        if reranker is not None and deadline is not None and limits.reranked:
            ranked = _reranked(ranked, found.question.text, reranker, limits.reranked, deadline)
        chosen = selection.choose(
            succession.order(causality.order(ranked, asks_why=found.question.asks_why)),
            gap=math.inf if query.unjudged else limits.gap,
            max_results=query.max_results,
            max_tokens=query.max_tokens,
        )
        best_threads = threads.rank(found.pool, table, rows, scores, learned.threads)
        row_of = {item.id: row for row, item in enumerate(found.pool.items)}
        results = [_result(entry, found, row_of[entry.ranked.item.id], now()) for entry in chosen]
    return Answer(
        results=tuple(results),
        threads=best_threads,
        late_arms=found.late,
        window=window,
        timings_ms=found.timings_ms,
        considered=len(rows),
        named=found.entities,
        answerable=answerable,
    )


def _ranked(
    found: Found, rows: Whole, scores: Floats, chances: Floats, query: Query, now: datetime
) -> list[selection.Ranked]:
    weights = ranker.load().factors
    best = np.argsort(-scores, kind="stable")
    near = max(_WEIGHED * query.max_results, 50)
    ranked = [
        _place(found.pool.items[int(rows[i])], float(scores[i]), float(chances[i]), weights, now)
        for i in best[:near]
    ]
    ranked.sort(key=lambda entry: -entry.score)
    rest = ((found.pool.items[int(rows[i])], i) for i in best[near:])
    return ranked + [
        selection.Ranked(item=item, score=float(scores[i]), probability=float(chances[i])) for item, i in rest
    ]


def _reranked(
    ranked: list[selection.Ranked], question: str, reranker: Reranker, most: int, deadline: Deadline
) -> list[selection.Ranked]:
    """The best few again, by how well each fits the question; what was not read keeps its score."""
    weight = ranker.load().fit
    fits = reranker.fits(question, [entry.item.text for entry in ranked[:most]], deadline)
    read = [
        replace(entry, score=entry.score + weight * fit, factors={**entry.factors, "fit": weight * fit})
        for entry, fit in zip(ranked, fits, strict=False)
    ]
    return sorted([*read, *ranked[len(read) :]], key=lambda entry: -entry.score)


def _place(
    item: Item, score: float, probability: float, weights: dict[str, float], now: datetime
) -> selection.Ranked:
    added = factors.of(item, now, weights)
    return selection.Ranked(
        item=item, score=score + sum(added.values()), probability=probability, factors=added
    )


def _result(chosen: selection.Chosen, found: Found, row: int, now: datetime) -> Result:
    ranked = chosen.ranked
    return Result(
        item=ranked.item,
        score=ranked.score,
        probability=ranked.probability,
        tokens=chosen.tokens,
        reasons=_reasons(ranked, found, row, now),
        also=chosen.also,
    )


def _reasons(ranked: selection.Ranked, found: Found, row: int, now: datetime) -> Reasons:
    item = ranked.item
    said = found.pool.counts[row] > 0
    seen = found.sightings.get(item.id, [])
    names = [name for name in found.pool.names if name == item.speaker]
    known = [named.name for named in found.entities.values() if not named.is_owner]
    names += [name for name in known if name and name.lower() in item.text.lower()]
    about = found.entities.get(item.subject_id or "")
    about = None if about and about.is_owner else about
    names += [about.name] if about and about.name else []
    return Reasons(
        arms={s.arm: (s.rank, s.score) for s in reversed(seen)} or {_NEIGHBOUR_ARM: (0, 0.0)},
        matched_words=tuple(
            found.question.forms[term] for term, held in zip(found.question.terms, said, strict=True) if held
        ),
        matched_names=tuple(dict.fromkeys(names)),
        about=about and about.name,
        neighbour_of=None if seen else _nearest_seen(row, found),
        age_days=factors.age_days(item, now),
        stale_since=item.stale_since,
        confidence=item.confidence,
        source_type=item.source_type,
        source_event_id=item.source_event_id,
        factors=ranked.factors,
    )


def _nearest_seen(row: int, found: Found) -> str | None:
    for distance in range(1, surroundings.CANDIDATE_REACH + 1):
        for other in (row - distance, row + distance):
            if not 0 <= other < len(found.pool.items) or found.pool.stretch[other] != found.pool.stretch[row]:
                continue
            if found.pool.items[other].id in found.sightings:
                return found.pool.items[other].id
    return None
