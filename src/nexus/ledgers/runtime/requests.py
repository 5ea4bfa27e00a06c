"""Requests in the runtime ledger: what was worked on, on whose behalf and within which rights."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import apsw

from nexus.ledgers import events, sql
from nexus.ledgers.ledgers import Ledgers
from nexus.ledgers.runtime import dispatches
from nexus.ledgers.text import storable, storable_or_none
from nexus.request import Access, AccessLevel, Agent, Event, Grant, Request

Status = Literal["running", "done", "denied", "failed", "cancelled"]
_ORPHANED: Final = "The process that received it ended before its run was recorded."


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRequest:
    """A request, as it stands."""

    id: str
    parent_request_id: str | None
    root_request_id: str
    event_id: str | None
    thread_id: str | None
    channel: str | None
    session_label: str | None
    principal_id: str | None
    role: str | None
    depth: int
    access: Access
    stage: str | None
    status: Status
    error: str | None
    created_at: str
    ended_at: str | None


def create(connection: apsw.Connection, request: Request) -> bool:
    """Record a request, its parent first. False where it is recorded already, and goes on or has ended."""
    connection.execute(
        sql.queries("runtime")["create_request"],
        {
            "id": request.request_id,
            "parent_request_id": request.parent_request_id,
            "root_request_id": request.root_request_id,
            "event_id": request.event.id,
            "thread_id": request.event.thread_id,
            "channel": request.event.channel,
            "session_label": request.agent.session_label,
            "principal_id": request.principal_id,
            "role": request.agent.role,
            "depth": request.depth,
            "access": access_json(request.access),
            "created_at": request.created_at,
            "orphaned": _ORPHANED,
        },
    )
    return connection.changes() > 0


def update(connection: apsw.Connection, request: Request) -> None:
    """Record what became known about a request since it was created: who asks, what they may, who answers."""
    connection.execute(
        sql.queries("runtime")["update_request"],
        {
            "id": request.request_id,
            "session_label": request.agent.session_label,
            "principal_id": request.principal_id,
            "role": request.agent.role,
            "access": access_json(request.access),
            "enrichment": json.dumps(request.enrichment) if request.enrichment else None,
            "event_id": request.event.id,
        },
    )


def get(connection: apsw.Connection, request_id: str) -> StoredRequest | None:
    """Return one request, whole."""
    row = connection.execute(sql.queries("runtime")["request"], (request_id,)).fetchone()
    return None if row is None else _request(row)


def parties(connection: apsw.Connection, request_ids: Sequence[str]) -> dict[str, StoredRequest]:
    """Return some requests by id, for who asked and with which rights; none of those that were forgotten."""
    rows = connection.execute(sql.queries("runtime")["requests_by_id"], (json.dumps(list(request_ids)),))
    return {found.id: found for found in map(_request, rows)}


def of_event(connection: apsw.Connection, event_id: str) -> list[str]:
    """Return the ids of the requests that an event asked for, the first one first."""
    rows = connection.execute(sql.queries("runtime")["requests_of_event"], (event_id,))
    return [cast("str", row[0]) for row in rows]


def for_event(connection: apsw.Connection, event_id: str) -> StoredRequest | None:
    """Return the request that decides what became of an event: one with a run, if there is one."""
    row = connection.execute(sql.queries("runtime")["request_for_event"], (event_id,)).fetchone()
    return None if row is None else _request(row)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """A request that a run answered."""

    run: str
    id: str
    root_request_id: str
    event_id: str | None
    """The message that asked for it; of a worker's request, the one at its root."""
    is_delegated: bool
    is_result: bool
    """Whether a worker's result for it came into a run that answered another message."""


def of_runs(connection: apsw.Connection, execution_ids: Sequence[str]) -> list[Answered]:
    """Return the requests that some runs answered: their own, and those that were collected into them."""
    given = {"ids": json.dumps(list(execution_ids))}
    rows = connection.execute(sql.queries("runtime")["requests_of_runs"], given)
    return [
        Answered(
            run=run,
            id=id_,
            root_request_id=root,
            event_id=event,
            is_delegated=bool(delegated),
            is_result=bool(result),
        )
        for run, id_, root, event, delegated, result in cast("Any", rows)
    ]


