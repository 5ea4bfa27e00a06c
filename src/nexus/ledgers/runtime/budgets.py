"""Budgets in the runtime ledger: what was refused because something was used up."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, cast

import apsw

from nexus.ledgers import sql

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


_COLUMNS = [field.name for field in fields(Hit)]


def record(connection: apsw.Connection, hit: NewHit) -> None:
    """Record a refusal, once."""
    connection.execute(sql.queries("runtime")["record_budget_hit"], asdict(hit))


def hits(connection: apsw.Connection, *, since: str, limit: int = 100) -> list[Hit]:
    """Return what was refused from a moment on, the newest first."""
    rows = connection.execute(sql.queries("runtime")["budget_hits"], (since, limit))
    return [Hit(**dict(zip(_COLUMNS, cast("tuple[Any, ...]", row), strict=True))) for row in rows]
