"""Dispatches in the runtime ledger: tasks given to workers, and which run got each result."""

from dataclasses import dataclass
from typing import Any, Literal

import apsw

from nexus.ledgers import sql
from nexus.ledgers.text import storable

Status = Literal["running", "done", "failed", "timeout", "cancelled"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NewDispatch:
    """A task that is given. The call that gives it is its key: a call may be repeated."""

    id: str
    parent_request_id: str
    root_request_id: str
    parent_session_label: str
    parent_execution_id: str
    call_id: str
    worker_request_id: str
    worker_session_label: str
    execution_id: str
    task: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatch:
    """A task that was given, as it stands."""

    id: str
    parent_request_id: str
    root_request_id: str
    parent_session_label: str
    parent_execution_id: str
    call_id: str
    worker_request_id: str
    worker_session_label: str
    execution_id: str
    task: str
    status: Status
    delivered_to: str | None
    delivered_call_id: str | None
    created_at: str
    ended_at: str | None


def create(connection: apsw.Connection, dispatch: NewDispatch) -> Dispatch:
    """Record a task, after both requests. Given again, the one that is recorded is returned."""
    values = {name: getattr(dispatch, name) for name in NewDispatch.__slots__}
    connection.execute(sql.queries("runtime")["create_dispatch"], {**values, "task": storable(dispatch.task)})
    found = get(connection, dispatch.id)
    assert found is not None  # noqa: S101 - an invariant, for the reader and the type checker
    return found


def get(connection: apsw.Connection, dispatch_id: str) -> Dispatch | None:
    """Return one task, whole."""
    return next(iter(_all(connection, "dispatch", (dispatch_id,))), None)


def of_worker(connection: apsw.Connection, worker_request_id: str) -> Dispatch | None:
    """Return the task that a worker's request stands for."""
    return next(iter(_all(connection, "dispatch_of_worker", (worker_request_id,))), None)


def of_call(connection: apsw.Connection, execution_id: str, call_id: str) -> Dispatch | None:
    """Return the task that a call of a run gave, where it did so before."""
    return next(iter(_all(connection, "dispatch_of_call", (execution_id, call_id))), None)


def of_execution(connection: apsw.Connection, execution_id: str) -> list[Dispatch]:
    """Return the tasks that a run gave, in order."""
    return _all(connection, "dispatches_of_execution", (execution_id,))


def of_session(
    connection: apsw.Connection,
    session_label: str,
    *,
    request_id: str,
    dispatch_id: str | None = None,
    limit: int = 20,
) -> list[Dispatch]:
    """Return the tasks that a session gave for a request's principal, with its access; the newest first."""
    values = {"session_label": session_label, "request_id": request_id, "id": dispatch_id, "limit": limit}
    return _all(connection, "dispatches_of_session", values)


def of_root(connection: apsw.Connection, root_request_id: str) -> list[Dispatch]:
    """Return every task below a root, in the order in which they were given."""
    return _all(connection, "dispatches_of_root", (root_request_id,))


def list_claimed_by(connection: apsw.Connection, execution_id: str) -> list[Dispatch]:
    """Return the tasks whose results calls of a run have taken, in the order in which they were given."""
    return _all(connection, "dispatches_claimed_by", (execution_id,))


def list_undelivered(connection: apsw.Connection) -> list[Dispatch]:
    """Return every task whose result no run has got, under way or ended: to look through after a crash."""
    return _all(connection, "undelivered_dispatches", ())


def end(
    connection: apsw.Connection, dispatch_id: str, status: Literal["done", "failed", "timeout", "cancelled"]
) -> bool:
    """Record how a worker ended. The first end stands; False where it had one already."""
    connection.execute(sql.queries("runtime")["end_dispatch"], {"id": dispatch_id, "status": status})
    return connection.changes() > 0


def claim(
    connection: apsw.Connection, dispatch_id: str, execution_id: str, call_id: str | None = None
) -> bool:
    """Take the result of a worker on behalf of a run, now or when it comes.

    True for one run and one of its calls only, and for those as often as they ask: they may be repeated
    after a crash.
    """
    connection.execute(
        sql.queries("runtime")["claim_dispatch"],
        {"id": dispatch_id, "execution_id": execution_id, "call_id": call_id},
    )
    return connection.changes() > 0


def release(connection: apsw.Connection, execution_id: str, call_id: str | None = None) -> None:
    """Give back what a run, or one call of it, waited for and did not get, so that others may."""
    connection.execute(
        sql.queries("runtime")["release_dispatches"], {"execution_id": execution_id, "call_id": call_id}
    )


def take_back(connection: apsw.Connection, dispatch_id: str) -> None:
    """Let a result be claimed anew, because the run that was to get it will not be."""
    connection.execute(sql.queries("runtime")["take_back_dispatch"], (dispatch_id,))


def _all(connection: apsw.Connection, query: str, values: tuple[Any, ...] | dict[str, Any]) -> list[Dispatch]:
    rows = connection.execute(sql.queries("runtime")[query], values)
    return [sql.make(Dispatch, row) for row in rows]
