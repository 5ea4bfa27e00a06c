"""Where the rows of an exported file go: those of one table that follow each other go in together."""

from typing import TYPE_CHECKING, Any

from nexus.ledgers.transfer import values
from nexus.ledgers.transfer.format import Tally
from nexus.ledgers.transfer.loader import Loader, Row

if TYPE_CHECKING:
    from nexus.ledgers.tables import Table

_ROWS_TOGETHER = 2000
_BYTES_TOGETHER = 4 * 1024 * 1024


class Rows:
    """Collects rows and hands them to the loader of their ledger."""

    def __init__(self, loaders: dict[str, Loader], tally: Tally) -> None:
        self._loaders = loaders
        self._tally = tally
        self._place: tuple[str, str] | None = None
        self._loader: Loader
        self._table: Table
        self._rows: list[Row] = []
        self._first_line = 0
        self._size_bytes = 0

    def take(self, record: dict[str, Any], line: int, size_bytes: int) -> None:
        """Take the row that a line brings."""
        place = (record["ledger"], record["table"])
        if place != self._place:
            self.flush()
            self._turn_to(place)
        given = self._values_of(record["row"])
        row = values.decoded(given)
        # Text that is not UTF-8 needs a statement of its own.
        alone = row is not given and any(isinstance(value, values.ForeignText) for value in row)
        if alone:
            self.flush()
        if not self._rows:
            self._first_line = line
        self._rows.append(row)
        self._size_bytes += size_bytes
        if alone or len(self._rows) >= _ROWS_TOGETHER or self._size_bytes >= _BYTES_TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Put in what was collected."""
        if self._rows:
            self._loader.insert(self._table, self._rows, self._first_line)
            self._tally.rows[self._loader.ledger][self._table.name] += len(self._rows)
            self._rows = []
            self._size_bytes = 0

    def _turn_to(self, place: tuple[str, str]) -> None:
        ledger, table = place
        if ledger not in self._loaders:
            raise ValueError(f"the first line says nothing of a ledger {ledger!r}")
        self._loader = self._loaders[ledger]
        self._table = self._loader.table(table)
        self._place = place

    def _values_of(self, row: dict[str, Any]) -> tuple[Any, ...]:
        columns = self._table.columns
        if tuple(row) == columns:
            return tuple(row.values())
        missing = [name for name in columns if name not in row]
        unknown = [name for name in row if name not in columns]
        if missing or unknown:
            what = f"has no column {unknown[0]!r}" if unknown else f"needs {missing[0]!r}"
            raise ValueError(f"{self._table.name} {what}")
        return tuple(row[name] for name in columns)
