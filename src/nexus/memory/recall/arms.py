"""The arms of recall: each a named way to find candidates in the ledgers, nothing more.

An arm is a function of a connection, the question and the scope. It answers with sightings, best
first; what they are worth together is decided by the features and the ranker.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

import apsw

from nexus import clock
from nexus.ledgers import keywords
from nexus.ledgers.text import match_any
from nexus.memory.recall.item import Kind, Sighting
from nexus.memory.recall.question import Question
from nexus.memory.recall.reading import SQL
from nexus.memory.recall.scope import Scope
from nexus.memory.recall.words import ROLE_WORDS, Index, spellings, unspaced

Log = Literal["event", "fact", "summary"]
"""What has a full-text index. Summaries are observations, mental models and episodes."""
_PLURAL: Final[dict[Log, Index]] = {"event": "events", "fact": "facts", "summary": "summaries"}

_NEIGHBOURS = 5
_FACTS_FOR_NEIGHBOURS = 2_000

# What a fact of a neighbour counts beside one of an entity that the question names.
_NEIGHBOUR_SCORE = 0.5


@dataclass(frozen=True, slots=True)
class Frequencies:
    """How frequent words are in a log, rarest first, and about how many rows it has."""

    words: list[keywords.Frequency]
    newest: int


def frequencies(connection: apsw.Connection, question: Question, log: Log) -> Frequencies:
    """In how many events, facts or summaries each word of the question occurs.

    Exact for a word of few rows; for a frequent one its newest rows tell it near enough.
    """

    index = _PLURAL[log]
    spelled = {
        form: spellings(connection, index, term, form, question.language)
        for term, form in question.forms.items()
    }

    def probe(word: str, most: int) -> tuple[int, int]:
        statement = _statement(f"{index}_matching", index, is_unspaced=unspaced(word))
        row = connection.execute(statement, (match_any(list(spelled[word])), most)).fetchone()
        return cast("tuple[int, int]", row)

    newest = cast("int", connection.execute(SQL[f"newest_{log}"]).get)
    found = keywords.frequencies((word for word in spelled if spelled[word]), newest, probe)
    return Frequencies([replace(each, spellings=spelled[each.word]) for each in found], newest)


def keyword(
    connection: apsw.Connection,
    log: Log,
    found: list[keywords.Frequency],
    scope: Scope,
    limit: int,
    matched_rows: int,
) -> list[Sighting]:
    """Rows of a log that share words with the question: the rare words choose, as BM25 ranks them."""
    narrowed = "" if log == "summary" or scope.open or not _narrows(log, scope) else "_scoped"
    hits: dict[str, float] = {}
    index = _PLURAL[log]
    for is_unspaced in (False, True):
        words = [each for each in found if unspaced(each.word) == is_unspaced]
        for plan in keywords.plans(words, ranked_rows=matched_rows, scanned_rows=0):
            if len(hits) >= limit:
                break
            name = f"{'keyword' if plan.ranked else 'newest'}_{index}{narrowed}"
            given = {"match": plan.match, "limit": limit, **scope.parameters}
            for row in connection.execute(_statement(name, index, is_unspaced=is_unspaced), given):
                hits.setdefault(str(row[0]), cast("float", row[1]))
    return [
        Sighting(
            arm="keyword", kind=log if log != "summary" else kind_of(id_), id=id_, rank=rank, score=score
        )
        for rank, (id_, score) in enumerate(list(hits.items())[:limit], start=1)
    ]


def _statement(name: str, index: Index, *, is_unspaced: bool) -> str:
    """A statement over the index of words, or over that of the scripts that have no spaces."""
    return SQL[name].replace(f"{index}_fts", f"{index}_unspaced_fts") if is_unspaced else SQL[name]


def _narrows(log: Log, scope: Scope) -> bool:
    return log == "event" or scope.after is not None or scope.before is not None


def speakers_named(connection: apsw.Connection, question: Question) -> frozenset[str]:
    """Which of the question's words name somebody who spoke."""
    return frozenset(
        term
        for term in question.terms
        if term not in ROLE_WORDS
        and not unspaced(term)
        and connection.execute(SQL["speaks"], (f"sender : {match_any([question.forms[term]])}",)).get
    )


