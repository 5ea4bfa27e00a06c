"""Requests as a list, and one of them with all that it led to."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import apsw

from nexus import clock
from nexus.errors import MissingError
from nexus.gateway.views import sessions
from nexus.ledgers import Ledgers, events, sql
from nexus.ledgers.events import ChangedAnswer
from nexus.ledgers.memory import Successor, reviews, successors
from nexus.ledgers.memory.reviews import UNDECIDED, State
from nexus.ledgers.runtime import executions, injections
from nexus.ledgers.runtime import requests as stored
from nexus.ledgers.runtime import trace as traces
from nexus.ledgers.runtime.executions import Execution
from nexus.ledgers.runtime.injections import Injection
from nexus.ledgers.runtime.requests import StoredRequest
from nexus.ledgers.runtime.trace import Node
from nexus.memory.views import names
from nexus.memory.views.page import ALWAYS, Page, Period, list_columns, make_page, name_columns
from nexus.runs import Totals

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


async def load_offers(ledgers: Ledgers, root_request_id: str) -> tuple[Offer, ...]:
    """Load all that was offered below a root request."""
    found = await ledgers.runtime.read(injections.of_root, root_request_id=root_request_id)
    return await _describe(ledgers, found[:_MOST])


async def load_uses(ledgers: Ledgers, item_id: str, limit: int = 10) -> tuple[Injection, ...]:
    """Load when a memory was put before a task, the newest first."""
    return tuple(await ledgers.runtime.read(injections.of_item, item_id=item_id, limit=limit))


async def load_injected(ledgers: Ledgers, request_ids: Iterable[str | None]) -> dict[str, tuple[Offer, ...]]:
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


_ASKED_CHARACTERS = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestLine:
    """One request in a list, with what it and everything below it cost."""

    id: str
    status: str
    channel: str | None
    session_label: str | None
    role: str | None
    stage: str | None
    error: str | None
    event_id: str | None
    principal_id: str | None
    created_at: str
    ended_at: str | None
    asked: str
    """The beginning of the message."""
    principal: str | None
    session: str | None
    """What its session is called."""
    duration_ms: float | None
    """None while it is under way."""
    workers: int
    total: Totals


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """One request, whole."""

    request: StoredRequest | None
    """None where it was forgotten: what it cost is left."""
    node: Node
    asked: str
    answered: str | None
    principal: str | None
    session: str | None
    """What its session is called."""
    parent: str | None
    changes: tuple[ChangedAnswer, ...] = ()
    """The answers that automations changed or withheld."""


_RETRYABLE: Final = frozenset({"failed", "timeout", "cancelled"})
_COLUMNS = list_columns(RequestLine, before="asked")


async def load_page(
    ledgers: Ledgers,
    *,
    status: str | None = None,
    channel: str | None = None,
    period: Period = ALWAYS,
    cursor: str | None = None,
    limit: int = 50,
) -> Page[RequestLine]:
    """Load requests of people and channels, the newest first. Those of workers are counted with them."""
    at, id_ = period.begin(cursor)
    values = {
        "status": status, "channel": channel, "since": period.since, "at": at, "id": id_, "limit": limit + 1
    }  # fmt: skip
    found, spent, workers = await ledgers.runtime.read(_load_with_usage, values=values)
    asked = await names.load_beginnings(ledgers, [row["event_id"] for row in found], _ASKED_CHARACTERS)
    known = await names.load_entity_names(ledgers, [row["principal_id"] for row in found])
    titles = await sessions.load_titles(ledgers, [row["session_label"] for row in found])
    lines = [
        RequestLine(
            **row,
            asked=asked.get(row["event_id"] or "") or _name_scheduled(row["session_label"] or ""),
            principal=known.get(row["principal_id"] or ""),
            session=titles.get(row["session_label"] or "", _name_untitled(row["session_label"])),
            duration_ms=duration_ms(row["created_at"], row["ended_at"]),
            workers=workers.get(row["id"], 0),
            total=spent.get(row["id"], Totals()),
        )
        for row in found
    ]
    return make_page(lines, limit, lambda line: (line.created_at, line.id))


async def list_channels(ledgers: Ledgers) -> tuple[str, ...]:
    """List the channels over which something was asked, for a filter."""
    found = await ledgers.runtime.read(sql.rows, sql.queries("runtime")["request_channels"])
    return tuple(row[0] for row in found)


async def load_trace(ledgers: Ledgers, reference: str) -> Trace:
    """Load the request that an id means, with everything below it."""
    request_id = await ledgers.runtime.read(traces.find, text=reference)
    node = await ledgers.runtime.read(traces.load, request_id=request_id)
    request = await ledgers.runtime.read(stored.get, request_id=request_id)
    restored = await stored.restore(ledgers, request_id)
    answers = await ledgers.events.read(_load_answers, request_id=request_id)
    principal = request.principal_id if request else None
    label = request.session_label if request else None
    return Trace(
        request=request,
        node=node,
        asked="" if restored is None else restored.event.content,
        answered="\n\n".join(answers) or None,
        principal=(await names.load_entity_names(ledgers, [principal])).get(principal or ""),
        session=(await sessions.load_titles(ledgers, [label])).get(label or "", _name_untitled(label)),
        parent=request.parent_request_id if request else None,
        changes=tuple(await ledgers.events.read(events.changed_answers, request_ids=[request_id])),
    )


async def find_failed_run(ledgers: Ledgers, request_id: str) -> str:
    """Find the last run of a request in its own session, which failed or was canceled."""

    def last(connection: apsw.Connection) -> Execution | None:
        request = stored.get(connection, request_id)
        if request is None or request.session_label is None:
            return None
        found = executions.of_request(connection, request_id, request.session_label)
        return found[-1] if found else None

    run = await ledgers.runtime.read(last)
    if run is None or run.status not in _RETRYABLE:
        raise MissingError(
            f"{request_id} has no failed run", hint="Only requests that failed can be retried or dismissed."
        )
    return run.id


def duration_ms(start: str, end: str | None) -> float | None:
    """How long something took, or None while it is under way."""
    if end is None:
        return None
    return (clock.parse(end) - clock.parse(start)).total_seconds() * 1000


def _load_with_usage(
    connection: apsw.Connection, values: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Totals], dict[str, int]]:
    queries = sql.queries("runtime")
    found = [name_columns(_COLUMNS, row) for row in sql.rows(connection, queries["listed_requests"], values)]
    return found, *_sum_below(connection, [row["id"] for row in found])


def _sum_below(connection: apsw.Connection, roots: Sequence[str]) -> tuple[dict[str, Totals], dict[str, int]]:
    queries, wanted = sql.queries("runtime"), (json.dumps(list(roots)),)
    spent = {row[0]: make_totals(row[1:]) for row in sql.rows(connection, queries["usage_of_roots"], wanted)}
    workers = {row[0]: row[1] for row in sql.rows(connection, queries["workers_of_roots"], wanted)}
    return spent, workers


def make_totals(row: Iterable[Any]) -> Totals:
    """Make totals of sums in the order of their fields."""
    return Totals(**dict(zip(Totals.__slots__, row, strict=True)))


def _load_answers(connection: apsw.Connection, request_id: str) -> list[str]:
    rows = sql.rows(connection, sql.queries("events")["said_for_request"], (request_id,))
    return [row[0] for row in rows]


def _name_scheduled(label: str) -> str:
    """What a schedule's request is about, which no message asked for: the automation."""
    kind, _, name = label.partition(":")
    return name if kind == "schedule" else ""


def _name_untitled(label: str | None) -> str | None:
    """What to call a session that never began, because its message was denied: by its channel."""
    return None if label is None else label.partition(":")[0]
