"""The memory as people look at it: entities as one with all that was merged into them, and the log in order.

Everything here reads, and gives plain values that can be printed or written as JSON.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

import apsw

from nexus.errors import MissingError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.memory import reviews, successors, written_by_hand
from nexus.ledgers.sql import rows
from nexus.ledgers.text import match_all, words
from nexus.memory import merging
from nexus.memory.digest import make_digests
from nexus.memory.normalisation import normalize
from nexus.memory.references import find_meant

_NEAR: Final = 5
_FACT: Final = (
    "seq", "id", "at", "fact", "relation_type", "source_entity_id", "target_entity_id", "confidence",
    "source_type", "as_of", "created_at", "source_event_id", "source_episode_id", "source_request_id",
)  # fmt: skip
_REVIEWED: Final = tuple(name for name in _FACT if name != "as_of")
_EVERY: Final = 1 << 62
_EPISODE: Final = (
    "id", "channel", "thread_id", "title", "summary", "start_time", "end_time", "event_count", "token_count",
    "version",
)  # fmt: skip
_LISTED: Final = ("id", "type", "name", "summary", "created_at", "updated_at")
_WHOLE: Final = (
    "id", "type", "name", "summary", "merged_into", "source_event_id", "metadata", "created_at", "updated_at",
)  # fmt: skip
_CANDIDATE: Final = (
    "id", "entity_a_id", "name_a", "type_a", "entity_b_id", "name_b", "type_b", "score", "reasons", "status",
    "resolved_by", "resolved_at", "created_at",
)  # fmt: skip
_MERGE: Final = ("id", "action", "source_entity_id", "target_entity_id", "actor", "reason", "created_at")


async def find(ledgers: Ledgers, reference: str) -> list[str]:
    """The entity that an id, a name or another alias means, with all that is the same: the root first."""

    def work(connection: apsw.Connection) -> list[str]:
        found = find_meant(connection, reference)
        if found is None:
            raise _unknown(connection, reference)
        return merging.family(connection, found)

    return await ledgers.identity.read(work)


async def entities(
    ledgers: Ledgers, *, matching: str | None = None, type_: str | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """Entities, those that changed last first, each with how much is known about it."""
    bindings = {"type": type_, "like": like(matching) if matching else None, "limit": limit}

    def work(connection: apsw.Connection) -> list[tuple[dict[str, Any], list[str]]]:
        listed = rows(connection, sql.queries("identity")["listed_entities"], bindings)
        return [(_named(_LISTED, row), merging.family(connection, row[0])) for row in listed]

    found = await ledgers.identity.read(work)
    counts = await ledgers.memory.read(
        lambda c: [
            c.execute(sql.queries("memory")["count_of_facts"], (json.dumps(each),)).get for _, each in found
        ]
    )
    return [
        entity | {"facts": count, "merged": same[1:]}
        for (entity, same), count in zip(found, counts, strict=True)
    ]


async def show(ledgers: Ledgers, reference: str, *, limit: int = 20) -> dict[str, Any]:
    """One entity, whole: names, people's data, merges, newest facts, episodes, company, candidates."""
    same = await find(ledgers, reference)
    wanted = json.dumps(same)

    def identity(connection: apsw.Connection) -> dict[str, Any]:
        queries = sql.queries("identity")
        whole = _named(_WHOLE, rows(connection, queries["entity"], (same[0],))[0])
        return whole | {
            "metadata": json.loads(whole["metadata"]),
            "merged": same[1:],
            "aliases": _all(
                connection, "aliases_of", wanted, "entity_id alias type normalized confidence source_type"
            ),
            "contacts": _all(connection, "contacts_of", wanted, "entity_id channel identifier display_name"),
            "person_facts": _all(
                connection,
                "person_facts_of",
                wanted,
                "entity_id category fact_type value confidence source_type source_event_id created_at as_of",
            ),
            "merge_events": _all(connection, "merge_events_of", wanted, " ".join(_MERGE)),
        }

    shown = await ledgers.identity.read(identity)
    return shown | {
        "facts": await timeline(ledgers, reference, limit=limit),
        "episodes": await episodes(ledgers, entity=reference, limit=limit),
        "together_with": await together(ledgers, same, limit=limit),
        "candidates": await candidates(ledgers, entities=same, limit=limit),
    }


async def timeline(ledgers: Ledgers, reference: str, *, limit: int = 1_000) -> list[dict[str, Any]]:
    """An entity's observation log, in the order in which things were true, each with its source."""
    same = await find(ledgers, reference)
    bindings = {"entities": json.dumps(same), "limit": limit}
    found = await ledgers.memory.read(rows, sql.queries("memory")["facts_of"], bindings)
    return await _told(ledgers, found)


