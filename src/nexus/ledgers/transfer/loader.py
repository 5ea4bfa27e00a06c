"""Filling one new ledger with the rows of another, exactly as they were.

Nobody else sees the file yet, so it is filled the fast way: without triggers and indexes, which are
made again afterwards, and with one sync at the end.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import apsw

from nexus.errors import CareError
from nexus.ledgers import files, guards, migrate, tables
from nexus.ledgers.failures import translated
from nexus.ledgers.tables import Table, quoted
from nexus.ledgers.transfer.format import bad_line
from nexus.ledgers.transfer.values import ForeignText, Value

Row = tuple[Value, ...]

_SETTINGS = """
PRAGMA foreign_keys = OFF;
PRAGMA synchronous = OFF;
PRAGMA journal_mode = MEMORY;
PRAGMA cache_size = -65536;
"""
_INDEXES = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name"
# With a larger buffer the full-text index is built in few large pieces, in half of the time.
_BUFFER_BYTES = 32 * 1024 * 1024
_USUAL_BUFFER_BYTES = 1024 * 1024


class Loader:
    """One ledger under construction."""

    def __init__(self, connection: apsw.Connection, ledger: str) -> None:
        self.ledger = ledger
        self._connection = connection
        self._tables = {table.name: table for table in tables.present(connection)}
        self._counters: list[Row] = []

    def table(self, name: str) -> Table:
        """The table of that name, as it is in the schema that the rows come from."""
        if name not in self._tables:
            raise ValueError(f"the {self.ledger} ledger has no table {name!r}")
        return self._tables[name]

    def insert(self, table: Table, rows: list[Row], first_line: int) -> None:
        """Add rows that stand on consecutive lines of the file."""
        if table.name == tables.COUNTERS:
            self._counters += rows
            return
        line = first_line - 1

        def counted() -> Iterator[Any]:
            nonlocal line
            for row in rows:
                line += 1
                yield row

        try:
            self._connection.executemany(_insertion(table, rows[0]), counted())
        except (
            apsw.ConstraintError,
            apsw.MismatchError,
            apsw.TooBigError,
            OverflowError,
            ValueError,
        ) as error:
            raise bad_line(line, f"{self.ledger}.{table.name} refuses it: {error}") from error

    def clear(self) -> None:
        """Remove the rows that a new ledger begins with: the file brings its own."""
        for name in self._tables:
            self._connection.execute(f"DELETE FROM {quoted(name)}")  # noqa: S608  a name is no parameter

    def set_counters(self) -> None:
        """Set SQLite's counters to the file's: it has moved them itself with every row."""
        if tables.COUNTERS not in self._tables:
            return
        self._connection.execute("DELETE FROM sqlite_sequence")
        for name, number in self._counters:
            if name not in self._tables or type(number) is not int or not 0 <= number < 2**63:
                raise CareError(f"The file has a counter for the {self.ledger} ledger that is none: {name!r}")
            self._connection.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, number))

    def index_text(self) -> None:
        """Build the full-text indexes from the rows."""
        for name in tables.full_text(self._connection):
            setting = f"INSERT INTO {quoted(name)} ({quoted(name)}, rank) VALUES ('hashsize', ?)"  # noqa: S608 - names are quoted
            self._connection.execute(setting, (_BUFFER_BYTES,))
            self._connection.execute(f"INSERT INTO {quoted(name)} ({quoted(name)}) VALUES ('rebuild')")  # noqa: S608 - names are quoted
            self._connection.execute(setting, (_USUAL_BUFFER_BYTES,))


@contextmanager
def loading(path: Path, ledger: str, version: int) -> Generator[Loader]:
    """A new ledger at an older schema version to fill; in the end complete, durable and at the newest."""
    files.new(path).close()
    with translated(ledger, path):
        migrate.build(path, ledger, None if version == migrate.latest(ledger) else version)
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.execute(_SETTINGS)
            connection.execute("BEGIN IMMEDIATE")
            with guards.suspended(connection, guards.EVERY), _indexed_afterwards(connection, ledger):
                loader = Loader(connection, ledger)
                loader.clear()
                yield loader
                loader.set_counters()
                loader.index_text()
            migrate.record_history(connection, ledger, version)
            connection.execute("COMMIT")
            connection.pragma("journal_mode", "wal")
            migrate.upgrade(connection, ledger)
        finally:
            connection.close()
    files.sync_file(path)


@contextmanager
def _indexed_afterwards(connection: apsw.Connection, ledger: str) -> Generator[None]:
    """Without indexes while rows come in: sorting them once is faster, and stays so in a large ledger."""
    indexes = cast("list[tuple[str, str]]", connection.execute(_INDEXES).fetchall())
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {quoted(name)}")
    yield
    for _, statement in indexes:
        try:
            connection.execute(statement)
        except apsw.ConstraintError as error:
            raise CareError(
                f"The file's rows for the {ledger} ledger contradict each other: {error}",
                hint="Nothing changed. The file was not written by `nexus export`, or was edited since.",
            ) from error


def _insertion(table: Table, row: Row) -> str:
    columns = ", ".join(quoted(column) for column in table.columns)
    places = ", ".join("CAST(? AS TEXT)" if isinstance(value, ForeignText) else "?" for value in row)
    return f"INSERT INTO {quoted(table.name)} ({columns}) VALUES ({places})"  # noqa: S608  names are no parameters
