"""The record of a forget in the runtime ledger: the plan while it is under way, then counts for good."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol, cast

import apsw

from nexus.ledgers import events, sql
from nexus.ledgers.forgetting.planning import Plan
from nexus.ledgers.forgetting.sets import Sets
from nexus.ledgers.forgetting.targets import Kind, Target

_QUERIES: Final = sql.queries("forgetting")


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How much went: rows by `ledger.table`, emptied columns by `ledger.table.column`, files."""

    removed: dict[str, int] = field(default_factory=dict[str, int])
    emptied: dict[str, int] = field(default_factory=dict[str, int])
    files: int = 0

    def and_those_of(self, plan: Plan) -> "Counts":
        return Counts(
            removed=_sum(self.removed, plan.removed),
            emptied=_sum(self.emptied, plan.emptied),
            files=self.files + plan.files,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One forget, as it is recorded: no content, only an id or a range, and counts."""

    forget_id: str
    target: Target
    counts: Counts

    def begin(self, connection: apsw.Connection, sets: Sets, actor: str) -> None:
        """Write the plan down, whole or not at all."""
        values = (self.forget_id, self.target.kind, self.target.value, self._counts_json(), actor)
        connection.execute(_QUERIES["begin_forget"], values)
        self._add_items(connection, sets)

    def extend(self, connection: apsw.Connection, sets: Sets) -> None:
        """Write down what a later pass found."""
        connection.execute(_QUERIES["update_counts"], (self._counts_json(), self.forget_id))
        self._add_items(connection, sets)

    def kinds(self, connection: apsw.Connection) -> set[str]:
        """The kinds of things that the plan holds."""
        return {str(row[0]) for row in connection.execute(_QUERIES["planned_kinds"], (self.forget_id,))}

    def files(self, connection: apsw.Connection) -> list[str]:
        """The files that go, as paths below the home."""
        return [str(row[0]) for row in connection.execute(_QUERIES["planned_files"], (self.forget_id,))]

    def executions(self, connection: apsw.Connection) -> list[str]:
        """The runs that go or lose a text, by id."""
        rows = connection.execute(_QUERIES["planned_executions"], (self.forget_id,))
        return [str(row[0]) for row in rows]

    def publish(self, connection: apsw.Connection) -> None:
        """Tell followers of the bus, once."""
        type_ = f"{self.target.kind}.forgotten"
        if connection.execute(_QUERIES["is_published"], {"type": type_, "id": self.forget_id}).get:
            return
        payload: dict[str, Any] = {"forget_id": self.forget_id, **asdict(self.counts)}
        events.publish(connection, type_, (self.target.kind, self.target.value), payload)

    def drop_items(self, connection: apsw.Connection) -> None:
        """Let the plan go; every ledger has followed it."""
        connection.execute(_QUERIES["drop_items"], (self.forget_id,))

    def complete(self, connection: apsw.Connection) -> None:
        connection.execute(_QUERIES["complete_forget"], (self.forget_id,))

    def _add_items(self, connection: apsw.Connection, sets: Sets) -> None:
        rows = ((self.forget_id, kind, key) for kind, key in sets.items())
        connection.executemany(_QUERIES["plan_item"], rows)

    def _counts_json(self) -> str:
        return json.dumps(asdict(self.counts))


def unfinished(connection: apsw.Connection) -> list[Entry]:
    """Every forget that was begun and is not complete."""
    rows = connection.execute(_QUERIES["unfinished_forgets"]).fetchall()
    return [
        Entry(
            forget_id=str(forget_id),
            target=Target(kind=cast("Kind", kind), value=str(value)),
            counts=Counts(**cast("dict[str, Any]", json.loads(str(counts)))),
        )
        for forget_id, kind, value, counts in rows
    ]


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in dict.fromkeys((*one, *other))}


class Beside(Protocol):
    """Handed in by whoever knows the ledgers and the store."""

    async def remove(self, execution_ids: Sequence[str], /) -> None:
        """Remove all copies that belong to these runs. It may be repeated."""
        ...

    async def scrub(self) -> str:
        """Take the removed bytes out of its files; returns what could not be done."""
        ...


class Nothing:
    """Where the ledgers are all there is."""

    async def remove(self, execution_ids: Sequence[str], /) -> None:
        pass

    async def scrub(self) -> str:
        return ""
