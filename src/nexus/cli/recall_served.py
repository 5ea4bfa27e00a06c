"""Recall through the process that serves a home: its model is loaded, and its caches are warm."""

from datetime import datetime
from typing import Any

from nexus.memory.recall.item import Answer, Item, Link, Query, Reasons, Replacement, Result
from nexus.memory.recall.naming import Named


async def asked(url: str, token: str, query: Query, scope: str | None) -> Answer:
    """The answer of the home at a URL. `scope` names the kinds of the query."""
    # Imported here, because a home that nobody serves needs no client.
    from nexus.client import Client

    options = {
        "scope": scope,
        "entity": query.entity_id,
        "channel": query.channel,
        "after": query.time_after and query.time_after.isoformat(),
        "before": query.time_before and query.time_before.isoformat(),
        "budget": query.budget,
        "limit": query.max_results,
        "max_tokens": query.max_tokens,
    }
    given = {name: value for name, value in options.items() if value is not None}
    async with Client(url, token) as client:
        return answer(await client.recall(query.text, **given))


def answer(told: dict[str, Any]) -> Answer:
    """An answer from the gateway's JSON."""
    # By hand, because Pydantic takes longer to import than the gateway to answer.
    window = [datetime.fromisoformat(each) for each in told["window"] or ()]
    parsed: dict[str, Any] = {
        "results": tuple(_result(each) for each in told["results"]),
        "threads": tuple((id_, score) for id_, score in told["threads"]),
        "late_arms": tuple(told["late_arms"]),
        "window": tuple(window) or None,
        "named": {
            id_: Named(**(each | {"words": frozenset(each["words"])})) for id_, each in told["named"].items()
        },
    }
    return Answer(**(told | parsed))


def _result(told: dict[str, Any]) -> Result:
    parsed: dict[str, Any] = {
        "item": _item(told["item"]),
        "reasons": _reasons(told["reasons"]),
        "also": tuple(told["also"]),
    }
    return Result(**(told | parsed))


def _item(told: dict[str, Any]) -> Item:
    replaced = told["replaced_by"]
    parsed: dict[str, Any] = {
        "entity_ids": tuple(told["entity_ids"]),
        "replaced_by": None if replaced is None else Replacement(**replaced),
        "caused_by": tuple(Link(**link) for link in told["caused_by"]),
        "leads_to": tuple(Link(**link) for link in told["leads_to"]),
    }
    return Item(**(told | parsed))


def _reasons(told: dict[str, Any]) -> Reasons:
    parsed: dict[str, Any] = {
        "arms": {arm: (rank, score) for arm, (rank, score) in told["arms"].items()},
        "matched_words": tuple(told["matched_words"]),
        "matched_names": tuple(told["matched_names"]),
    }
    return Reasons(**(told | parsed))
