"""Which tables of a ledger hold its data: not the views, not the full-text indexes, not SQLite's own."""

from dataclasses import dataclass
from functools import cache
from typing import Final, cast

import apsw

from nexus.ledgers import sql

# SQLite's own counters are data too: without them a number that was used could be used again.
COUNTERS: Final = "sqlite_sequence"
_TABLES = """
SELECT name, wr FROM pragma_table_list
WHERE schema = 'main' AND type = 'table' AND (name NOT GLOB 'sqlite_*' OR name = 'sqlite_sequence')
  AND name <> 'home_fence'  -- not data: it says which host may write
ORDER BY name
"""
_COLUMNS = "SELECT name, pk FROM pragma_table_info(?) ORDER BY cid"
# fts5vocab only looks into an index; it has nothing to rebuild.
_FULL_TEXT = """
SELECT name FROM sqlite_schema
WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE % USING fts5%' AND sql NOT LIKE '% USING fts5vocab%'
ORDER BY name
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, its columns, and the columns that give its rows one lasting order."""

    name: str
    columns: tuple[str, ...]
    order: tuple[str, ...]


def list_tables(connection: apsw.Connection) -> list[Table]:
    """Return the tables of an open file, by name."""
    found = cast("list[tuple[str, int]]", connection.execute(_TABLES).fetchall())
    return [_table(connection, name, without_rowid=bool(flag)) for name, flag in found]


@cache
def load_expected(ledger: str) -> dict[str, Table]:
    """Return the tables of the newest schema, by name."""
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(sql.text(ledger, "schema.sql"))
        return {table.name: table for table in list_tables(connection)}
    finally:
        connection.close()


def counts(connection: apsw.Connection) -> dict[str, int]:
    """Count how many rows each table has."""
    names = [table.name for table in list_tables(connection)]
    count = "SELECT count(*) FROM {}"
    return {name: cast("int", connection.execute(count.format(quote(name))).get) for name in names}


def full_text(connection: apsw.Connection) -> list[str]:
    """Return the names of the full-text indexes."""
    return [cast("str", name) for (name,) in connection.execute(_FULL_TEXT)]


def quote(name: str) -> str:
    """Return a name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def _table(connection: apsw.Connection, name: str, *, without_rowid: bool) -> Table:
    columns = cast("list[tuple[str, int]]", connection.execute(_COLUMNS, (name,)).fetchall())
    key = sorted((position, column) for column, position in columns if position)
    order = tuple(column for _, column in key) if without_rowid else ("rowid",)
    return Table(name, tuple(column for column, _ in columns), order)
