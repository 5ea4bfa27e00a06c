"""Recall: from a question to the few things worth knowing, under a deadline, with reasons.

question → arms, in parallel → the gate → what was said around → features → order → silence, diversity, budget
"""

import asyncio
import time
from collections.abc import Mapping, Sequence

from nexus import clock
from nexus.ledgers import Ledgers
from nexus.memory.embedding.vectors import Floats, Vectors
from nexus.memory.languages import DEFAULT
from nexus.memory.recall import arms, loading, pool, ranker, surroundings
from nexus.memory.recall.item import PATIENT_MS, Item, Matches, Query, Sighting, preset
from nexus.memory.recall.order import Found, order
from nexus.memory.recall.question import home_language, understand
from nexus.memory.recall.reading import Deadline, LateError, timed
from nexus.memory.recall.reranker import Reranker
from nexus.memory.recall.scope import Scope, permitted
from nexus.memory.recall.search import ARMS, Arm, Search
from nexus.request import EVERYTHING, Visibility

# Fetching and weighing what one sighting brings, its neighbours included; what is always weighed, and
# what is enough however much time there is.
_WEIGHING_MS = 2.0
_FEWEST, _MOST = 10, 500
# Of the deadline: what the arms may use, and by when everything must be fetched. Then it is ordered.
_ARMS_SHARE = 0.6
_FETCH_SHARE = 0.85
# Of what is then left: what a reranker may use, the batch apart that it has begun.
_RERANK_SHARE = 0.5
_LOOK_UP_MS = 1_000


