"""Keep `fact_successions` up to date: find, for each new fact, the one that it replaces.

The links can be thrown away and derived again. A position in the log says how far the search has come, so
a pass costs nothing where nothing is new; it goes as far as facts have their vectors.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import apsw
import numpy as np

from nexus.ledgers import Ledgers, sql
from nexus.ledgers.memory import How
from nexus.ledgers.sql import load_statements
from nexus.memory.embedding.job import Thread
from nexus.memory.embedding.vectors import Floats, Vectors
from nexus.memory.succession import judge
from nexus.memory.succession.judge import Link
from nexus.memory.succession.pairs import UNNAMED, Statement, opening_names, stems_of
from nexus.memory.writing import SCOPED_CHANNELS

SQL: Final = load_statements(Path(__file__).with_name("queries.sql"))

_BATCH: Final = 32
# Of each fact: how many of the latest that share an entity, and how many of the nearest, are weighed.
_SHARING: Final = 200
_NEAREST: Final = 30
# The index holds messages too: so many times the number is looked at.
_WIDER: Final = 4
# Of what is near a fact that lost its successor, so much is looked at: it need not be as near to the fact.
_AROUND: Final = 480
# Unrelated facts tell how near is near: so many of the home's own.
_SAMPLE: Final = 256
# In a home with fewer than this, what was measured for the model, over the facts of an authored life.
_FEW: Final = 64
_MEASURED: Final = {
    "nexus-english": (0.09, 0.13),
    "all-minilm-l6-v2": (0.18, 0.14),
    "multilingual-e5-small": (0.23, 0.12),
}
_UNMEASURED: Final = (0.20, 0.14)


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """How many facts have a successor, by how that is known, and how many facts wait to be searched."""

    stated: int
    judged: int
    waiting: int


async def derive(ledgers: Ledgers, vectors: Vectors, *, thread: Thread = asyncio.to_thread) -> int:
    """Bring the links up to date with the log; returns how many were added or changed."""
    return await _Pass(ledgers, vectors, thread).run()


async def rebuild(ledgers: Ledgers, vectors: Vectors, *, thread: Thread = asyncio.to_thread) -> int:
    """Throw the links away and derive them again; what was stated stays."""
    await ledgers.memory.write(_reset)
    return await derive(ledgers, vectors, thread=thread)


@dataclass(frozen=True, slots=True)
class Rival:
    """Two facts of which one would replace the other if the judge were as sure as this."""

    fact_id: str
    other_id: str
    probability: float


async def find_rivals(
    ledgers: Ledgers,
    vectors: Vectors,
    times: dict[str, str],
    *,
    thread: Thread = asyncio.to_thread,
) -> list[Rival]:
    """Find facts that hold and contradict some of these, given when each was recorded."""
    await vectors.mirror.refresh()
    walk, found, ids = _Pass(ledgers, vectors, thread), list[Rival](), list(times)
    for start in range(0, len(ids), _BATCH):
        found += await walk.rivals({id_: times[id_] for id_ in ids[start : start + _BATCH]})
    return found


async def state(ledgers: Ledgers, model_id: str) -> State:
    """What is linked, and how far the search has come with a model's vectors."""

    def work(connection: apsw.Connection) -> State:
        counts = dict(cast("list[tuple[str, int]]", connection.execute(SQL["counts"]).fetchall()))
        position = connection.execute(SQL["position"], (_key(model_id),)).get or 0
        waiting = cast("int", connection.execute(SQL["waiting"], (position,)).get)
        return State(stated=counts.get("stated", 0), judged=counts.get("judged", 0), waiting=waiting)

    return await ledgers.memory.read(work)


@dataclass(frozen=True, slots=True)
class _Weighed:
    """A fact and what it is weighed against."""

    fact: Statement
    others: list[Statement]
    closeness: dict[str, float]
    known: dict[str, Link]
    claims: dict[str, How | None] | None