def temporal_events(
    connection: apsw.Connection, question: Question, scope: Scope, limit: int
) -> list[Sighting]:
    """Events of the time that the question speaks of."""
    if question.window is None:
        return []
    given = {**scope.parameters, **_window(question), "limit": limit}
    return _sightings(
        "temporal", "event", ((row[0], 1.0) for row in connection.execute(SQL["events_in_window"], given))
    )


def temporal_memory(connection: apsw.Connection, question: Question, limit: int) -> list[Sighting]:
    """Facts and episodes of the time that the question speaks of."""
    if question.window is None:
        return []
    given = {**_window(question), "limit": limit}
    facts = connection.execute(SQL["facts_in_window"], given).fetchall()
    episodes = connection.execute(SQL["episodes_in_window"], given).fetchall()
    return [
        *_sightings("temporal", "fact", ((row[0], 1.0) for row in facts)),
        *_sightings("temporal", "episode", ((row[0], 1.0) for row in episodes)),
    ]


def graph(connection: apsw.Connection, entity_ids: Iterable[str], limit: int) -> list[Sighting]:
    """Facts about the entities that the question names, newest first, then facts about their neighbours."""
    wanted = {"entities": json.dumps(list(entity_ids)), "limit": limit}
    facts = connection.execute(SQL["facts_of_entities"], wanted).fetchall()
    near = {**wanted, "limit": _NEIGHBOURS, "facts": _FACTS_FOR_NEIGHBOURS}
    neighbours = [str(row[0]) for row in connection.execute(SQL["neighbours_of_entities"], near)]
    beyond = connection.execute(
        SQL["facts_of_entities"], {"entities": json.dumps(neighbours), "limit": limit // 4}
    ).fetchall()
    scored = {str(row[0]): _NEIGHBOUR_SCORE for row in beyond} | {str(row[0]): 1.0 for row in facts}
    return _sightings("graph", "fact", sorted(scored.items(), key=lambda pair: -pair[1]))


def conclusions(connection: apsw.Connection, entity_ids: Iterable[str], limit: int) -> list[Sighting]:
    """Mental models and observations about the entities, and the episodes that mention them."""
    wanted = {"entities": json.dumps(list(entity_ids)), "limit": limit}
    rows = connection.execute(SQL["conclusions_of_entities"], wanted)
    return [
        Sighting(arm="graph", kind=cast("Kind", kind), id=str(id_), rank=rank, score=1.0)
        for rank, (kind, id_) in enumerate(rows, start=1)
    ]


def causal(connection: apsw.Connection, fact_ids: Iterable[str], limit: int) -> list[Sighting]:
    """Facts that led to those found, or that they led to."""
    given = {"facts": json.dumps(sorted(fact_ids)), "limit": limit}
    return _sightings("causal", "fact", connection.execute(SQL["causal_neighbours"], given))


def successions(connection: apsw.Connection, found: Iterable[Sighting], limit: int) -> list[Sighting]:
    """Facts that replaced those found, or that these replaced, each ranked like the one that led to it."""
    facts = {sighting.id: sighting for sighting in found if sighting.kind == "fact"}
    given = {"facts": json.dumps(sorted(facts)), "limit": limit}
    rows = connection.execute(SQL["succession_chains"], given).fetchall()
    return [
        Sighting(arm="succession", kind="fact", id=str(id_), rank=facts[str(start)].rank, score=1.0)
        for start, id_ in rows
        if id_ not in facts
    ]


def kind_of(id_: str) -> Kind:
    """What an id stands for: its prefix says so."""
    kinds: dict[str, Kind] = {
        "evt": "event",
        "fact": "fact",
        "obs": "observation",
        "mod": "mental_model",
        "epi": "episode",
    }
    return kinds.get(id_.partition("_")[0], "entity")


def _window(question: Question) -> dict[str, str]:
    assert question.window is not None  # noqa: S101 - an invariant, for the reader and the type checker
    start, end = question.window
    return {"start": clock.timestamp(start), "end": clock.timestamp(end)}


def _sightings(arm: str, kind: Kind, rows: Iterable[Any]) -> list[Sighting]:
    return [
        Sighting(arm=arm, kind=kind, id=str(row[0]), rank=rank, score=float(row[1]))
        for rank, row in enumerate(rows, start=1)
    ]
