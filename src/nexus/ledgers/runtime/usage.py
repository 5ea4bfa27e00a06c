"""Usage in the runtime ledger: tokens and money, one row for each answer that a provider bills.

The ledger adds each row up as it is written, by day and by message: what is asked for often is read from
those sums, however many rows there are.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, cast

import apsw

from nexus.ledgers import sql
from nexus.runs import Totals

Budget = Literal["request", "automation", "guest", "guests", "day", "month"]
Unit = Literal["usd", "tokens"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NewHit:
    """A run that was refused a request. The same id again is the same refusal."""

    id: str
    budget: Budget
    unit: Unit
    automation: str | None
    most: float
    used: float
    request_id: str
    root_request_id: str
    execution_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit(NewHit):
    """A refusal that was recorded."""

    created_at: str


_HIT_COLUMNS = [field.name for field in fields(Hit)]


def record_hit(connection: apsw.Connection, hit: NewHit) -> None:
    """Record a refusal, once."""
    connection.execute(sql.queries("runtime")["record_budget_hit"], asdict(hit))


def find_hits(connection: apsw.Connection, *, since: str, limit: int = 100) -> list[Hit]:
    """Return what was refused from a moment on, the newest first."""
    rows = connection.execute(sql.queries("runtime")["budget_hits"], (since, limit))
    return [Hit(**dict(zip(_HIT_COLUMNS, cast("tuple[Any, ...]", row), strict=True))) for row in rows]


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRow:
    """What one attempt at a model call cost. The id is the attempt's own (`use_…`)."""

    id: str
    request_id: str
    root_request_id: str
    execution_id: str | None = None
    invocation_id: str | None = None
    span_id: str | None = None
    role: str | None = None
    provider: str
    model: str
    input_tokens: int = 0
    """Fresh ones: neither read from nor written to a cache."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int | None = None
    """None where the price is not known."""
    automation: str | None = None
    """On whose account, where an automation caused it."""
    estimated: bool = False
    """The answer broke off, or its process died, before it was known what the provider counted."""


def record(connection: apsw.Connection, row: UsageRow) -> None:
    """Record what an attempt cost: once, and better where more is known later."""
    connection.execute(
        sql.queries("runtime")["record_usage"], {name: getattr(row, name) for name in UsageRow.__slots__}
    )


def count_estimated(connection: apsw.Connection, day: str) -> int:
    """Count how many calls from a day on are counted by an estimate."""
    return cast("int", connection.execute(sql.queries("runtime")["estimated_usage"], (day,)).get)


def last_day(connection: apsw.Connection) -> str | None:
    """Return the last day on which a model was called; None if none ever was."""
    return cast("str | None", connection.execute(sql.queries("runtime")["last_day_of_usage"]).get)


def of_root(connection: apsw.Connection, root_request_id: str) -> Totals:
    """Return what a request and everything below it cost so far."""
    return _totals(connection, "usage_of_root", root_request_id)


def of_roots(connection: apsw.Connection, root_request_ids: Sequence[str]) -> dict[str, Totals]:
    """Return what some requests and everything below them cost so far, without those that cost nothing."""
    values = (json.dumps(list(root_request_ids)),)
    rows = connection.execute(sql.queries("runtime")["usage_of_roots"], values)
    return {root: sql.make(Totals, sums) for root, *sums in cast("Iterable[tuple[str, int]]", rows)}


def of_execution(connection: apsw.Connection, execution_id: str) -> Totals:
    """Return what one run cost so far."""
    return _totals(connection, "usage_of_execution", execution_id)


def of_executions(connection: apsw.Connection, execution_ids: Sequence[str]) -> dict[str, Totals]:
    """Return what some runs cost so far, each by its id."""
    rows = connection.execute(
        sql.queries("runtime")["usage_of_executions"], (json.dumps(list(execution_ids)),)
    )
    return {run: sql.make(Totals, sums) for run, *sums in cast("Iterable[tuple[str, int]]", rows)}


def of_request(connection: apsw.Connection, request_id: str) -> Totals:
    """Return what one request cost so far, without those below it."""
    return _totals(connection, "usage_of_request", request_id)


def of_roles(connection: apsw.Connection, roles: Sequence[str], day: str) -> Totals:
    """Return what some roles cost from a day on, such as `2026-05-31`."""
    return _totals(connection, "usage_of_roles", json.dumps(list(roles)), day)


def of_session(connection: apsw.Connection, session_label: str) -> Totals:
    """Show the total cost of a session."""
    return _totals(connection, "usage_of_session", session_label)


def since(connection: apsw.Connection, day: str) -> Totals:
    """Return what everything cost from a day on."""
    return _totals(connection, "usage_since", day)


def of_automation(connection: apsw.Connection, name: str, day: str) -> Totals:
    """Return what an automation cost from a day on, with the workers that it dispatched."""
    return _totals(connection, "usage_of_automation", name, day)


def guest_of_root(connection: apsw.Connection, root_request_id: str) -> str | None:
    """On whose behalf a message is worked on; None where that is the owner, or nobody."""
    query = sql.queries("runtime")["guest_of_root"]
    return cast("str | None", connection.execute(query, (root_request_id,)).get)


def of_guests(connection: apsw.Connection, day: str) -> dict[str, Totals]:
    """Return what the messages of each person other than the owner cost from a day on."""
    rows = connection.execute(sql.queries("runtime")["usage_of_guests"], (day,))
    return {guest: sql.make(Totals, sums) for guest, *sums in cast("Iterable[tuple[str, int]]", rows)}


def automation_of_dispatcher(connection: apsw.Connection, worker_request_id: str) -> str | None:
    """On whose account a worker works, where an automation dispatched it."""
    query = sql.queries("runtime")["automation_of_dispatcher"]
    return cast("str | None", connection.execute(query, (worker_request_id,)).get)


def last_of_session(
    connection: apsw.Connection, session_label: str, but_of_execution: str, request_id: str | None = None
) -> int | None:
    """Return how many tokens the last call in a session read and wrote, leaving out one run; None: unknown.

    With a request, only calls with its rights count: others are shown another history.
    """
    values = {"session_label": session_label, "but": but_of_execution, "request_id": request_id}
    found = connection.execute(sql.queries("runtime")["last_usage_of_session"], values).fetchone()
    return None if found is None else cast("int", found[0])


def _totals(connection: apsw.Connection, query: str, *values: str) -> Totals:
    row = connection.execute(sql.queries("runtime")[query], values).fetchone()
    return sql.make(Totals, cast("tuple[int, ...]", row))
