"""Invocations in the runtime ledger: each time that an automation ran, and how that tells on its circuit."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, cast

import apsw

from nexus.ledgers import sql
from nexus.ledgers.runtime.automations import CircuitState
from nexus.ledgers.text import storable

Status = Literal["queued", "running", "done", "flagged", "failed", "timeout", "skipped"]
FINAL: frozenset[Status] = frozenset({"done", "flagged", "failed", "timeout", "skipped"})
# Where an error message or an output is longer, its rest is not kept.
_MOST_CHARACTERS = 16_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Invocation:
    """One time that an automation ran, is running or is to run."""

    id: str
    automation_id: str
    automation_version: int
    hook_point: str
    request_id: str | None
    root_request_id: str | None
    blocking: bool
    status: Status
    result: Any = None
    error: str | None = None
    duration_ms: float | None = None
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    input: Any = None
    output: str | None = None
    attempts: int = 0
    """How often it failed, of an async one."""
    retries_left: int = 0
    retry_at: str | None = None
    """When it is tried again, where it waits for that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Circuit:
    """How an automation's circuit stands after its invocations were recorded."""

    automation_id: str
    state: CircuitState
    opened_at: str | None
    active: bool
    runs: int


def add(connection: apsw.Connection, invocations: Iterable[Invocation]) -> None:
    """Record invocations before they are promised."""
    connection.executemany(sql.queries("runtime")["add_invocation"], [_row(each) for each in invocations])


def record(connection: apsw.Connection, ended: Iterable[Invocation], error_limit: int) -> list[Circuit]:
    """Record blocking invocations that have ended, and tell how the circuits stand after them.

    One that is recorded already was repeated after a crash: it counts once.
    """
    new: list[Invocation] = []
    for each in ended:
        add(connection, [each])
        if connection.changes():
            new.append(each)
    return _judge(connection, new, error_limit)


def begin(connection: apsw.Connection, invocation_id: str) -> Invocation | None:
    """Mark one as running; one that has ended stays as it is. None where it was forgotten."""
    connection.execute(sql.queries("runtime")["begin_invocation"], (invocation_id,))
    return get(connection, invocation_id)


def end(connection: apsw.Connection, ended: Invocation, error_limit: int) -> list[Circuit]:
    """Record how an async one ended. The first end stands: a second changes nothing."""
    connection.execute(sql.queries("runtime")["end_invocation"], _row(ended))
    return _judge(connection, [ended], error_limit) if connection.changes() else []


def postpone(
    connection: apsw.Connection, failed: Invocation, retry_at: str, error_limit: int
) -> list[Circuit]:
    """Record that an async one failed and is tried again at a time."""
    connection.execute(sql.queries("runtime")["postpone_invocation"], {**_row(failed), "retry_at": retry_at})
    return _judge(connection, [failed], error_limit) if connection.changes() else []


def list_dead(
    connection: apsw.Connection, *, name: str | None = None, limit: int = 50
) -> list[tuple[str, Invocation]]:
    """Async ones that failed for good, each with its automation's name; the newest first."""
    rows = connection.execute(sql.queries("runtime")["dead_invocations"], {"name": name, "limit": limit})
    return [(cast("str", row[-1]), parse_row(row[:-1])) for row in rows]


def count_dead(connection: apsw.Connection) -> int:
    """Count how many async ones failed for good."""
    return cast("int", connection.execute(sql.queries("runtime")["count_dead_invocations"]).get)


def retry(connection: apsw.Connection, invocation_id: str) -> bool:
    """Let one that failed for good run again; False where it is not one."""
    connection.execute(sql.queries("runtime")["retry_invocation"], (invocation_id,))
    return connection.changes() > 0


def dismiss(connection: apsw.Connection, invocation_id: str) -> bool:
    """Give one that failed for good up: its input is deleted; False where it is not one."""
    connection.execute(sql.queries("runtime")["dismiss_invocation"], (invocation_id,))
    return connection.changes() > 0


def get(connection: apsw.Connection, invocation_id: str) -> Invocation | None:
    """Return one invocation, whole."""
    row = connection.execute(sql.queries("runtime")["invocation"], (invocation_id,)).fetchone()
    return None if row is None else parse_row(row)


