"""Recall: from a question to the few things worth knowing, under a deadline, with reasons.

All of it is one pass, on one thread and one connection over the ledgers:
question → arms → the scope check → what was said around → features → order → strength, duplicates, budget

The ranks of the arms are not fused into a score: whatever any arm saw is scored anew by its features. An
arm's rank only decides what is loaded if there is no time for everything.
"""

import asyncio
import json
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import apsw

from nexus import clock
from nexus.ledgers import Ledgers
from nexus.ledgers.memory import How
from nexus.memory.digest import make_digests
from nexus.memory.embedding.vectors import Vectors
from nexus.memory.recall import features, ranker
from nexus.memory.recall.item import (
    CANDIDATE_REACH,
    CONTEXT_REACH,
    PATIENT_MS,
    Basis,
    Item,
    Link,
    Matches,
    Query,
    Replacement,
    Sighting,
    Stretch,
    preset,
)
from nexus.memory.recall.order import Gathered, order
from nexus.memory.recall.question import find_home_language, understand
from nexus.memory.recall.reading import SQL, Deadline, LateError, timed
from nexus.memory.recall.reranker import Reranker
from nexus.memory.recall.search import (
    ARMS,
    BY_MEANING,
    Arm,
    Scope,
    Search,
    find_causes,
    find_successions,
    keep_permitted,
    kind_of,
)
from nexus.memory.recall.words import function_words, says_name, tokens
from nexus.request import EVERYTHING, Visibility

# Milliseconds to fetch and weigh one sighting with its neighbors; the fewest and the most to weigh.
_WEIGHING_MS = 2.0
_FEWEST, _MOST = 10, 500
# What the arms may use of the time that there is; then, of what is left each time, what fetching may use, and
# a reranker, not counting a batch already begun.
_ARMS_SHARE = 0.6
_FETCH_SHARE = 0.85
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
        """Find the best results for a question, within its deadline, each marked strong or weak.

        Arms that miss the deadline are dropped and listed in `late_arms`.
        """
        started = time.perf_counter()
        deadline = _deadline(query)
        searches: list[Search] = []
        gathered: list[Gathered] = []
        passes: list[asyncio.Future[Matches]] = []

        def run(connection: apsw.Connection, vectors: Vectors | None, late: Sequence[str]) -> Matches:
            search = self._start(connection, query, deadline.part(_ARMS_SHARE), vectors)
            searches.append(search)
            gathered.append(self._gather(search, deadline, late))
            return order(gathered[-1], query, self._now, self.reranker, deadline.part(_RERANK_SHARE))

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
            late = (*gathered[-1].late, "order") if gathered else ("fetch",)
            answer = Matches(results=(), late_arms=late)
        finally:
            # Also if the caller cancels this.
            deadline.stop()
            for each in passes:
                each.cancel()
        answer.timings_ms["total"] = (time.perf_counter() - started) * 1000
        return answer

    async def gather(self, query: Query) -> Gathered:
        """Gather everything that would be ordered, without ordering it."""
        deadline = _deadline(query)
        vectors, late = await self._follow_vectors(deadline)

        def run(connection: apsw.Connection) -> Gathered:
            search = self._start(connection, query, deadline.part(_ARMS_SHARE), vectors)
            return self._gather(search, deadline, late)

        return await self._ledgers.read(run)

    async def knows(self, entity: str) -> bool:
        """Return whether an entity has this id or name; True as well if the deadline passes first."""
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
        """Refresh vectors that are far behind; if that takes too long, return the arms that lack them."""
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

    def _gather(self, search: Search, deadline: Deadline, late: Sequence[str]) -> Gathered:
        """Run the arms, follow causes and successions, and load what was seen as far as time allows."""
        connection, timings = search.connection, search.timings_ms
        wanted = {
            name: arm for name, arm in self._arms.items() if name in search.limits.arms or name not in ARMS
        }
        sighted: dict[str, list[Sighting]] = {}
        missing = set(late)
        # Order: SQL arms, model arms, added arms, so a slow arm delays only those after it.
        for name in sorted(wanted, key=lambda name: (name not in ARMS, name in BY_MEANING)):
            try:
                with timed(timings, name), search.deadline.guard(connection):
                    sighted[name] = search.keep_permitted(wanted[name](search))
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
                seen += search.keep_permitted(find_causes(search, seen))
                seen += search.keep_permitted(find_successions(search, seen))
                by_id = _choose_affordable(seen, search.deadline.left_ms)
                with timed(timings, "fetch"):
                    stretches = load_stretches(search, by_id)
                    cosines = _compare(search, [item.id for each in stretches for item in each.items])
            idf = weigh_words(search)
        except LateError:
            names.append("fetch")
            stretches = []
        with timed(timings, "count"):
            built = features.build_pool(search.question, stretches, cosines, idf, search.entities)
        known = None if search.embedded is None or search.vectors is None else search.vectors
        model_id = known and known.embedder.model_id
        return Gathered(search.question, built, by_id, tuple(names), search.entities, timings, model_id)


