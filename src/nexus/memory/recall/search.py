"""One recall under way: the question, its scope and deadline, and the arms that look for it.

`ARMS` names every arm. A program may give `Recall` others beside them; a preset says which of them a
budget uses, and those that it does not know are always used.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, ParamSpec, TypeVar

import apsw
import numpy as np

from nexus.ledgers import Ledgers
from nexus.ledgers.database import Database, Work
from nexus.memory.embedding.vectors import Floats, Vectors
from nexus.memory.recall import arms, naming
from nexus.memory.recall.item import Named, Preset, Query, Sighting
from nexus.memory.recall.question import Question, gist
from nexus.memory.recall.reading import SQL, Deadline, timed
from nexus.memory.recall.referents import Referents
from nexus.memory.recall.scope import Scope

P = ParamSpec("P")
T = TypeVar("T")

# A scope of no more is searched by meaning through and through; in a wider one the nearest of all are
# looked at, so many times the limit, and those outside are dropped.
_SMALL_SCOPE = 5_000
_WIDER = 8
# A question that was asked in a conversation is itself one of the places where its words occur.
_HARDLY_USED = 2


@dataclass(kw_only=True)
class Search:
    """What the arms share. Whatever two of them need is looked up once."""

    ledgers: Ledgers
    vectors: Vectors | None
    question: Question
    query: Query
    scope: Scope
    limits: Preset
    deadline: Deadline
    now: datetime
    # Whether the owner asks: "my" is somebody else's word otherwise.
    by_owner: bool = True
    timings_ms: dict[str, float] = field(default_factory=dict[str, float])
    embedded: Floats | None = None
    entities: dict[str, Named] = field(default_factory=dict[str, Named])
    _shared: dict[str, asyncio.Task[object]] = field(default_factory=dict[str, "asyncio.Task[object]"])

    async def read(self, database: Database, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask a ledger; when the time has run out, the statement is interrupted."""
        return await self.deadline.read(database, work, *args, **kwargs)

    async def frequencies(self, log: arms.Log) -> arms.Frequencies:
        """How frequent each word of the question is in a log."""
        database = self.ledgers.events if log == "event" else self.ledgers.memory
        return await self._once(
            f"frequencies of {log}",
            lambda: self.read(database, arms.frequencies, self.question, log),
        )

    async def vectors_of_question(self) -> Floats:
        """Two unit vectors: of the question as it was asked, and of its gist."""
        return await self._once("embed", self._embed)

    async def named(self) -> dict[str, Named]:
        """The entities that the question names, means or was narrowed to; `Named.via` says how."""
        return await self._once("entities", self._entities)

    async def narrowed(self) -> dict[str, Named]:
        """The entities that the query was narrowed to: by id, by name, as `me` or as `my husband`."""
        given = self.query.entity_id
        if given is None:
            return {}
        known = await self.read(self.ledgers.identity, naming.narrowed_to, given)
        if any(named.name for named in known.values()) or not self.by_owner:
            return known
        meant = await Referents(self.ledgers, self.deadline).of(given)
        meant = {
            id_: replace(named, via="filter")
            for id_, named in meant.items()
            if named.said.lower() == given.lower()
        }
        return meant or known

    async def _embed(self) -> Floats:
        assert self.vectors is not None  # noqa: S101 - an invariant, for the reader and the type checker
        names = await self.read(self.ledgers.events, arms.speakers_named, self.question)
        texts = [self.question.text, gist(self.question, names)]
        with timed(self.timings_ms, "embed"):
            self.embedded = await asyncio.to_thread(self.vectors.embedder.embed_queries, texts)
        return self.embedded

    async def _entities(self) -> dict[str, Named]:
        unknown = await self._unknown_words()

        def work(connection: apsw.Connection) -> dict[str, Named]:
            found = naming.entities_misspelt(connection, unknown, self.question.language)
            return found | naming.entities_named(connection, self.question)

        meant: dict[str, Named] = {}
        if self.by_owner:
            referents = Referents(self.ledgers, self.deadline)
            meant = await referents.of(self.question.text, self.question.language)
        self.entities = meant | await self.read(self.ledgers.identity, work) | await self.narrowed()
        return self.entities

    async def _unknown_words(self) -> set[str]:
        """Words of the question that hardly anybody has used: one of them may be a name with a slip."""
        rows = Counter(dict.fromkeys(self.question.forms.values(), 0))
        for log in ("event", "fact"):
            for found in (await self.frequencies(log)).words:
                rows[found.word] += found.rows
        return {word for word, count in rows.items() if count <= _HARDLY_USED}

    async def _once(self, name: str, start: Callable[[], Awaitable[T]]) -> T:
        async def run() -> object:
            return await start()

        if name not in self._shared:
            self._shared[name] = asyncio.create_task(run())
            self._shared[name].add_done_callback(_heard)
        return await asyncio.shield(self._shared[name])  # type: ignore[return-value]

    def abandon(self) -> None:
        """Stop what was shared and nobody waits for any more."""
        for task in self._shared.values():
            task.cancel()


