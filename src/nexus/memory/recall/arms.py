"""The arms of recall: each a named way to find candidates in the ledgers, nothing more.

An arm is a function of a connection (or the index), the question and the query's scope. It answers
with sightings, best first; what they are worth together is decided by the features and the ranker.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, cast

import apsw
import numpy as np

from nexus import clock
from nexus.ledgers.sql import named
from nexus.ledgers.text import match_any
from nexus.memory.embedding.embedder import Floats
from nexus.memory.embedding.index import Index
from nexus.memory.recall.item import Kind, Query, Sighting
from nexus.memory.recall.question import Question
from nexus.memory.recall.words import ROLE_WORDS, counted

SQL: Final = named(Path(__file__).with_name("queries.sql"))

SUMMARIES = 5_000
_LONGEST_ALIAS_WORDS = 4


def keyword_events(
    connection: apsw.Connection, question: Question, query: Query, limit: int, matched_rows: int
) -> list[Sighting]:
    """Events that share words with the question."""
    match = _match(connection, question, "event_frequency", matched_rows)
    if match is None:
        return []
    scoped = any((query.thread_ids is not None, query.channel, query.time_after, query.time_before))
    statement = SQL["keyword_events_scoped" if scoped else "keyword_events"]
    rows = connection.execute(statement, {"match": match, "limit": limit, **scope(query)})
    return _sightings("keyword", "event", rows)


def keyword_facts(
    connection: apsw.Connection, question: Question, query: Query, limit: int, matched_rows: int
) -> list[Sighting]:
    """Facts that share words with the question."""
    match = _match(connection, question, "fact_frequency", matched_rows)
    if match is None:
        return []
    scoped = query.time_after or query.time_before
    statement = SQL["keyword_facts_scoped" if scoped else "keyword_facts"]
    rows = connection.execute(statement, {"match": match, "limit": limit, **scope(query)})
    return _sightings("keyword", "fact", rows)


def speakers_named(connection: apsw.Connection, question: Question) -> frozenset[str]:
    """Which of the question's words name somebody who spoke."""
    return frozenset(
        term
        for term in question.terms
        if term not in ROLE_WORDS
        and connection.execute(
            SQL["speaks"], (f'sender : "{question.forms[term].replace(chr(34), "")}"',)
        ).get
    )


def semantic(
    index: Index, vectors: dict[str, Floats], allowed: set[str] | None, limit: int
) -> list[Sighting]:
    """Whatever is nearest in meaning to each vector; the arms are named as the vectors are."""
    found = index.search(np.stack(list(vectors.values())), limit, allowed)
    return [
        Sighting(arm=arm, kind=_kind(id_), id=id_, rank=rank, score=float(score))
        for arm, hits in zip(vectors, found, strict=True)
        for rank, (id_, score) in enumerate(zip(hits.ids, hits.scores, strict=True), start=1)
    ]


def temporal_events(
    connection: apsw.Connection, question: Question, query: Query, limit: int
) -> list[Sighting]:
    """Events of the time that the question speaks of."""
    if question.window is None:
        return []
    rows = connection.execute(SQL["events_in_window"], {**_window(question), **scope(query), "limit": limit})
    return _sightings("temporal", "event", ((row[0], 1.0) for row in rows))


def temporal_facts(
    connection: apsw.Connection, question: Question, query: Query, limit: int
) -> list[Sighting]:
    """Facts of the time that the question speaks of."""
    if question.window is None:
        return []
    rows = connection.execute(SQL["facts_in_window"], {**_window(question), "limit": limit})
    return _sightings("temporal", "fact", ((row[0], 1.0) for row in rows))


def entities_named(connection: apsw.Connection, question: Question) -> dict[str, str]:
    """The entities that the question names by an alias: their ids, with the name that matched."""
    words = question.text.lower().split()
    stripped = [word.strip(".,;:!?\"'()[]").removesuffix("'s") for word in words]
    spans = {
        " ".join(stripped[i : i + n])
        for n in range(1, _LONGEST_ALIAS_WORDS + 1)
        for i in range(len(stripped) - n + 1)
    }
    wanted = [span for span in spans if span and span not in {"i", "me", "my", "you", "the", "a"}]
    rows = connection.execute(SQL["aliases"], (json.dumps(wanted),))
    found = {str(row[1]): str(row[2]) for row in rows}
    roots = connection.execute(SQL["root_entities"], (json.dumps(list(found)),))
    return found | {str(row[0]): found.get(str(row[0]), "") for row in roots}