def _compare(search: Search, ids: list[str]) -> dict[str, tuple[float, float]]:
    """Compare what was found with the question and with its gist, where there are vectors."""
    if search.vectors is None or search.embedded is None or not ids:
        return {}
    cosines = search.vectors.mirror.compare(search.connection, search.embedded, ids)
    of_question, of_gist = ranker.load().scaled(cosines, search.vectors.embedder.model_id).tolist()
    return dict(zip(ids, zip(of_question, of_gist, strict=True), strict=True))


def _deadline(query: Query) -> Deadline:
    return Deadline(preset(query.budget).deadline_ms if query.deadline_ms is None else query.deadline_ms)


def _choose_affordable(seen: list[Sighting], left_ms: float) -> dict[str, list[Sighting]]:
    """Choose the sightings by id, the highest first, and no more than there is time to weigh."""
    by_id: dict[str, list[Sighting]] = {}
    for sighting in sorted(seen, key=lambda sighting: sighting.rank):
        by_id.setdefault(sighting.id, []).append(sighting)
    most = min(_MOST, max(_FEWEST, int(left_ms / _WEIGHING_MS)))
    return dict(list(by_id.items())[:most])


_MOST_LINKS = 5


def load_stretches(search: Search, sightings: Mapping[str, list[Sighting]]) -> list[Stretch]:
    """Load the stretches that hold what was seen, and mark in each what may be an answer."""
    ids: dict[str, list[str]] = {"event": [], "entity": [], "memory": []}
    for id_, seen in sightings.items():
        ids[seen[0].kind if seen[0].kind in ids else "memory"].append(id_)
    stretches = load_surroundings(search.connection, ids["event"]) if ids["event"] else []
    items = _load_memories(search, ids["memory"]) if ids["memory"] else []
    items += (
        [_entity(row) for row in search.read("entities", (json.dumps(ids["entity"]),))]
        if ids["entity"]
        else []
    )
    stretches += [Stretch([item], [True]) for item in items]
    scope, query = search.scope, search.query
    if query.entity_id is not None:
        # Only what is tied to the entity that was asked for, or names it, may be an answer.
        family = search.narrow()
        given = json.dumps(list(family))
        names = [name for (name,) in search.read("names_of_entities", (given,))]
        known = json.dumps([item.id for each in stretches for item in each.items if item.kind != "event"])
        about = search.read("about_entities", {"ids": known, "entities": given})
        tied = {row[0] for row in about} | family.keys()
        stretches = [
            each.keep(lambda item: item.id in tied or (item.kind == "event" and _names(item, names)))
            for each in stretches
        ]
    if query.for_task:
        # Messages that facts were taken from lend their words and are no answers.
        said = [item.id for each in stretches for item in each.items if item.kind == "event"]
        gone = {id_ for (id_,) in search.read("retained", (json.dumps(said),))} if said else set[str]()
        stretches = [each.keep(lambda item: item.id not in gone) for each in stretches] if gone else stretches
    if scope.after is not None or scope.before is not None or scope.without:
        # Neighbors share the thread of what was seen, and so its place, but not its time.
        stretches = [
            each.keep(lambda item: scope.holds_time(item.at) and item.id not in scope.without)
            for each in stretches
        ]
    return stretches


def weigh_words(search: Search) -> dict[str, float]:
    """Weigh each word of the question by its inverse document frequency, over events and facts together."""
    holding, total = dict.fromkeys(search.question.terms, 0), 0
    term_of = {form: term for term, form in search.question.forms.items()}
    # An arm that was late leaves its counts unknown; the words then count alike.
    with suppress(LateError), search.deadline.guard(search.connection):
        for log in ("event", "fact"):
            found = search.count_words(log)
            total += found.newest
            for word in found.words:
                holding[term_of[word.word]] += word.rows
    return {term: math.log(1 + (max(total - rows, 0) + 0.5) / (rows + 0.5)) for term, rows in holding.items()}


