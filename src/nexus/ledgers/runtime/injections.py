"""Injections in the runtime ledger: what the memory offered for a task, and what came of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import apsw

from nexus.ledgers import sql
from nexus.ledgers.text import storable

Decider = Literal["model", "triage"]
Sign = Literal["id", "words"]
"""How it shows that an answer used something: it names its id, or its words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection:
    """One thing that was offered for a task. It holds no content: the text is with the item."""

    id: str
    invocation_id: str
    request_id: str
    root_request_id: str
    execution_id: str | None
    rank: int
    item_kind: str
    item_id: str
    text_sha256: str
    score: float
    probability: float
    why: str
    decided_by: Decider
    injected: bool
    used: bool | None = None
    """None until the answer is there, and where it was not injected."""
    used_by: Sign | None = None
    created_at: str = ""


def add(connection: apsw.Connection, injections: Iterable[Injection]) -> None:
    """Record what was offered for a task and decided about it."""
    connection.executemany(sql.queries("runtime")["add_injection"], [_row(each) for each in injections])


def mark_used(connection: apsw.Connection, request_id: str, used: Mapping[str, Sign | None]) -> None:
    """Record which of the injected items the answer to a request used; None: not that one."""
    connection.executemany(
        sql.queries("runtime")["use_injection"],
        [
            {"request_id": request_id, "item_id": item_id, "used": int(sign is not None), "used_by": sign}
            for item_id, sign in used.items()
        ],
    )


def of_root(connection: apsw.Connection, root_request_id: str) -> list[Injection]:
    """Return all that was offered below a root request, by decision and rank."""
    rows = connection.execute(sql.queries("runtime")["injections_of_root"], (root_request_id,))
    return [parse_row(row) for row in rows]


def of_item(connection: apsw.Connection, item_id: str, *, limit: int = 20) -> list[Injection]:
    """Return when something was injected, the newest first."""
    values = {"item_id": item_id, "limit": limit}
    return [
        parse_row(row) for row in connection.execute(sql.queries("runtime")["injections_of_item"], values)
    ]


def parse_row(row: Any) -> Injection:
    """Make an injection of a row of the ledger."""
    values: dict[str, Any] = dict(zip(Injection.__slots__, row, strict=True))
    values["injected"] = bool(values["injected"])
    values["used"] = None if values["used"] is None else bool(values["used"])
    return Injection(**values)


def _row(injection: Injection) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(injection, name) for name in Injection.__slots__}
    return {**values, "injected": int(injection.injected), "why": storable(injection.why)}