async def facts(
    ledgers: Ledgers, *, matching: str | None = None, type_: str | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """The facts that were recorded last, in order."""
    match = match_all(words(matching)) if matching and words(matching) else None
    bindings = {"match": match, "type": type_, "limit": limit}
    found = await ledgers.memory.read(rows, sql.queries("memory")["newest_facts"], bindings)
    return await _told(ledgers, found)


async def changes(ledgers: Ledgers, *, limit: int = 50) -> list[dict[str, Any]]:
    """The facts that were replaced last, each with what holds now; the latest change last."""
    found = await ledgers.memory.read(rows, sql.queries("memory")["facts_replaced"], {"limit": limit})
    return await _told(ledgers, found)


async def to_review(ledgers: Ledgers, *, since: str, limit: int = 50) -> list[dict[str, Any]]:
    """Facts learned since a moment that nobody has decided about, the newest first."""
    bindings = {"since": since, "before": _EVERY, "limit": limit}
    found = await ledgers.memory.read(rows, sql.queries("memory")["facts_to_review"], bindings)
    return await _told(ledgers, found, _REVIEWED)


async def episodes(ledgers: Ledgers, *, entity: str | None = None, limit: int = 50) -> list[dict[str, Any]]:
    """The newest episodes, each in its newest version and with a title and a summary."""
    wanted = json.dumps(await find(ledgers, entity)) if entity else None
    bindings = {"entities": wanted, "limit": limit}
    found = await ledgers.memory.read(rows, sql.queries("memory")["newest_episodes"], bindings)
    listed = [_named(_EPISODE, row) for row in found]
    blank = [each["id"] for each in listed if not (each["title"] and each["summary"])]
    made = await ledgers.read(make_digests, blank)
    return [each | (asdict(made[each["id"]]) if each["id"] in made else {}) for each in listed]


async def together(ledgers: Ledgers, same: Sequence[str], *, limit: int = 20) -> list[dict[str, Any]]:
    """Whom and what an entity occurs with, in facts and in episodes."""
    bindings = {"entities": json.dumps(list(same)), "limit": limit}
    found = await ledgers.memory.read(rows, sql.queries("memory")["seen_together"], bindings)
    names = await _roots(ledgers, [row[0] for row in found])
    counts: dict[str, dict[str, Any]] = {}
    for entity_id, in_facts, in_episodes in found:
        root_id, name = names.get(entity_id, (entity_id, entity_id))
        entry = counts.setdefault(root_id, {"entity_id": root_id, "name": name, "facts": 0, "episodes": 0})
        entry["facts"] += in_facts
        entry["episodes"] += in_episodes
    return list(counts.values())


async def candidates(
    ledgers: Ledgers,
    *,
    status: str | None = "pending",
    entities: Sequence[str] | None = None,
    since: str = "",
    until: str | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Pairs that may be one, the likeliest first; those found within a time, if one is given."""
    wanted = None if entities is None else json.dumps(list(entities))
    bindings = {"status": status, "entities": wanted, "since": since, "until": until, "limit": limit}
    query = sql.queries("identity")["listed_candidates"]
    found = await ledgers.identity.read(rows, query, bindings)
    return [
        pair | {"reasons": json.loads(pair["reasons"])} for pair in (_named(_CANDIDATE, row) for row in found)
    ]


async def statistics(ledgers: Ledgers) -> dict[str, dict[str, int]]:
    """How much of what there is, by its kinds."""
    counted: dict[str, dict[str, int]] = {}
    for database in (ledgers.identity, ledgers.memory):
        query = sql.queries(database.ledger)["statistics"]
        for what, kind, count in await database.read(rows, query):
            counted.setdefault(what, {})[kind] = count
    return {what: dict(sorted(kinds.items(), key=lambda item: -item[1])) for what, kinds in counted.items()}


async def _told(
    ledgers: Ledgers, found: Iterable[tuple[Any, ...]], columns: Sequence[str] = _FACT
) -> list[dict[str, Any]]:
    """Facts with the names of their entities and the messages that they came from."""
    told = [_named(columns, row) for row in found]
    tied = {fact[end] for fact in told for end in ("source_entity_id", "target_entity_id")} - {None}
    names = await _roots(ledgers, sorted(tied))
    wanted = json.dumps([fact["source_event_id"] for fact in told if fact["source_event_id"]])
    query = sql.queries("events")["origins"]
    origins = {row[0]: row for row in await ledgers.events.read(rows, query, (wanted,))}
    facts_told = [fact["id"] for fact in told]
    replaced = await ledgers.memory.read(successors, facts_told)
    decided = await ledgers.memory.read(reviews.states, facts_told)
    written = await ledgers.memory.read(written_by_hand, facts_told)
    for fact in told:
        successor = replaced.get(fact["id"])
        fact["replaced_by"] = asdict(successor) if successor else None
        state = decided[fact["id"]]
        fact["review"], fact["pinned"] = state.verdict, state.is_pinned
        fact["source_name"] = names.get(fact["source_entity_id"], (None, None))[1]
        fact["target_name"] = names.get(fact["target_entity_id"], (None, None))[1]
        origin, hand = origins.get(fact["source_event_id"]), written.get(fact["id"])
        if origin is None and hand is not None:
            origin = (None, hand.channel, hand.by, hand.at, fact["fact"])
        fact["said"] = _named(("event_id", "channel", "sender", "at", "text"), origin) if origin else None
    return told


async def _roots(ledgers: Ledgers, entity_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """For each entity the id and the name of the one that it stands for now."""
    query = sql.queries("identity")["names_of"]
    found = await ledgers.identity.read(rows, query, (json.dumps(list(entity_ids)),))
    return {start: (root_id, name) for start, root_id, name in found}


def _all(connection: apsw.Connection, query: str, wanted: str, names: str) -> list[dict[str, Any]]:
    found = rows(connection, sql.queries("identity")[query], (wanted,))
    return [_named(names.split(), row) for row in found]


def _named(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(names, row, strict=True))


def like(text: str) -> str:
    """A pattern that a normalised name matches where it holds the text."""
    escaped = normalize(text).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _unknown(connection: apsw.Connection, reference: str) -> MissingError:
    word = max(normalize(reference).split() or [""], key=len)
    bindings = {"type": None, "like": like(word[:3]), "limit": _NEAR}
    near = rows(connection, sql.queries("identity")["listed_entities"], bindings) if word else []
    listed = ", ".join(f"{row[2]} ({row[0]})" for row in near)
    return MissingError(
        f"No entity is called {reference!r}",
        hint=f"Similar: {listed}." if listed else "List them with `nexus memory people`.",
    )
