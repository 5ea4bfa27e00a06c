"""Recall: from a question to the few things worth knowing, under a deadline, with reasons.

question → arms, in parallel → what was said around → features → order → floor, diversity, budget
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import apsw

from nexus import clock
from nexus.ledgers import Ledgers
from nexus.memory.embedding.vectors import Vectors
from nexus.memory.recall import arms, loading, pool, surroundings
from nexus.memory.recall.item import Answer, Kind, Query, Sighting
from nexus.memory.recall.order import Found, order
from nexus.memory.recall.presets import Preset, preset
from nexus.memory.recall.question import Question, gist, understand
from nexus.memory.recall.timing import timed

# Fetching and weighing what one sighting brings, its neighbours included; and what is always weighed.
_WEIGHING_MS = 2.0
_FEWEST = 10
_LATEST_SHARE = 0.6  # of the deadline that the arms may use; the rest is for ordering


class Recall:
    """A home's memory, ready to be asked. Without vectors it works by words alone."""

    def __init__(self, ledgers: Ledgers, vectors: Vectors | None, *, now: clock.Clock = clock.now) -> None:
        self._ledgers = ledgers
        self._vectors = vectors
        self._now = now

    async def find(self, query: Query) -> Answer:
        """The best results for a question; nothing where nothing is relevant."""
        started = time.perf_counter()
        found = await self.gather(query)
        answer = await asyncio.to_thread(order, found, query, self._now)
        answer.timings_ms["total"] = (time.perf_counter() - started) * 1000
        return answer

    async def gather(self, query: Query) -> Found:
        """Run the arms, then fetch what they saw and what was said around it."""
        started = time.perf_counter()
        limits = preset(query.budget)
        question = understand(query.text, self._now())
        timings: dict[str, float] = {}
        sightings, late, vector, entities = await self._arms(query, question, limits, timings)
        seen = [sighting for found in sightings.values() for sighting in found]
        if "causal" in limits.arms and "causal" not in late:
            facts = {sighting.id for sighting in seen if sighting.kind == "fact"}
            seen += await self._ledgers.memory.read(lambda c: arms.causal(c, facts, limits.candidates))
        left_ms = limits.deadline_ms - (time.perf_counter() - started) * 1000
        kinds = _visible_kinds(query)
        by_id = _affordable([sighting for sighting in seen if sighting.kind in kinds], left_ms)
        with timed(timings, "fetch"):
            stretches, idf = await loading.fetch(self._ledgers, question, by_id)
            stretches = surroundings.within(stretches, query.time_after, query.time_before)
        with timed(timings, "count"):
            cosine = self._cosine(vector, [item.id for stretch in stretches for item in stretch.items])
            built = await asyncio.to_thread(pool.build, question, stretches, cosine, idf)
        return Found(question, built, by_id, late, entities, timings)

    async def _arms(
        self, query: Query, question: Question, limits: Preset, timings: dict[str, float]
    ) -> tuple[dict[str, list[Sighting]], tuple[str, ...], Any, dict[str, str]]:
        box: dict[str, Any] = {"entities": {}}
        tasks = {
            asyncio.create_task(work, name=name)
            for name, work in self._work(query, question, limits, box, timings).items()
        }
        done, late = await asyncio.wait(tasks, timeout=limits.deadline_ms / 1000 * _LATEST_SHARE)
        for task in late:
            task.cancel()
        results = {task.get_name(): task.result() for task in done}
        return results, tuple(sorted(task.get_name() for task in late)), box.get("vector"), box["entities"]

    def _work(
        self, query: Query, question: Question, limits: Preset, box: dict[str, Any], timings: dict[str, float]
    ) -> Mapping[str, Coroutine[Any, Any, list[Sighting]]]:
        """The arms to run, by name."""
        size, recent = limits.candidates, limits.temporal_candidates
        events, memory = self._ledgers.events, self._ledgers.memory

        async def read(
            name: str, database: Any, work: Callable[[apsw.Connection], list[Sighting]]
        ) -> list[Sighting]:
            with timed(timings, name):
                return await database.read(work)

        async def semantic() -> list[Sighting]:
            return await self._semantic(query, question, limits, box, timings)

        async def graph() -> list[Sighting]:
            box["entities"] = await self._ledgers.identity.read(lambda c: arms.entities_named(c, question))
            wanted = [*box["entities"], *([query.entity_id] if query.entity_id else [])]
            return await read("graph", memory, lambda c: arms.graph(c, wanted, size))

        work = {
            "keyword": read(
                "keyword",
                events,
                lambda c: arms.keyword_events(c, question, query, size, limits.matched_rows),
            ),
            "keyword_facts": read(
                "keyword_facts",
                memory,
                lambda c: arms.keyword_facts(c, question, query, size, limits.matched_rows),
            ),
            "temporal": read("temporal", events, lambda c: arms.temporal_events(c, question, query, recent)),
            "temporal_facts": read(
                "temporal_facts", memory, lambda c: arms.temporal_facts(c, question, query, recent)
            ),
            "summaries": read("summaries", memory, lambda c: arms.summaries(c, question, size)),
            "gist": semantic(),
            "graph": graph(),
        }
        for name in [name for name in work if name.partition("_")[0] not in limits.arms]:
            work.pop(name).close()
        return work

    async def _semantic(
        self, query: Query, question: Question, limits: Preset, box: dict[str, Any], timings: dict[str, float]
    ) -> list[Sighting]:
        if self._vectors is None or not question.text.strip():
            return []
        await self._vectors.refresh()
        names = await self._ledgers.events.read(lambda c: arms.speakers_named(c, question))
        with timed(timings, "embed"):
            texts = [question.text, gist(question, names)]
            box["vector"] = await asyncio.to_thread(self._vectors.embedder.embed, texts)
        both = dict(zip(("semantic", "gist"), box["vector"], strict=True))
        wanted = {arm: vector for arm, vector in both.items() if arm in limits.arms}
        allowed = await self._allowed(query)
        with timed(timings, "semantic"):
            return await asyncio.to_thread(
                arms.semantic, self._vectors.index, wanted, allowed, limits.candidates
            )

    async def _allowed(self, query: Query) -> set[str] | None:
        scoped = (query.thread_ids is not None, query.channel, query.time_after, query.time_before)
        if not any(scoped):
            return None
        rows = await self._ledgers.events.read(
            lambda c: c.execute(arms.SQL["scoped_event_ids"], arms.scope(query)).fetchall()
        )
        return {str(row[0]) for row in rows}

    def _cosine(self, vectors: Any, ids: list[str]) -> dict[str, tuple[float, float]]:
        if self._vectors is None or vectors is None:
            return {}
        whole, bare = (self._vectors.index.scores(vector, ids).tolist() for vector in vectors)
        return dict(zip(ids, zip(whole, bare, strict=True), strict=True))


def _visible_kinds(query: Query) -> frozenset[Kind]:
    """Threads and channels are known of events alone: a scope of them shuts out what may rest on others."""
    narrowed = query.thread_ids is not None or query.channel is not None
    return query.kinds & frozenset[Kind]({"event"}) if narrowed else query.kinds


def _affordable(seen: list[Sighting], left_ms: float) -> dict[str, list[Sighting]]:
    """The sightings by id, the highest first, and no more than there is time to weigh."""
    by_id: dict[str, list[Sighting]] = {}
    for sighting in sorted(seen, key=lambda sighting: sighting.rank):
        by_id.setdefault(sighting.id, []).append(sighting)
    most = max(_FEWEST, int(left_ms / _WEIGHING_MS))
    return dict(list(by_id.items())[:most])