class Recall:
    """A home's memory, ready to be asked by one principal. Without vectors it works by words alone."""

    def __init__(
        self,
        ledgers: Ledgers,
        vectors: Vectors | None,
        *,
        visible: Visibility = EVERYTHING,
        without: frozenset[str] = frozenset(),
        now: clock.Clock = clock.now,
        arms: Mapping[str, Arm] = ARMS,
        reranker: Reranker | None = None,
    ) -> None:
        self._ledgers = ledgers
        self._vectors = vectors
        self.visible = visible
        # Ids of what is never an answer, such as the message for which the memory is asked.
        self._without = without
        self._now = now
        self._arms = arms
        self.reranker = reranker

    async def find(self, query: Query) -> Matches:
        """The best results for a question, within its budget's deadline; nothing where nothing is relevant.

        What was late is dropped and named in the answer.
        """
        started = time.perf_counter()
        deadline = _deadline(query)
        found: Found | None = None
        try:
            async with asyncio.timeout(deadline.left_s):
                found = await self._gather(query, deadline)
                rerank_until = deadline.part(_RERANK_SHARE)
                answer = await asyncio.to_thread(order, found, query, self._now, self.reranker, rerank_until)
        except TimeoutError:
            late = ("fetch",) if found is None else (*found.late, "order")
            answer = Matches(results=(), late_arms=late)
        answer.timings_ms["total"] = (time.perf_counter() - started) * 1000
        return answer

    async def knows(self, entity: str) -> bool:
        """Whether there is somebody or something of that id or name, or no time to see that there isn't."""
        query = Query(text="", entity_id=entity, deadline_ms=PATIENT_MS)
        search = self._search(query, _deadline(query))
        try:
            return any(named.name for named in (await search.narrowed()).values())
        except LateError:
            return True

    async def known(self, ids: Sequence[str], *, deadline_ms: int = _LOOK_UP_MS) -> list[Item]:
        """The things of these ids, in this order, as far as they are there, may be seen, and come in time."""
        query = Query(text="", deadline_ms=deadline_ms)
        search = self._search(query, _deadline(query))
        sightings = [Sighting(arm="id", kind=arms.kind_of(id_), id=id_, rank=1, score=1.0) for id_ in ids]
        try:
            seen = await permitted(self._ledgers, search.scope, sightings, search.deadline)
            stretches, _ = await loading.fetch(search, {sighting.id: [sighting] for sighting in seen})
        except LateError:
            return []
        items = {item.id: item for stretch in stretches for item in stretch.items}
        return [items[sighting.id] for sighting in seen if sighting.id in items]

    async def gather(self, query: Query) -> Found:
        """Everything that would be ordered, without ordering it."""
        return await self._gather(query, _deadline(query))

    async def _gather(self, query: Query, deadline: Deadline) -> Found:
        search = self._search(query, deadline.part(_ARMS_SHARE), await home_language(self._ledgers))
        try:
            seen, late = await self._look(search)
            search.deadline = deadline.part(_FETCH_SHARE)
            return await self._fetched(search, seen, late)
        finally:
            search.abandon()

    def _search(self, query: Query, deadline: Deadline, language: str = DEFAULT) -> Search:
        now = self._now()
        return Search(
            ledgers=self._ledgers,
            vectors=self._vectors,
            question=understand(query.text, now, language),
            query=query,
            scope=Scope.of(query, self.visible, self._without),
            limits=preset(query.budget),
            deadline=deadline,
            now=now,
            by_owner=self.visible.everything,
        )

    async def _look(self, search: Search) -> tuple[list[Sighting], list[str]]:
        """Run the arms side by side; those that are late are dropped and named."""
        wanted = {
            name: arm for name, arm in self._arms.items() if name in search.limits.arms or name not in ARMS
        }
        tasks = {asyncio.create_task(self._run(name, arm, search)): name for name, arm in wanted.items()}
        done: set[asyncio.Task[list[Sighting]]] = set()
        try:
            if tasks:
                done, _ = await asyncio.wait(tasks, timeout=search.deadline.left_s)
        finally:
            # Also when whoever asked has given up and this is canceled.
            for task in tasks:
                task.cancel()
                task.add_done_callback(_heard)
        seen: list[Sighting] = []
        late: list[str] = []
        for task, name in tasks.items():
            try:
                seen += task.result() if task in done else []
            except LateError:
                done.discard(task)
            if task not in done:
                late.append(name)
        return seen, sorted(late)

    async def _run(self, name: str, arm: Arm, search: Search) -> list[Sighting]:
        with timed(search.timings_ms, name):
            return await permitted(self._ledgers, search.scope, await arm(search), search.deadline)

    async def _fetched(self, search: Search, seen: list[Sighting], late: list[str]) -> Found:
        """Follow causes, then fetch what was seen and what was said around it, as far as time allows."""
        timings, scope = search.timings_ms, search.scope
        by_id: dict[str, list[Sighting]] = {}
        built = pool.build(search.question, [], {}, {})
        try:
            seen = seen + await self._causes(search, seen)
            seen = seen + await self._successions(search, seen)
            by_id = _affordable(seen, search.deadline.left_ms)
            with timed(timings, "fetch"):
                stretches, idf = await loading.fetch(search, by_id)
                stretches = surroundings.within(stretches, scope)
            with timed(timings, "count"):
                cosine = await self._cosine(search.embedded, [i.id for s in stretches for i in s.items])
                built = await asyncio.to_thread(
                    pool.build, search.question, stretches, cosine, idf, search.entities
                )
        except LateError:
            late = [*late, "fetch"]
        return Found(
            search.question,
            built,
            by_id,
            tuple(late),
            search.entities,
            timings,
            None if search.embedded is None or self._vectors is None else self._vectors.embedder.model_id,
        )

    async def _causes(self, search: Search, seen: list[Sighting]) -> list[Sighting]:
        facts = {sighting.id for sighting in seen if sighting.kind == "fact"}
        if "causal" not in search.limits.arms or not facts:
            return []
        limit = search.limits.candidates
        found = await search.read(self._ledgers.memory, arms.causal, facts, limit)
        return await permitted(self._ledgers, search.scope, found, search.deadline)

    async def _successions(self, search: Search, seen: list[Sighting]) -> list[Sighting]:
        """What replaced the facts that were found, and what they replaced."""
        if not any(sighting.kind == "fact" for sighting in seen):
            return []
        limit = search.limits.candidates
        found = await search.read(self._ledgers.memory, arms.successions, seen, limit)
        return await permitted(self._ledgers, search.scope, found, search.deadline)

    async def _cosine(self, vectors: Floats | None, ids: list[str]) -> dict[str, tuple[float, float]]:
        if self._vectors is None or vectors is None or not ids:
            return {}
        cosines = await self._vectors.mirror.scores(vectors, ids)
        whole, bare = ranker.load().scaled(cosines, self._vectors.embedder.model_id).tolist()
        return dict(zip(ids, zip(whole, bare, strict=True), strict=True))


def _heard(task: asyncio.Task[list[Sighting]]) -> None:
    """An arm that is late as well as cancelled fails after everybody has left."""
    if not task.cancelled():
        task.exception()


def _deadline(query: Query) -> Deadline:
    return Deadline(preset(query.budget).deadline_ms if query.deadline_ms is None else query.deadline_ms)


def _affordable(seen: list[Sighting], left_ms: float) -> dict[str, list[Sighting]]:
    """The sightings by id, the highest first, and no more than there is time to weigh."""
    by_id: dict[str, list[Sighting]] = {}
    for sighting in sorted(seen, key=lambda sighting: sighting.rank):
        by_id.setdefault(sighting.id, []).append(sighting)
    most = min(_MOST, max(_FEWEST, int(left_ms / _WEIGHING_MS)))
    return dict(list(by_id.items())[:most])
