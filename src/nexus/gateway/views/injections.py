"""What the memory offered for a request, what of it was injected, and where each comes from."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nexus.ledgers import Ledgers, sql
from nexus.ledgers.memory import Successor, reviews, successors
from nexus.ledgers.memory.reviews import UNDECIDED, State
from nexus.ledgers.runtime import injections
from nexus.ledgers.runtime.injections import Injection

_MOST = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """One thing that the memory offered, with its text as it stands in the ledgers."""

    injection: Injection
    text: str
    """Empty where it was forgotten since."""
    source_event_id: str | None
    """The message that it is, or that it was learned from."""
    page: str | None
    """Where it is shown."""
    state: State = UNDECIDED
    """What the owner decided about it, if it is a fact."""
    replaced_by: Successor | None = None
    """The fact that replaced it since."""


async def load_of_root(ledgers: Ledgers, root_request_id: str) -> tuple[Offer, ...]:
    """Load all that was offered below a root request."""
    found = await ledgers.runtime.read(injections.of_root, root_request_id=root_request_id)
    return await _describe(ledgers, found[:_MOST])


async def load_uses(ledgers: Ledgers, item_id: str, limit: int = 10) -> tuple[Injection, ...]:
    """Load when a memory was put before a task, the newest first."""
    return tuple(await ledgers.runtime.read(injections.of_item, item_id=item_id, limit=limit))


async def load_of_requests(
    ledgers: Ledgers, request_ids: Iterable[str | None]
) -> dict[str, tuple[Offer, ...]]:
    """Load what was injected below each of some root requests."""
    wanted = json.dumps(sorted({id_ for id_ in request_ids if id_}))
    query = sql.queries("runtime")["injected_below"]
    rows = await ledgers.runtime.read(sql.rows, query, {"roots": wanted, "limit": _MOST})
    found: dict[str, list[Offer]] = defaultdict(list)
    for each in await _describe(ledgers, [injections.parse_row(row) for row in rows]):
        found[each.injection.root_request_id].append(each)
    return {root: tuple(offered) for root, offered in found.items()}


async def _describe(ledgers: Ledgers, found: Sequence[Injection]) -> tuple[Offer, ...]:
    ids = json.dumps(sorted({each.item_id for each in found}))
    known: dict[str, tuple[str, str | None]] = {}
    for database in (ledgers.events, ledgers.memory, ledgers.identity):
        query = sql.queries(database.ledger)["texts_of_items"]
        for id_, text, event_id in await database.read(sql.rows, query, (ids,)):
            known[id_] = (text, event_id)
    facts = sorted({each.item_id for each in found if each.item_kind == "fact"})
    states = await ledgers.memory.read(reviews.states, facts) if facts else {}
    replaced = await ledgers.memory.read(successors, facts) if facts else {}
    return tuple(
        replace(
            _make_offer(each, *known.get(each.item_id, ("", None))),
            state=states.get(each.item_id, UNDECIDED),
            replaced_by=replaced.get(each.item_id),
        )
        for each in found
    )


def _make_offer(injection: Injection, text: str, event_id: str | None) -> Offer:
    shown = {
        "event": "/events/",
        "fact": "/memory/facts/",
        "episode": "/memory/episodes/",
        "observation": "/memory/observations/",
        "mental_model": "/memory/models/",
        "entity": "/memory/entities/",
    }.get(injection.item_kind)
    return Offer(
        injection=injection,
        text=text,
        source_event_id=event_id,
        page=f"{shown}{injection.item_id}" if shown and text else None,
    )