def _heard(task: "asyncio.Task[object]") -> None:
    """An arm that was dropped no longer waits for what it shared with others."""
    if not task.cancelled():
        task.exception()


Arm = Callable[[Search], Awaitable[list[Sighting]]]
"""A way to find candidates: best first, for the gate and the ranker to judge."""


async def _keyword_events(search: Search) -> list[Sighting]:
    found = (await search.frequencies("event")).words
    limits = search.limits
    return await search.read(
        search.ledgers.events,
        arms.keyword,
        "event",
        found,
        search.scope,
        limits.candidates,
        limits.matched_rows,
    )


async def _keyword_facts(search: Search) -> list[Sighting]:
    found = (await search.frequencies("fact")).words
    limits = search.limits
    return await search.read(
        search.ledgers.memory,
        arms.keyword,
        "fact",
        found,
        search.scope,
        limits.candidates,
        limits.matched_rows,
    )


async def _summaries(search: Search) -> list[Sighting]:
    found = (await search.frequencies("summary")).words
    limits = search.limits
    return await search.read(
        search.ledgers.memory,
        arms.keyword,
        "summary",
        found,
        search.scope,
        limits.candidates,
        limits.matched_rows,
    )


async def _temporal_events(search: Search) -> list[Sighting]:
    if search.question.window is None:
        return []
    limit = search.limits.temporal_candidates
    return await search.read(
        search.ledgers.events, arms.temporal_events, search.question, search.scope, limit
    )


async def _temporal_memory(search: Search) -> list[Sighting]:
    if search.question.window is None:
        return []
    limit = search.limits.temporal_candidates
    return await search.read(search.ledgers.memory, arms.temporal_memory, search.question, limit)


async def _graph(search: Search) -> list[Sighting]:
    # The owner is behind every question: what is new about them says nothing about this one.
    entities = {id_: named for id_, named in (await search.named()).items() if not named.is_owner}
    if not entities:
        return []
    limit = search.limits.candidates
    facts = await search.read(search.ledgers.memory, arms.graph, entities, limit)
    about = await search.read(search.ledgers.memory, arms.conclusions, entities, limit)
    themselves = [
        Sighting(arm="graph", kind="entity", id=id_, rank=rank, score=1.0)
        for rank, id_ in enumerate(entities, start=1)
    ]
    return [*themselves, *about, *facts]


async def _semantic(search: Search) -> list[Sighting]:
    return await _nearest(search, "semantic", 0)


async def _gist(search: Search) -> list[Sighting]:
    return await _nearest(search, "gist", 1)


async def _nearest(search: Search, arm: str, which: int) -> list[Sighting]:
    if search.vectors is None or not search.question.text.strip():
        return []
    mirror = search.vectors.mirror
    _, vectors, allowed = await asyncio.gather(
        mirror.refresh(), search.vectors_of_question(), _allowed(search)
    )
    limit = search.limits.candidates
    wide = limit if search.scope.open or allowed is not None else limit * _WIDER
    with timed(search.timings_ms, "nearest"):
        (hits,) = await mirror.search(np.stack([vectors[which]]), wide, allowed)
    return [
        Sighting(arm=arm, kind=arms.kind_of(id_), id=id_, rank=rank, score=float(score))
        for rank, (id_, score) in enumerate(zip(hits.ids, hits.scores, strict=True), start=1)
    ]


async def _allowed(search: Search) -> set[str] | None:
    """The ids inside a small scope; None for an open one and for one too wide to list."""
    if search.scope.open:
        return None
    most = {"limit": _SMALL_SCOPE + 1, **search.scope.parameters}

    def ids(connection: apsw.Connection, name: str, **more: str | None) -> list[str]:
        return [str(row[0]) for row in connection.execute(SQL[name], {**most, **more})]

    events = await search.read(search.ledgers.events, ids, "events_in_scope")
    placed = None if search.scope.places.everything else json.dumps(events)
    facts = await search.read(search.ledgers.memory, ids, "facts_in_scope", events=placed)
    return None if max(len(events), len(facts)) > _SMALL_SCOPE else {*events, *facts}


ARMS: Final[Mapping[str, Arm]] = {
    "keyword_events": _keyword_events,
    "keyword_facts": _keyword_facts,
    "summaries": _summaries,
    "semantic": _semantic,
    "gist": _gist,
    "temporal_events": _temporal_events,
    "temporal_memory": _temporal_memory,
    "graph": _graph,
}
