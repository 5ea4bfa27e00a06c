"""Carrying a plan out in one ledger. Every step may be repeated: what is gone already stays gone."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final, cast

import apsw

from nexus.home import Home
from nexus.ledgers import guards
from nexus.ledgers.database import Database
from nexus.ledgers.forgetting import rows, tables
from nexus.ledgers.forgetting.rules import Table
from nexus.ledgers.forgetting.sets import attach
from nexus.ledgers.memory import seals

# Between batches other writers have their turn.
_BATCH_KEYS: Final = 10_000
_ITEMS: Final = "SELECT item_id AS key FROM plan.forget_items WHERE forget_id = :forget AND kind"


async def remove(database: Database, home: Home, forget_id: str, kinds: set[str]) -> None:
    """Remove from one ledger what a recorded plan says, and empty what it says.

    `kinds` are those that the plan holds: rules about others find nothing to do.
    """
    # Parts before what they are parts of, so that no reader meets a part of nothing.
    for table in reversed(tables.of(database.ledger)):
        for kind, condition in rows.gone(table, _batch):
            last: str | None = "" if kind in kinds else None
            while last is not None:
                last = await database.maintain(_Removal(home, table, kind, condition, forget_id, last))
        for assignment, condition in _emptying(table, kinds):
            await database.maintain(_Emptying(home, table, assignment, condition, forget_id))


class _Removal:
    """Removes the rows of a table that go with the next keys of a kind; tells the last of these keys."""

    def __init__(
        self, home: Home, table: Table, kind: str, condition: str, forget_id: str, after: str
    ) -> None:
        self._home = home
        self._table = table.name
        self._next = f"SELECT max(key) FROM ({_ITEMS} = '{kind}' AND item_id > :after ORDER BY 1 LIMIT :keys)"  # noqa: S608 - names are constants of the program, values are bound
        self._first = _first(table, condition)
        self._remove = f"DELETE FROM {table.name} WHERE {condition}"  # noqa: S608 - names are constants of the program, values are bound
        self._bindings: dict[str, str | int] = {"forget": forget_id, "after": after, "keys": _BATCH_KEYS}

    def __call__(self, connection: apsw.Connection) -> str | None:
        with _plan_beside(connection, self._home):
            last = connection.execute(self._next, self._bindings).get
            if last is not None:
                bindings = {**self._bindings, "last": last}
                with _unguarded(connection, self._table):
                    _lift_seals(connection, self._first, bindings)
                    connection.execute(self._remove, bindings)
        return cast("str | None", last)


class _Emptying:
    """Empties a column of rows that stay."""

    def __init__(self, home: Home, table: Table, assignment: str, condition: str, forget_id: str) -> None:
        self._home = home
        self._table = table.name
        self._wanted = f"SELECT 1 FROM {table.name} WHERE {condition} LIMIT 1"  # noqa: S608 - names are constants of the program, values are bound
        self._first = _first(table, condition)
        self._empty = f"UPDATE {table.name} SET {assignment} WHERE {condition}"  # noqa: S608 - names are constants of the program, values are bound
        self._bindings: dict[str, str | int] = {"forget": forget_id}

    def __call__(self, connection: apsw.Connection) -> None:
        with _plan_beside(connection, self._home):
            if connection.execute(self._wanted, self._bindings).get:
                with _unguarded(connection, self._table):
                    _lift_seals(connection, self._first, self._bindings)
                    connection.execute(self._empty, self._bindings)


def _first(table: Table, condition: str) -> str | None:
    """The query for the first row that changes, where rows are sealed in order."""
    return f"SELECT min(seq) FROM facts WHERE {condition}" if table.name == "facts" else None  # noqa: S608 - names are constants of the program, values are bound


def _lift_seals(connection: apsw.Connection, query: str | None, bindings: dict[str, str | int]) -> None:
    """Facts from there on are sealed again when all is removed."""
    first = connection.execute(query, bindings).get if query else None
    if first is not None:
        seals.lift(connection, cast("int", first))


def _emptying(table: Table, kinds: set[str]) -> Iterator[tuple[str, str]]:
    """What is assigned to which rows of a table."""
    for ref in table.refs:
        if ref.table in kinds and not (ref.removes or ref.implied):
            yield f"{ref.column} = NULL", rows.referring(ref, _planned)
    for text in table.texts:
        if f"{table.name}.{text.column}" in kinds:
            blank = "NULL" if text.blank is None else f"'{text.blank}'"
            keys = _planned(f"{table.name}.{text.column}")
            yield f"{text.column} = {blank}", rows.with_key(table, keys)


def _planned(kind: str) -> str:
    return f"({_ITEMS} = '{kind}')"


def _batch(kind: str) -> str:
    return f"({_ITEMS} = '{kind}' AND item_id > :after AND item_id <= :last)"


@contextmanager
def _plan_beside(connection: apsw.Connection, home: Home) -> Generator[None]:
    """The recorded plan to read from, in whichever ledger the connection is."""
    attach(connection, home, "runtime", "plan")
    try:
        yield
    finally:
        connection.execute("DETACH DATABASE plan")


@contextmanager
def _unguarded(connection: apsw.Connection, table: str) -> Generator[None]:
    """A transaction in which rows of a table may change and go.

    Only that table's guards are lifted, because every other connection reads the schema anew then.
    Foreign keys are not enforced meanwhile: the plan takes both ends, and looking for the other end of
    each row would take longer than removing it.
    """
    connection.pragma("foreign_keys", False)
    try:
        connection.execute("BEGIN IMMEDIATE")
        with guards.suspended(connection, guards.refusals_of(table)):
            yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.pragma("foreign_keys", True)