@dataclass(slots=True)
class _Pass:
    """One walk along the log, from where the last one ended."""

    ledgers: Ledgers
    vectors: Vectors
    thread: Thread
    mean: float = 0.0
    spread: float = 1.0
    families: dict[str, tuple[str, frozenset[str]]] = field(
        default_factory=dict[str, tuple[str, frozenset[str]]]
    )

    async def run(self) -> int:
        until = await self._end()
        after = await self._position() if until else 0
        again = cast("list[tuple[str, int, str]]", await self.ledgers.memory.read(sql.rows, SQL["again"]))
        if after >= until and not again:
            return 0
        await self.vectors.mirror.refresh()
        self.mean, self.spread = await self._background()
        made = await self._search_again(again, after) if again else 0
        while batch := await self._next(after, until):
            after = batch[-1][0]
            found = await self._batch({id_: created_at for _, id_, created_at in batch})
            made += len(found)
            await self.ledgers.memory.write(self._write, found, after)
        return made

    async def _search_again(self, again: Sequence[tuple[str, int, str]], until: int) -> int:
        """Weigh again what was weighed against facts that lost their successor, or that hold again."""
        lost = {each.id: each for each in await self._statements([id_ for id_, *_ in again])}
        vectors = await self.vectors.of("fact", list(lost))
        ids = [id_ for id_ in lost if id_ in vectors]
        hits = (
            await self.vectors.mirror.search(np.stack([vectors[id_] for id_ in ids]), _AROUND) if ids else []
        )
        near = {id_: [*hit.ids] for id_, hit in zip(ids, hits, strict=True)}
        families = await self._families({entity for fact in lost.values() for entity in fact.entities})

        def find(connection: apsw.Connection) -> list[tuple[int, str, str]]:
            found: set[tuple[int, str, str]] = set()
            for id_, after, _ in again:
                members = _members(lost[id_], families) if id_ in lost else ()
                given = {
                    "fact": id_,
                    "near": json.dumps(near.get(id_, [])),
                    "entities": json.dumps(sorted(members)),
                    "after": after,
                    "until": until,
                    "limit": _SHARING,
                }
                found |= set(
                    cast("list[tuple[int, str, str]]", sql.rows(connection, SQL["weighed_against"], given))
                )
            return sorted(found)

        wanted, made = await self.ledgers.memory.read(find), 0
        for start in range(0, len(wanted), _BATCH):
            found = await self._batch({id_: at for _, id_, at in wanted[start : start + _BATCH]})
            made += len(found)
            await self.ledgers.memory.write(self._write, found)
        done = [(id_, updated_at) for id_, _, updated_at in again]
        await self.ledgers.memory.write(sql.run_each, SQL["drop_again"], done)
        return made

    async def _position(self) -> int:
        """Where the last pass ended; links of another judge are dropped first."""
        key = _key(self.vectors.embedder.model_id)
        found = await self.ledgers.memory.read(sql.value, SQL["position"], (key,))
        if found is None:
            await self.ledgers.memory.write(_reset)
        return cast("int", found or 0)

    async def _end(self) -> int:
        """The last fact that has its vector."""
        embedded = int(await self.vectors.position("fact") or 0)
        newest = await self.ledgers.memory.read(sql.value, SQL["newest"])
        return min(embedded, cast("int", newest))

    async def _next(self, after: int, until: int) -> list[tuple[int, str, str]]:
        given = {"after": after, "until": until, "limit": _BATCH}
        rows = await self.ledgers.memory.read(sql.rows, SQL["next_facts"], given)
        return cast("list[tuple[int, str, str]]", rows)

    async def _background(self) -> tuple[float, float]:
        """Mean and standard deviation of the cosine of two texts that have nothing to do with each other."""
        rows = await self.ledgers.memory.read(sql.rows, SQL["newest_ids"], (_SAMPLE,))
        known = await self.vectors.of("fact", [str(row[0]) for row in rows])
        sample = np.array(list(known.values()), np.float32).reshape(len(known), -1)
        if len(sample) < _FEW:
            return _MEASURED.get(self.vectors.embedder.model_id.partition("@")[0], _UNMEASURED)
        cosines = (sample @ sample.T)[np.triu_indices(len(sample), 1)]
        return float(cosines.mean()), max(float(cosines.std()), 1e-3)

    async def _batch(self, times: dict[str, str]) -> dict[str, Link]:
        """The links that some facts add, given when each was recorded."""
        gathered = await self._gather(times)

        def weigh() -> dict[str, Link]:
            found: dict[str, Link] = {}
            for each in gathered:
                some = [other for other in each.others if other.seq < each.fact.seq]
                known = each.known | found
                found |= judge.load().links(each.fact, some, each.closeness, known, claims=each.claims)
            return found

        return await self.thread(weigh)

    async def rivals(self, times: dict[str, str]) -> list[Rival]:
        """Find the pairs in which some facts and others, older or newer, hardly hold side by side."""
        self.mean, self.spread = await self._background()
        gathered = await self._gather(times)

        def weigh() -> list[Rival]:
            found: dict[frozenset[str], Rival] = {}
            for each in gathered:
                chances = judge.load().rivals(each.fact, each.others, each.closeness, each.known)
                for id_, chance in chances.items():
                    if chance >= judge.load().threshold:
                        pair = frozenset((id_, each.fact.id))
                        found.setdefault(pair, Rival(each.fact.id, id_, chance))
            return list(found.values())

        return await self.thread(weigh)

    async def _gather(self, times: dict[str, str]) -> list[_Weighed]:
        """Gather what some facts are weighed against: those near in meaning or about the same."""
        ids = list(times)
        own = await self.vectors.of("fact", ids)
        facts = {each.id: each for each in await self._statements(ids)}
        wanted = [facts[id_] for id_ in ids if id_ in own and id_ in facts]
        if not wanted:
            return []
        queries = np.stack([own[fact.id] for fact in wanted])
        claims, distinct = await self._opinions([fact.id for fact in wanted])
        near = await self._candidates(wanted, queries, times)
        for fact, candidates in zip(wanted, near, strict=True):
            candidates += [old for old in claims.get(fact.id, {}) if old not in candidates]
        everything = list(dict.fromkeys(id_ for some in near for id_ in some))
        others = facts | {each.id: each for each in await self._statements([*set(everything) - facts.keys()])}
        known = await self._links(everything + [fact.id for fact in wanted])
        scores = await self.vectors.mirror.scores(queries, everything)
        closeness = (scores - self.mean) / self.spread
        columns = {id_: column for column, id_ in enumerate(everything)}
        gathered: list[_Weighed] = []
        for row, (fact, candidates) in enumerate(zip(wanted, near, strict=True)):
            some = [
                others[id_]
                for id_ in candidates
                if id_ in others and others[id_].scope == fact.scope and (id_, fact.id) not in distinct
            ]
            close = {each.id: float(closeness[row, columns[each.id]]) for each in some}
            gathered.append(_Weighed(fact, some, close, known, claims.get(fact.id)))
        return gathered

    async def _candidates(
        self, facts: Sequence[Statement], queries: Floats, times: dict[str, str]
    ) -> list[list[str]]:
        hits = await self.vectors.mirror.search(queries, _NEAREST * _WIDER)
        families = await self._families({entity for fact in facts for entity in fact.entities})

        def sharing(connection: apsw.Connection) -> list[list[str]]:
            found: list[list[str]] = []
            for fact in facts:
                given = {
                    "entities": json.dumps(sorted(_members(fact, families))),
                    "created_at": times[fact.id],
                    "seq": fact.seq,
                    "limit": _SHARING,
                }
                found.append([str(row[0]) for row in connection.execute(SQL["sharing"], given)])
            return found

        shared = await self.ledgers.memory.read(sharing)
        candidates: list[list[str]] = []
        for fact, hit, some in zip(facts, hits, shared, strict=True):
            nearest = [id_ for id_ in hit.ids if id_.startswith("fact_")][: _NEAREST + 1]
            candidates.append([id_ for id_ in dict.fromkeys((*nearest, *some)) if id_ != fact.id])
        return candidates

    async def _statements(self, ids: Sequence[str]) -> list[Statement]:
        given = json.dumps(list(ids))
        rows = await self.ledgers.memory.read(sql.rows, SQL["statements"], (given,))
        tied = [_tied(row) for row in rows]
        families = await self._families({entity for some in tied for entity in some})
        events = json.dumps([row[7] for row in rows if row[7]])
        said = await self.ledgers.events.read(sql.rows, SQL["messages"], (events,))
        messages = {
            str(id_): (thread_id, str(text), channel if str(channel).startswith(SCOPED_CHANNELS) else "")
            for id_, thread_id, text, channel in said
        }
        return [_statement(row, some, families, messages) for row, some in zip(rows, tied, strict=True)]

    async def _families(self, ids: Iterable[str]) -> dict[str, tuple[str, frozenset[str]]]:
        """For each entity the one that it stands for now, and the stems of what that is called."""
        unknown = [id_ for id_ in ids if id_ not in self.families]
        if unknown:
            given = json.dumps(unknown)
            rows = await self.ledgers.identity.read(sql.rows, SQL["families"], (given,))
            for start, root, names in cast("list[tuple[str, str, str]]", rows):
                self.families[start] = (root, stems_of(names))
        return self.families

    async def _opinions(
        self, ids: Sequence[str]
    ) -> tuple[dict[str, dict[str, How | None]], set[tuple[str, str]]]:
        """What the writer of each fact says that it replaces, and which pairs a person says are both true."""
        claims: dict[str, dict[str, How | None]] = {}
        distinct: set[tuple[str, str]] = set()
        rows = await self.ledgers.memory.read(sql.rows, SQL["opinions"], (json.dumps(list(ids)),))
        for old, new, relation, how in rows:
            if relation == "distinct":
                distinct.add((old, new))
            else:
                claims.setdefault(new, {})[old] = how
        return claims, distinct

    async def _links(self, ids: Sequence[str]) -> dict[str, Link]:
        given = json.dumps(list(ids))
        rows = await self.ledgers.memory.read(sql.rows, SQL["links"], (given,))
        found = cast("list[tuple[str, str, float, str]]", rows)
        return {old: Link(new, confidence, basis == "stated") for old, new, confidence, basis in found}

    def _write(self, connection: apsw.Connection, found: dict[str, Link], after: int | None = None) -> None:
        rows = [
            {
                "old": old,
                "new": link.new_id,
                "confidence": link.confidence,
                "how": link.how,
                "signals": json.dumps(link.signals),
            }
            for old, link in found.items()
        ]
        connection.executemany(SQL["put"], rows)
        if after is not None:
            connection.execute(SQL["set_position"], (_key(self.vectors.embedder.model_id), after))


