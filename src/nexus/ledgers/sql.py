"""SQL lives in .sql files; this reads them, runs one statement, and makes objects of rows.

A query file holds named statements: a line `-- name: append_event` starts each one.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import apsw

T = TypeVar("T")

BASELINE: Final = 100
"""The number of the schema of 0.1.0. Files of earlier checkouts have lower ones."""
_HERE = Path(__file__).parent


@cache
def text(ledger: str, file: str) -> str:
    """Return the text of `ledgers/<ledger>/<file>`."""
    return (_HERE / ledger / file).read_text(encoding="utf-8")


@cache
def load_statements(file: Path) -> dict[str, str]:
    """Return the named statements of one file."""
    found: dict[str, str] = {}
    for part in file.read_text(encoding="utf-8").split("-- name:")[1:]:
        name, _, statement = part.partition("\n")
        assert name.strip() not in found, f"{file.name} has two statements called {name.strip()}"  # noqa: S101 - a mistake in the program
        found[name.strip()] = statement.strip()
    return found


@cache
def queries(ledger: str) -> dict[str, str]:
    """Return the named statements of `ledgers/<ledger>/queries.sql`."""
    return load_statements(_HERE / ledger / "queries.sql")


@cache
def migrations(ledger: str) -> tuple[tuple[int, str, str], ...]:
    """Return the steps to a ledger's schema in order: number, name, statements.

    The first is the schema of 0.1.0. That is `schema.sql`, until the first migration keeps a copy of it.
    """
    names = sorted(file.name for file in (_HERE / ledger / "migrations").glob("*.sql"))
    if not names:
        return ((BASELINE, f"{BASELINE:04}_baseline", text(ledger, "schema.sql")),)
    return tuple(
        (int(name[:4]), name.removesuffix(".sql"), text(ledger, f"migrations/{name}")) for name in names
    )


def run(connection: apsw.Connection, statement: str, values: Any = ()) -> None:
    """Run a statement for what it changes."""
    connection.execute(statement, values).fetchall()


def run_each(connection: apsw.Connection, statement: str, rows: Iterable[Any]) -> None:
    """Run a statement once for each of some values."""
    connection.executemany(statement, rows).fetchall()


def rows(connection: apsw.Connection, statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
    """Return all rows of a statement."""
    return cast("list[tuple[Any, ...]]", connection.execute(statement, values).fetchall())


def row(connection: apsw.Connection, statement: str, values: Any = ()) -> tuple[Any, ...] | None:
    """Return the first row of a statement, if it has one."""
    return connection.execute(statement, values).fetchone()


def make(kind: type[T], row: Iterable[Any]) -> T:
    """Make an object of a row whose columns stand in the order of its fields."""
    fields: tuple[str, ...] = cast("Any", kind).__slots__
    return kind(**dict(zip(fields, row, strict=True)))


def value(connection: apsw.Connection, statement: str, values: Any = ()) -> Any:
    """Return the only value of a statement's first row, or None without a row."""
    return connection.execute(statement, values).get