def graph(connection: apsw.Connection, entity_ids: Iterable[str], limit: int) -> list[Sighting]:
    """Facts about the entities that the question names, newest first."""
    wanted = list(entity_ids)
    if not wanted:
        return []
    rows = connection.execute(SQL["facts_of_entities"], {"entities": json.dumps(wanted), "limit": limit})
    return _sightings("graph", "fact", rows)


def causal(connection: apsw.Connection, fact_ids: Iterable[str], limit: int) -> list[Sighting]:
    """Facts that led to those found, or that they led to."""
    wanted = list(fact_ids)
    if not wanted:
        return []
    rows = connection.execute(SQL["causal_neighbours"], {"facts": json.dumps(wanted), "limit": limit})
    return _sightings("causal", "fact", rows)


def summaries(connection: apsw.Connection, question: Question, limit: int) -> list[Sighting]:
    """Observations, mental models and episodes that share words with the question."""
    wanted = set(question.terms)
    scored: list[tuple[float, str, str]] = []
    for kind, id_, content, *_ in connection.execute(SQL["summaries"], (SUMMARIES,)):
        shared = wanted.intersection(counted(str(content)).counts)
        if shared:
            scored.append((len(shared) / len(wanted), str(kind), str(id_)))
    scored.sort(reverse=True)
    return [
        Sighting(arm="summaries", kind=cast("Kind", kind), id=id_, rank=rank, score=score)
        for rank, (score, kind, id_) in enumerate(scored[:limit], start=1)
    ]


def frequencies(
    connection: apsw.Connection, question: Question, *, events: bool
) -> tuple[int, dict[str, int]]:
    """How many events or facts there are, and how many hold each word of the question."""
    total = cast("int", connection.execute(SQL["event_count" if events else "fact_count"]).get)
    name = "event_frequency" if events else "fact_frequency"
    return total, {
        term: cast("int", connection.execute(SQL[name], (term,)).get or 0) for term in question.terms
    }


def scope(query: Query) -> dict[str, str | None]:
    """The query's scope as the statements take it."""
    return {
        "threads": None if query.thread_ids is None else json.dumps(sorted(query.thread_ids)),
        "channel": query.channel,
        "after": clock.timestamp(query.time_after) if query.time_after else None,
        "before": clock.timestamp(query.time_before) if query.time_before else None,
    }


def _match(connection: apsw.Connection, question: Question, frequency: str, matched_rows: int) -> str | None:
    """The rarest words first: a full-text query costs what it matches, and common words tell little."""
    counted = sorted(
        (cast("int", connection.execute(SQL[frequency], (term,)).get or 0), term) for term in question.terms
    )
    chosen: list[str] = []
    matched = 0
    for count, term in counted:
        if count and (not chosen or matched + count <= matched_rows):
            chosen.append(question.forms[term].replace('"', ""))
            matched += count
    return match_any(chosen) if chosen else None


def _window(question: Question) -> dict[str, str]:
    assert question.window is not None
    start, end = question.window
    return {"start": clock.timestamp(start), "end": clock.timestamp(end)}


def _kind(id_: str) -> Kind:
    kinds: dict[str, Kind] = {
        "evt": "event",
        "fact": "fact",
        "obs": "observation",
        "mod": "mental_model",
        "epi": "episode",
    }
    return kinds.get(id_.partition("_")[0], "entity")


def _sightings(arm: str, kind: Kind, rows: Iterable[Any]) -> list[Sighting]:
    return [
        Sighting(arm=arm, kind=kind, id=str(row[0]), rank=rank, score=float(row[1]))
        for rank, row in enumerate(rows, start=1)
    ]