def load_enrichments(
    connection: apsw.Connection, root_request_ids: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return what automations added to some roots and to every request below them, by request."""
    given = (json.dumps(list(root_request_ids)),)
    rows = connection.execute(sql.queries("runtime")["enriched_below"], given)
    return {id_: json.loads(text) if text else {} for id_, text in cast("Any", rows)}


def lineage(connection: apsw.Connection, root_request_id: str) -> list[StoredRequest]:
    """Return a root and every request below it, in the order in which they were made."""
    rows = connection.execute(sql.queries("runtime")["lineage"], (root_request_id,))
    return [_request(row) for row in rows]


def roots_of(connection: apsw.Connection, request_ids: Sequence[str]) -> dict[str, str]:
    """Return the root of each of some requests; none of those that were forgotten."""
    rows = connection.execute(sql.queries("runtime")["roots_of_requests"], (json.dumps(list(request_ids)),))
    return dict(cast("list[tuple[str, str]]", rows.fetchall()))


def recent_roots(connection: apsw.Connection, limit: int) -> list[StoredRequest]:
    """Return the requests that no other one caused, the newest first."""
    rows = connection.execute(sql.queries("runtime")["recent_roots"], (limit,))
    return [_request(row) for row in rows]


def enter_stage(connection: apsw.Connection, request_id: str, stage: str) -> None:
    """Record how far a request has come."""
    connection.execute(sql.queries("runtime")["enter_stage"], {"id": request_id, "stage": stage})


def end(
    connection: apsw.Connection,
    request_id: str,
    status: Literal["done", "denied", "failed", "cancelled"],
    *,
    error: str | None = None,
) -> bool:
    """Record how a request ended. The first end stands; False where it had one already."""
    text = storable_or_none(error)
    connection.execute(
        sql.queries("runtime")["end_request"], {"id": request_id, "status": status, "error": text}
    )
    return connection.changes() > 0


def end_without_run(
    connection: apsw.Connection, request_id: str, status: Literal["failed", "cancelled"], error: str
) -> bool:
    """Record that a request came to nothing before anybody was asked. False where a run works on it."""
    values = {"id": request_id, "status": status, "error": storable(error)}
    connection.execute(sql.queries("runtime")["end_request_without_run"], values)
    return connection.changes() > 0


def last_rowid(connection: apsw.Connection) -> int:
    """Return where the requests end that were recorded so far."""
    return cast("int", connection.execute(sql.queries("runtime")["last_request_rowid"]).get)


def end_orphans(connection: apsw.Connection, last_rowid: int, made_before: str | None) -> int:
    """End the requests up to a row that nothing works on any more; returns how many.

    With `made_before`, another process may be taking younger ones in.
    """
    values = {
        "last": last_rowid,
        "alone": made_before is None,
        "before": made_before or "",
        "error": _ORPHANED,
    }
    connection.execute(sql.queries("runtime")["end_orphaned_requests"], values)
    return connection.changes()


def reopen(connection: apsw.Connection, request_id: str) -> None:
    """Let a request that failed be worked on once more."""
    connection.execute(sql.queries("runtime")["reopen_request"], (request_id,))


async def restore(ledgers: Ledgers, request_id: str) -> Request | None:
    """Return the request as it was created, for a run after a restart; None where it was forgotten.

    What it asks for is read from where it stands: the event, or the task that a worker was given.
    """
    stored, enrichment = await ledgers.runtime.read_now(_with_enrichment, request_id=request_id)
    if stored is None:
        return None
    event = Event(content="", id=stored.event_id, thread_id=stored.thread_id, channel=stored.channel)
    if stored.event_id is not None:
        said = await ledgers.events.read_now(events.get, event_id=stored.event_id)
        if said is not None:
            event.content, event.sender_id = said.content, said.sender
    else:
        task = await ledgers.runtime.read(dispatches.of_worker, worker_request_id=request_id)
        event.content = "" if task is None else task.task
    return Request(
        request_id=stored.id,
        root_request_id=stored.root_request_id,
        parent_request_id=stored.parent_request_id,
        depth=stored.depth,
        event=event,
        agent=Agent(role=stored.role or "manager", session_label=stored.session_label or ""),
        principal_id=stored.principal_id,
        access=stored.access,
        created_at=stored.created_at,
        enrichment=enrichment,
    )


def _with_enrichment(
    connection: apsw.Connection, request_id: str
) -> tuple[StoredRequest | None, dict[str, Any]]:
    text = cast("str | None", connection.execute(sql.queries("runtime")["enrichment"], (request_id,)).get)
    return get(connection, request_id), json.loads(text) if text else {}


def _request(row: Any) -> StoredRequest:
    names = ("access_json" if name == "access" else name for name in StoredRequest.__slots__)
    values = dict(zip(names, cast("tuple[Any, ...]", row), strict=True))
    return StoredRequest(access=access_from(values.pop("access_json")), **values)


def access_json(access: Access) -> str:
    """Return what may be reached, as the ledger keeps it."""
    return json.dumps(
        {
            "level": access.level,
            "tools": None if access.tools is None else sorted(access.tools),
            "directories": [{"path": grant.path, "writable": grant.writable} for grant in access.directories],
            "network": access.network,
            "memory": access.memory,
            "sessions": access.sessions,
            **({"memory_socket": access.memory_socket} if access.memory_socket else {}),
        }
    )


def access_from(text: str) -> Access:
    """Return what may be reached, from the ledger. Whatever is not said is not allowed."""
    stored: dict[str, Any] = json.loads(text)
    tools: list[str] | None = stored.get("tools", [])
    return Access(
        level=cast("AccessLevel", stored.get("level", "unknown")),
        tools=None if tools is None else frozenset(tools),
        directories=tuple(
            Grant(path=grant["path"], writable=grant["writable"]) for grant in stored.get("directories", [])
        ),
        network=stored.get("network", False),
        memory=stored.get("memory", "none"),
        sessions=tuple(stored.get("sessions", ())),
        memory_socket=stored.get("memory_socket", ""),
    )
