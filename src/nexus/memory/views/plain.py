"""What the memory holds as plain values, to be printed or written as JSON: what `--json` promises."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import apsw

from nexus.ledgers import Ledgers, sql
from nexus.memory import merging
from nexus.memory.views import entities as entity_views
from nexus.memory.views import episodes as episode_views
from nexus.memory.views import facts as fact_views
from nexus.memory.views.entities import Candidate
from nexus.memory.views.facts import Fact
from nexus.memory.views.names import like

_WHOLE_MESSAGE = 1 << 30
_LISTED = ("id", "type", "name", "summary", "created_at", "updated_at")


async def timeline(ledgers: Ledgers, reference: str, *, limit: int = 1_000) -> list[dict[str, Any]]:
    """An entity's observation log, in the order in which things were true, each with its source."""
    return describe_facts(await fact_views.load_log(ledgers, reference, limit=limit))


async def facts(
    ledgers: Ledgers, *, matching: str | None = None, type_: str | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """The facts that were recorded last, in order."""
    return describe_facts(await fact_views.load_newest(ledgers, matching=matching, type_=type_, limit=limit))


async def changes(ledgers: Ledgers, *, limit: int = 50) -> list[dict[str, Any]]:
    """The facts that were replaced last, each with what holds now; the latest change last."""
    return describe_facts(await fact_views.load_changes(ledgers, limit=limit))


async def to_review(ledgers: Ledgers, *, since: str, limit: int = 50) -> list[dict[str, Any]]:
    """Facts learned since a moment that nobody has decided about, the newest first."""
    found = await fact_views.load_to_review(ledgers, since=since, limit=limit, characters=_WHOLE_MESSAGE)
    return describe_facts(found.items)


def describe_facts(found: Iterable[Fact]) -> list[dict[str, Any]]:
    """Describe facts with their entities, what was decided, and the messages they came from."""
    return [_describe_fact(each) for each in found]


def _describe_fact(fact: Fact) -> dict[str, Any]:
    plain = asdict(fact)
    state, said, written = plain.pop("state"), plain.pop("said"), plain.pop("written")
    names = {"source_name": plain.pop("source_name"), "target_name": plain.pop("target_name")}
    origin: dict[str, Any] | None = None
    if said:
        origin = {
            "event_id": said["id"],
            "channel": said["channel"],
            "sender": said["sender"],
            "sender_name": said["sender_name"],
            "at": said["occurred_at"],
            "text": said["content"],
        }
    elif written:
        origin = {
            "event_id": None,
            "channel": written["channel"],
            "sender": written["by"],
            "sender_name": None,
            "at": written["at"],
            "text": fact.fact,
        }
    return plain | {"review": state["verdict"], "pinned": state["is_pinned"]} | names | {"said": origin}


async def episodes(ledgers: Ledgers, *, entity: str | None = None, limit: int = 50) -> list[dict[str, Any]]:
    """The newest episodes, each in its newest version and with a title and a summary."""
    found = [asdict(each) for each in await episode_views.load_newest(ledgers, entity=entity, limit=limit)]
    unlike = ("previous_version_id", "source_request_id")
    return [{name: value for name, value in each.items() if name not in unlike} for each in found]


async def entities(
    ledgers: Ledgers, *, matching: str | None = None, type_: str | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """Entities, those that changed last first, each with how much is known about it."""
    bindings = {"type": type_, "like": like(matching) if matching else None, "limit": limit}

    def work(connection: apsw.Connection) -> list[tuple[dict[str, Any], list[str]]]:
        listed = sql.rows(connection, sql.queries("identity")["listed_entities"], bindings)
        return [(_name(_LISTED, row), merging.family(connection, row[0])) for row in listed]

    found = await ledgers.identity.read(work)
    counts = await entity_views.count_facts(ledgers, [same for _, same in found])
    return [
        entity | {"facts": count, "merged": same[1:]}
        for (entity, same), count in zip(found, counts, strict=True)
    ]


async def show(ledgers: Ledgers, reference: str, *, limit: int = 20) -> dict[str, Any]:
    """Show one entity, whole: names, people's data, merges, newest facts, episodes, company, candidates."""
    entity = await entity_views.get(ledgers, reference)
    metadata = await ledgers.identity.read(_read_metadata, entity_id=entity.id)
    company = await entity_views.load_company(ledgers, entity.same, limit=limit)
    return {
        "id": entity.id,
        "type": entity.type,
        "name": entity.name,
        "summary": entity.summary,
        "merged_into": None,
        "source_event_id": entity.source_event_id,
        "metadata": metadata,
        "created_at": entity.created_at,
        "updated_at": entity.updated_at,
        "merged": list(entity.same[1:]),
        "aliases": [asdict(each) for each in entity.aliases],
        "contacts": [asdict(each) for each in entity.contacts],
        "person_facts": [asdict(each) for each in entity.person_facts],
        "merge_events": [asdict(each) for each in entity.merge_events],
        "facts": await timeline(ledgers, reference, limit=limit),
        "episodes": await episodes(ledgers, entity=reference, limit=limit),
        "together_with": [asdict(each) for each in company],
        "candidates": await candidates(ledgers, entities=entity.same, limit=limit),
    }


async def candidates(
    ledgers: Ledgers,
    *,
    status: str | None = "pending",
    entities: Sequence[str] | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Pairs that may be one, the likeliest first."""
    found = await entity_views.load_candidates(ledgers, status=status, entity_ids=entities, limit=limit)
    return [_describe_candidate(each) for each in found]


def _describe_candidate(pair: Candidate) -> dict[str, Any]:
    return asdict(pair) | {"reasons": [asdict(each) for each in pair.reasons]}


async def statistics(ledgers: Ledgers) -> dict[str, dict[str, int]]:
    """How much of what there is, by its kinds."""
    counted: dict[str, dict[str, int]] = {}
    for database in (ledgers.identity, ledgers.memory):
        query = sql.queries(database.ledger)["statistics"]
        for what, kind, count in await database.read(sql.rows, query):
            counted.setdefault(what, {})[kind] = count
    return {what: dict(sorted(kinds.items(), key=lambda item: -item[1])) for what, kinds in counted.items()}


def _read_metadata(connection: apsw.Connection, entity_id: str) -> Any:
    row = sql.rows(connection, sql.queries("identity")["entity"], (entity_id,))[0]
    return json.loads(row[6])


def _name(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(names, row, strict=True))
