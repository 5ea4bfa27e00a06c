"""What people decided about facts: accepted, rejected, pinned. A log; the newest decision counts."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, cast

import apsw

from nexus.ledgers import sql
from nexus.ledgers.text import storable

Decision = Literal["accept", "reject", "reopen", "pin", "unpin"]
"""`reopen` takes an accept or a reject back, `unpin` a pin."""
PINNED_ABOUT: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """What was decided about a fact, by whom and when."""

    verdict: Literal["accept", "reject"] | None = None
    by: str | None = None
    at: str | None = None
    reason: str | None = None
    is_pinned: bool = False

    @property
    def is_rejected(self) -> bool:
        return self.verdict == "reject"

    def changes(self, decision: Decision) -> bool:
        """Whether a decision would make a difference."""
        if decision in ("pin", "unpin"):
            return self.is_pinned != (decision == "pin")
        return self.verdict != (None if decision == "reopen" else decision)


UNDECIDED: Final = State()


def states(connection: apsw.Connection, fact_ids: Iterable[str]) -> dict[str, State]:
    """Return what was decided about each of some facts."""
    rows = sql.rows(connection, sql.queries("memory")["fact_states"], (json.dumps(list(fact_ids)),))
    return {
        str(id_): State(verdict=verdict, by=by, at=at, reason=reason, is_pinned=bool(pinned))
        for id_, verdict, by, at, reason, pinned in rows
    }


def add(
    connection: apsw.Connection,
    fact_id: str,
    decision: Decision,
    *,
    actor: str,
    now: str,
    reason: str | None = None,
) -> State:
    """Record a decision, unless it stands already; returns what holds now."""
    if states(connection, [fact_id])[fact_id].changes(decision):
        values = {
            "fact": fact_id,
            "decision": decision,
            "actor": storable(actor),
            "reason": storable(reason) if reason else None,
            "now": now,
        }
        connection.execute(sql.queries("memory")["add_review"], values)
    return states(connection, [fact_id])[fact_id]


def pinned_about(connection: apsw.Connection, entities: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return pinned facts about some entities, and those about nobody in particular; newest pin first."""
    values = {"entities": json.dumps(list(entities)), "limit": PINNED_ABOUT}
    rows = sql.rows(connection, sql.queries("memory")["pinned_about"], values)
    found = cast("list[tuple[str, int]]", rows)
    return [id_ for id_, free in found if not free], [id_ for id_, free in found if free]
