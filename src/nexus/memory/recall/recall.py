"""Recall: from a question to the few things worth knowing, under a deadline, with reasons.

All of it is one pass, on one thread and one connection over the ledgers:
question → arms → the gate → what was said around → features → order → silence, diversity, budget
"""

import asyncio
import time
from collections.abc import Mapping, Sequence

import apsw

from nexus import clock
from nexus.ledgers import Ledgers
from nexus.memory.embedding.vectors import Vectors
from nexus.memory.recall import pool, ranker
from nexus.memory.recall.item import PATIENT_MS, Item, Matches, Query, Sighting, preset
from nexus.memory.recall.loading import Stretch, load_stretches, weigh_words
from nexus.memory.recall.order import Found, order
from nexus.memory.recall.question import find_home_language, understand
from nexus.memory.recall.reading import Deadline, LateError, timed
from nexus.memory.recall.reranker import Reranker
from nexus.memory.recall.scope import Scope, keep_permitted
from nexus.memory.recall.search import (
    ARMS,
    BY_MEANING,
    Arm,
    Search,
    find_causes,
    find_successions,
    kind_of,
)
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
        """Find the best results for a question, within its deadline; nothing where nothing is relevant.

        What was late is dropped and named in the answer.
        """
        started = time.perf_counter()
        deadline = _deadline(query)
        searches: list[Search] = []
        found: list[Found] = []
        passes: list[asyncio.Future[Matches]] = []

        def run(connection: apsw.Connection, vectors: Vectors | None, late: Sequence[str]) -> Matches:
            search = self._start(connection, query, deadline.part(_ARMS_SHARE), vectors)
            searches.append(search)
            found.append(self._gather(search, deadline, late))
            return order(found[-1], query, self._now, self.reranker, deadline.part(_RERANK_SHARE))

        try:
            async with asyncio.timeout(deadline.left_s):
                for_arms = deadline.part(_ARMS_SHARE)
                vectors, late = await self._follow_vectors(for_arms)
                passes.append(asyncio.ensure_future(self._ledgers.read(run, vectors, late)))
                done, _ = await asyncio.wait(passes, timeout=for_arms.left_s)
                if not done and searches and searches[-1].is_embedding:
                    # A model cannot be stopped: the rest is found without it, on another thread.
                    passes.append(asyncio.ensure_future(self._ledgers.read(run, None, BY_MEANING)))
                answer = await passes[-1]
        except TimeoutError:
            late = (*found[-1].late, "order") if found else ("fetch",)
            answer = Matches(results=(), late_arms=late)
        finally:
            # Also when whoever asked has given up and this is canceled.
            deadline.stop()
            for each in passes:
                each.cancel()
        answer.timings_ms["total"] = (time.perf_counter() - started) * 1000
        return answer

    async def gather(self, query: Query) -> Found:
        """Gather everything that would be ordered, without ordering it."""
        deadline = _deadline(query)
        vectors, late = await self._follow_vectors(deadline)

        def run(connection: apsw.Connection) -> Found:
            search = self._start(connection, query, deadline.part(_ARMS_SHARE), vectors)
            return self._gather(search, deadline, late)

        return await self._ledgers.read(run)

    async def knows(self, entity: str) -> bool:
        """Tell whether somebody or something has that id or name, or there is no time to see that not."""
        query = Query(text="", entity_id=entity, deadline_ms=PATIENT_MS)
        deadline = _deadline(query)

        def run(connection: apsw.Connection) -> bool:
            with deadline.guard(connection):
                narrowed = self._start(connection, query, deadline, None).narrow()
                return any(named.name for named in narrowed.values())

        try:
            return await self._ledgers.read(run)
        except LateError:
            return True

    async def keep_visible(self, ids: Sequence[str]) -> set[str]:
        """Keep the ids of facts, messages and conclusions that may be seen, however long it takes."""
        query = Query(text="", deadline_ms=PATIENT_MS)
        sightings = [Sighting(arm="id", kind=kind_of(id_), id=id_, rank=1, score=1.0) for id_ in ids]
        scope = Scope.of(query, self.visible, self._without)
        seen = await self._ledgers.read(keep_permitted, scope, sightings) if ids else []
        return {each.id for each in seen}

    async def load_items(self, ids: Sequence[str], *, deadline_ms: int = _LOOK_UP_MS) -> list[Item]:
        """Load the things of these ids, in this order, as far as they may be seen and come in time."""
        query = Query(text="", deadline_ms=deadline_ms)
        deadline = _deadline(query)

        def run(connection: apsw.Connection) -> list[Item]:
            search = self._start(connection, query, deadline, None)
            sightings = [Sighting(arm="id", kind=kind_of(id_), id=id_, rank=1, score=1.0) for id_ in ids]
            with deadline.guard(connection):
                seen = keep_permitted(connection, search.scope, sightings)
                stretches = load_stretches(search, {sighting.id: [sighting] for sighting in seen})
            items = {item.id: item for stretch in stretches for item in stretch.items}
            return [items[sighting.id] for sighting in seen if sighting.id in items]

        try:
            return await self._ledgers.read(run) if ids else []
        except LateError:
            return []

    async def _follow_vectors(self, deadline: Deadline) -> tuple[Vectors | None, Sequence[str]]:
        """Bring vectors that are far behind up to date; where that is late, name the arms that lack them."""
        if self._vectors is not None and self._vectors.mirror.is_behind:
            try:
                async with asyncio.timeout(deadline.left_s):
                    await self._vectors.mirror.refresh()
            except TimeoutError:
                return None, BY_MEANING
        return self._vectors, ()

    def _start(
        self, connection: apsw.Connection, query: Query, deadline: Deadline, vectors: Vectors | None
    ) -> Search:
        now = self._now()
        return Search(
            connection=connection,
            vectors=vectors,
            question=understand(query.text, now, find_home_language(connection, self._ledgers)),
            query=query,
            scope=Scope.of(query, self.visible, self._without),
            limits=preset(query.budget),
            deadline=deadline,
            now=now,
            by_owner=self.visible.everything,
        )

    def _gather(self, search: Search, deadline: Deadline, late: Sequence[str]) -> Found:
        """Run the arms, follow causes and successions, and load what was seen as far as time allows."""
        connection, timings = search.connection, search.timings_ms
        wanted = {
            name: arm for name, arm in self._arms.items() if name in search.limits.arms or name not in ARMS
        }
        sighted: dict[str, list[Sighting]] = {}
        missing = set(late)
        # What reads, then what asks a model, then what others have added: a late one costs none before it.
        for name in sorted(wanted, key=lambda name: (name not in ARMS, name in BY_MEANING)):
            try:
                with timed(timings, name), search.deadline.guard(connection):
                    sighted[name] = keep_permitted(connection, search.scope, wanted[name](search))
            except LateError:
                missing.add(name)
        seen = [sighting for name in wanted for sighting in sighted.get(name, ())]
        search.deadline = deadline.part(_FETCH_SHARE)
        by_id: dict[str, list[Sighting]] = {}
        stretches: list[Stretch] = []
        cosines: dict[str, tuple[float, float]] = {}
        idf: dict[str, float] = {}
        names = sorted(missing)
        try:
            with search.deadline.guard(connection):
                seen += keep_permitted(connection, search.scope, find_causes(search, seen))
                seen += keep_permitted(connection, search.scope, find_successions(search, seen))
                by_id = _choose_affordable(seen, search.deadline.left_ms)
                with timed(timings, "fetch"):
                    stretches = load_stretches(search, by_id)
                    cosines = _compare(search, [item.id for each in stretches for item in each.items])
            idf = weigh_words(search)
        except LateError:
            names.append("fetch")
            stretches = []
        with timed(timings, "count"):
            built = pool.build(search.question, stretches, cosines, idf, search.entities)
        known = None if search.embedded is None or search.vectors is None else search.vectors
        model_id = known and known.embedder.model_id
        return Found(search.question, built, by_id, tuple(names), search.entities, timings, model_id)


def _compare(search: Search, ids: list[str]) -> dict[str, tuple[float, float]]:
    """Compare what was found with the question and with its gist, where there are vectors."""
    if search.vectors is None or search.embedded is None or not ids:
        return {}
    cosines = search.vectors.mirror.compare(search.connection, search.embedded, ids)
    whole, bare = ranker.load().scaled(cosines, search.vectors.embedder.model_id).tolist()
    return dict(zip(ids, zip(whole, bare, strict=True), strict=True))


def _deadline(query: Query) -> Deadline:
    return Deadline(preset(query.budget).deadline_ms if query.deadline_ms is None else query.deadline_ms)


def _choose_affordable(seen: list[Sighting], left_ms: float) -> dict[str, list[Sighting]]:
    """Choose the sightings by id, the highest first, and no more than there is time to weigh."""
    by_id: dict[str, list[Sighting]] = {}
    for sighting in sorted(seen, key=lambda sighting: sighting.rank):
        by_id.setdefault(sighting.id, []).append(sighting)
    most = min(_MOST, max(_FEWEST, int(left_ms / _WEIGHING_MS)))
    return dict(list(by_id.items())[:most])