def of_automation(
    connection: apsw.Connection, name: str, *, status: str | None = None, limit: int = 20
) -> list[Invocation]:
    """Return the invocations of a name in all its versions, the newest first."""
    values = {"name": name, "status": status, "limit": limit}
    rows = connection.execute(sql.queries("runtime")["invocations_of_name"], values)
    return [parse_row(row) for row in rows]


def list_gone_wrong(connection: apsw.Connection, name: str, since: str, limit: int) -> list[Invocation]:
    """Return the invocations of a name that went wrong since a time, with kept input; the newest first."""
    values = {"name": name, "since": since, "limit": limit}
    rows = connection.execute(sql.queries("runtime")["invocations_gone_wrong"], values)
    return [parse_row(row) for row in rows]


def list_unfinished(connection: apsw.Connection) -> list[tuple[str, int]]:
    """Return the async ones that have not ended, in the order of their requests: id and attempts."""
    rows = connection.execute(sql.queries("runtime")["unfinished_invocations"]).fetchall()
    return cast("list[tuple[str, int]]", rows)


def count_unfinished_of(connection: apsw.Connection, *, automation: str, root_request_id: str) -> int:
    """Count those of an automation for a message that have not ended, without those tried again later."""
    values = {"automation": automation, "root_request_id": root_request_id}
    return cast("int", connection.execute(sql.queries("runtime")["unfinished_of_root"], values).get)


def lose(connection: apsw.Connection, invocation_id: str, attempts: int, error: str) -> bool:
    """Record that one ended without saying how. The first end stands, and so does a later attempt."""
    values = {"id": invocation_id, "attempts": attempts, "error": error}
    connection.execute(sql.queries("runtime")["lose_invocation"], values)
    return connection.changes() > 0


def list_missed(
    connection: apsw.Connection, *, automation: str, since: str, limit: int
) -> list[tuple[str, str]]:
    """Return the requests that an automation failed on or was skipped for, with sessions; oldest first."""
    given = {"automation": automation, "since": since, "limit": limit}
    rows = connection.execute(sql.queries("runtime")["missed_requests"], given).fetchall()
    return cast("list[tuple[str, str]]", rows)


def parse_row(row: Any) -> Invocation:
    """Make an invocation of a row of the ledger."""
    values: dict[str, Any] = dict(zip(Invocation.__slots__, row, strict=True))
    values["blocking"] = bool(values["blocking"])
    values["result"], values["input"] = _value(values["result"]), _value(values["input"])
    return Invocation(**values)


def _judge(connection: apsw.Connection, ended: list[Invocation], error_limit: int) -> list[Circuit]:
    queries = sql.queries("runtime")
    touched: dict[str, None] = {}
    for each in ended:
        if each.status == "skipped":
            continue
        touched[each.automation_id] = None
        values = {"id": each.automation_id, "at": each.ended_at}
        # One that flagged its own work did what it is there for.
        if each.status in {"done", "flagged"}:
            connection.execute(queries["automation_succeeded"], values)
        else:
            connection.execute(
                queries["automation_failed"], {**values, "error": _cut(each.error), "limit": error_limit}
            )
    return [_circuit(connection, automation_id) for automation_id in touched]


def _circuit(connection: apsw.Connection, automation_id: str) -> Circuit:
    row = connection.execute(sql.queries("runtime")["circuit"], (automation_id,)).fetchone()
    state, opened_at, status, runs = cast(
        "tuple[CircuitState, str | None, str, int]", row or ("closed", None, "", 0)
    )
    return Circuit(
        automation_id=automation_id,
        state=state,
        opened_at=opened_at,
        active=status == "active",
        runs=runs,
    )


def _row(invocation: Invocation) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(invocation, name) for name in Invocation.__slots__}
    return {
        **values,
        "blocking": int(invocation.blocking),
        "result_json": None if invocation.result is None else json.dumps(invocation.result),
        "input_json": None if invocation.input is None else json.dumps(invocation.input),
        "error": _cut(invocation.error),
        "output": _cut(invocation.output),
    }


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _cut(text: str | None) -> str | None:
    return None if not text else storable(text)[:_MOST_CHARACTERS]