def load_surroundings(connection: apsw.Connection, event_ids: Collection[str]) -> list[Stretch]:
    """Load the stretches of conversation that hold the events, oldest first within each."""
    given = {"ids": json.dumps(list(event_ids)), "reach": CANDIDATE_REACH + CONTEXT_REACH}
    rows = connection.execute(SQL["event_places"], given).fetchall()
    follows: dict[int, int] = {}
    near: set[int] = set()
    every: set[int] = set()
    for seq, before, after in cast("list[tuple[int, str | None, str | None]]", rows):
        earlier = [int(each) for each in before.split(",")][::-1] if before else []
        later = [int(each) for each in after.split(",")] if after else []
        seqs, at = [*earlier, seq, *later], len(earlier)
        every.update(seqs)
        near.update(seqs[max(0, at - CANDIDATE_REACH) : at + CANDIDATE_REACH + 1])
        follows.update(pairwise(seqs))
    found = connection.execute(SQL["events"], (json.dumps(sorted(every)),))
    items = {
        seq: Item(
            kind="event",
            seq=seq,
            id=id_,
            text=text,
            at=at,
            speaker=speaker,
            outbound=direction == "outbound",
            thread_id=thread_id,
            source_event_id=id_,
        )
        for seq, id_, text, at, speaker, direction, thread_id in cast(
            "list[tuple[Any, ...]]", found.fetchall()
        )
    }
    # Overlapping stretches become one.
    inner = set(follows.values())
    stretches: list[Stretch] = []
    for start in sorted(seq for seq in items if seq not in inner):
        chain: list[int] = []
        seq: int | None = start
        while seq is not None:
            chain.append(seq)
            seq = follows.get(seq)
        stretches.append(
            Stretch([items[s] for s in chain], [s in near and items[s].text.strip() != "" for s in chain])
        )
    return stretches


def _load_memories(search: Search, ids: Sequence[str]) -> list[Item]:
    """Load facts, observations, mental models and episodes, with causes and successors that may be seen."""
    given = {"ids": json.dumps(ids), "now": clock.timestamp(search.now)}
    items = [_fact(row) for row in search.read("facts", given)] if ids else []
    # Not by how an id begins: whoever adds a row with plain SQL chooses its id.
    facts = {item.id for item in items}
    others = [id_ for id_ in ids if id_ not in facts]
    items += [_summary(row) for row in search.read("summaries", (json.dumps(others),))] if others else []
    blank = [item.id for item in items if not item.text.strip()]
    if blank:
        made = make_digests(search.connection, blank)
        items = [replace(item, text=made[item.id].summary) if item.id in made else item for item in items]
        items = [item for item in items if item.text.strip()]
    items = _date_episodes(search, _link_causes(search, items))
    successors = {by.id for item in items for by in (item.replaced_by, item.outdated_by) if by}
    if search.scope.places.everything or not successors:
        return items
    successors |= {by.next_id for item in items if (by := item.replaced_by) and by.next_id}
    allowed = _keep_visible(search, successors, without=search.scope.without)
    seen = {item.id: item.text for item in items if item.id in allowed}
    for at, item in enumerate(items):
        by, newer = item.replaced_by, item.outdated_by
        kept = by and _cut_chain(by, allowed, seen)
        if kept is not by or (newer and newer.id not in allowed):
            items[at] = replace(
                item, replaced_by=kept, outdated_by=newer if newer and newer.id in allowed else None
            )
    return items


def _cut_chain(by: Replacement, allowed: Collection[str], seen: Mapping[str, str]) -> Replacement | None:
    """Let a chain end with what replaced the fact directly where only that may be seen."""
    if by.id in allowed:
        return by
    if by.next_id is None or by.next_id not in seen:
        return None
    return replace(by, id=by.next_id, text=seen[by.next_id], next_id=None)