def _key(model_id: str) -> str:
    return f"{judge.load().version} {model_id}"


def _reset(connection: apsw.Connection) -> None:
    connection.execute(SQL["drop_judged"])
    connection.execute(SQL["drop_progress"])
    connection.execute(SQL["restate"])


def _tied(row: tuple[Any, ...]) -> list[str]:
    return [entity for entity in (row[4], row[5], *json.loads(row[9])) if entity]


def _statement(
    row: tuple[Any, ...],
    tied: list[str],
    families: dict[str, tuple[str, frozenset[str]]],
    messages: dict[str, tuple[str | None, str, str]],
) -> Statement:
    id_, text, at, seq, source, target, relation_type, event_id, valid_until, _, confidence = row
    thread_id, message, scope = messages.get(event_id or "", (None, "", ""))
    # Nobody said what it is about: the words that it begins with do.
    opening = () if tied else opening_names(text)
    return Statement(
        id=id_,
        text=text,
        at=at,
        seq=seq,
        subject=UNNAMED + opening[-1] if opening else families[source][0] if source in families else source,
        target=families[target][0] if target in families else target,
        relation_type=relation_type,
        entities=frozenset(
            (
                *(families[each][0] if each in families else each for each in tied),
                *(UNNAMED + name for name in opening),
            )
        ),
        names=frozenset(
            (*opening, *(name for each in tied if each in families for name in families[each][1]))
        ),
        event_id=event_id,
        thread_id=thread_id,
        message=message,
        scope=scope,
        valid_until=valid_until if isinstance(valid_until, str) else None,
        confidence=confidence,
    )


def _members(fact: Statement, families: dict[str, tuple[str, frozenset[str]]]) -> set[str]:
    """The entities of a fact, and those known to stand for the same."""
    return {id_ for id_, (root, _) in families.items() if root in fact.entities} | fact.entities