def _date_episodes(search: Search, items: list[Item]) -> list[Item]:
    """Mark each episode whose text still says what a fact learned in it said before it was replaced."""
    language = search.question.language
    said = {item.id: set(tokens(item.text, language)) for item in items if item.kind == "episode"}
    if not said:
        return items
    outdated: dict[str, tuple[str, Link]] = {}
    found = search.read("replaced_in_episodes", (json.dumps(list(said)),))
    for id_, old, at, newer_id, newer in sorted(found, key=lambda row: str(row[2])):
        before, after = set(tokens(old, language)), set(tokens(newer, language))
        lost, gained = (each - function_words(language) for each in (before - after, after - before))
        # Of a long fact an episode says half; one that says the new value as well tells of the change.
        if lost and len(lost & said[id_]) >= len(lost) / 2 and not (gained and gained <= said[id_]):
            outdated[id_] = at, Link(newer_id, newer, "newer")
    return [
        replace(item, stale_since=outdated[item.id][0], outdated_by=outdated[item.id][1])
        if item.id in outdated
        else item
        for item in items
    ]


def _link_causes(search: Search, items: list[Item]) -> list[Item]:
    """Add the causes and effects of the facts that the asker may see."""
    facts = [item.id for item in items if item.kind == "fact"]
    rows = search.read("causal_links", (json.dumps(facts),)) if facts else []
    if not rows:
        return items
    seen = _keep_visible(search, {id_ for row in rows for id_ in (row[0], row[2])})
    causes: dict[str, list[Link]] = {}
    effects: dict[str, list[Link]] = {}
    for cause, cause_text, effect, effect_text, relation in rows:
        if cause in seen and effect in seen:
            causes.setdefault(effect, []).append(Link(cause, cause_text, relation))
            effects.setdefault(cause, []).append(Link(effect, effect_text, relation))
    return [
        replace(
            item,
            caused_by=tuple(causes.get(item.id, ())[:_MOST_LINKS]),
            leads_to=tuple(effects.get(item.id, ())[:_MOST_LINKS]),
        )
        for item in items
    ]


def _keep_visible(search: Search, fact_ids: set[str], without: frozenset[str] = frozenset()) -> set[str]:
    """Keep the facts that the asker may see, whatever time was asked for."""
    scope = Scope(
        places=search.scope.places, kinds=frozenset({"fact"}), after=None, before=None, without=without
    )
    sightings = [Sighting(arm="id", kind="fact", id=id_, rank=1, score=1.0) for id_ in sorted(fact_ids)]
    return {each.id for each in keep_permitted(search.connection, scope, sightings, search.list_places())}


def _names(item: Item, names: Iterable[str]) -> bool:
    said = f"{item.speaker or ''} {item.text}"
    return any(says_name(said, name) for name in names)


def _fact(row: tuple[Any, ...]) -> Item:
    # The columns of the statement `facts`; `by` begins with `end_id`.
    id_, text, at, seq, source_event_id, confidence, source_type, source, target, stale_since, *by = row
    return Item(
        kind="fact",
        id=id_,
        text=text,
        at=at,
        seq=seq,
        source_event_id=source_event_id,
        confidence=confidence,
        source_type=source_type,
        stale_since=stale_since,
        entity_ids=tuple(entity for entity in (source, target) if entity),
        subject_id=source,
        replaced_by=_replacement(*by) if by[0] else None,
    )


def _replacement(
    id_: str, text: str, at: str, how: How, basis: Basis, signals: str, next_id: str
) -> Replacement:
    return Replacement(
        id=id_,
        text=text,
        at=at,
        how=how,
        basis=basis,
        signals=_read_signals(signals),
        next_id=next_id if next_id != id_ else None,
    )


@lru_cache(maxsize=1024)
def _read_signals(signals: str) -> tuple[str, ...]:
    return tuple(json.loads(signals))


def _summary(row: tuple[Any, ...]) -> Item:
    kind, id_, text, at, confidence, stale_since, subject, newer_id, newer = row
    return Item(
        kind=kind,
        id=id_,
        text=text,
        at=at,
        confidence=confidence,
        stale_since=stale_since,
        entity_ids=(subject,) if subject else (),
        subject_id=subject,
        outdated_by=Link(newer_id, newer, "newer") if newer_id else None,
    )


def _entity(row: tuple[Any, ...]) -> Item:
    id_, name, type_, summary, at, source_event_id, aliases, details = row
    text = f"{name} ({type_})" + (f", also {aliases}" if aliases else "")
    text += (f"; {details}" if details else "") + (f": {summary}" if summary else "")
    return Item(
        kind="entity",
        id=id_,
        text=text,
        at=at,
        source_event_id=source_event_id,
        entity_ids=(id_,),
        subject_id=id_,
    )
