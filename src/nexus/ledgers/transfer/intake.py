"""Reading an exported file into a new home: all of it, checked, or nothing.

The file may come from anywhere. Nothing in it is trusted: no table but the schema's, no path but those
below a home, no line that does not say what it is.
"""

import base64
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self, cast

import apsw

from nexus.errors import CareError
from nexus.home import LEDGERS, Home
from nexus.ledgers import attach, files, guards, migrate, quarantine, sql, staging, tables
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.forgetting.receipts import Folder
from nexus.ledgers.forgetting.restoring import Returned, find_folder, remove_again
from nexus.ledgers.quarantine import Held
from nexus.ledgers.sql import BASELINE
from nexus.ledgers.tables import Table, quote
from nexus.ledgers.transfer import format as file_format
from nexus.ledgers.transfer.format import ForeignText, Header, Progress, Tally, Value, bad_line, blocks


class Tree:
    """config.toml and state/ of a home under construction.

    It makes folders and new plain files only, so no path can lead through a link to somewhere else.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._modes: dict[str, str] = {}
        self._current = ExitStack()
        self._stream: BinaryIO | None = None

    def take(self, record: dict[str, Any]) -> bool:
        """Write what a line brings; tells whether a file began with it."""
        if "more" in record:
            self._append(base64.b64decode(record["more"], validate=True))
            return False
        self._finish_file()
        if "directory" in record:
            path = self._path(record["directory"], record["mode"])
            files.folder(self._root / path)
            return False
        path = self._path(record["file"], record["mode"])
        content = (
            record["text"].encode() if "text" in record else base64.b64decode(record["base64"], validate=True)
        )
        self._stream = self._current.enter_context(files.new(self._root / path))
        self._append(content)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish_file()
        if error is None:
            files.permit(self._root, self._modes)

    def _path(self, path: object, mode: str) -> str:
        checked = files.check_path(path)
        if checked in self._modes:
            raise ValueError(f"{checked!r} comes twice")
        int(mode, 8)
        self._modes[checked] = mode
        return checked

    def _append(self, content: bytes) -> None:
        if self._stream is None:
            raise ValueError("it continues a file that did not begin")
        self._stream.write(content)

    def _finish_file(self) -> None:
        if self._stream is not None:
            files.sync(self._stream)
        self._current.close()
        self._stream = None


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
_ROWS_TOGETHER = 2000
_BYTES_TOGETHER = 4 * 1024 * 1024
# SQLite keeps no row over 1,000,000,000 bytes; a longer line than this is an accident or an attack.
_LONGEST_LINE_BYTES = 2 * 1024 * 1024 * 1024
_END = b'{"end":'
# Checkouts from before 0.1.0 exported these tables, too. Nothing filled the first four; reservations said too
# little to be billed.
_DROPPED: Final = {"event_state", "event_tags", "document_heads", "facets", "reservations"}
# Columns without a default that came later.
_ADDED: Final = {"approvals": {"call_hash": ""}}
_BEFORE: Final = Path(__file__).with_name("before_0_1_0.sql")


class Loader:
    """One ledger under construction."""

    def __init__(self, connection: apsw.Connection, ledger: str, version: int) -> None:
        self.ledger = ledger
        self._version = version
        self._connection = connection
        self._tables = {table.name: table for table in tables.list_tables(connection)}
        self._counters: list[Row] = []

    def table(self, name: str, columns: Sequence[str]) -> Table | None:
        """Return the table that rows with these columns go to; None for one that 0.1.0 doesn't have."""
        is_early = self._version < BASELINE
        if is_early and name in _DROPPED:
            return None
        if name not in self._tables:
            raise ValueError(f"the {self.ledger} ledger has no table {name!r}")
        table = self._tables[name]
        if is_early:
            given = {*columns, *_ADDED.get(name, {})}
            return replace(table, columns=tuple(column for column in table.columns if column in given))
        return table

    def complete(self, table: str, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row with the values that its table demands by now."""
        return {**_ADDED.get(table, {}), **row} if self._version < BASELINE else row

    def insert(self, table: Table, rows: list[Row], first_line: int) -> None:
        """Add rows that stand on consecutive lines of the file."""
        if table.name == tables.COUNTERS:
            self._counters += rows
            return
        line = first_line - 1

        def count_rows() -> Iterator[Any]:
            nonlocal line
            for row in rows:
                line += 1
                yield row

        try:
            self._connection.executemany(_insertion(table, rows[0]), count_rows())
        except (
            apsw.ConstraintError,
            apsw.MismatchError,
            apsw.TooBigError,
            OverflowError,
            ValueError,
        ) as error:
            raise bad_line(line, f"{self.ledger}.{table.name} refuses it: {error}") from error

    def adapt(self) -> None:
        """Bring rows from before 0.1.0 to what it expects."""
        for name, statements in sql.load_statements(_BEFORE).items():
            ledger, _, below = name.partition("_before_")
            if ledger == self.ledger and self._version < int(below):
                self._connection.execute(statements)

    def clear(self) -> None:
        """Remove the rows that a new ledger begins with: the file brings its own."""
        for name in self._tables:
            self._connection.execute(f"DELETE FROM {quote(name)}")  # noqa: S608  a name is no parameter

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
            setting = f"INSERT INTO {quote(name)} ({quote(name)}, rank) VALUES ('hashsize', ?)"  # noqa: S608 - names are quoted
            self._connection.execute(setting, (_BUFFER_BYTES,))
            self._connection.execute(f"INSERT INTO {quote(name)} ({quote(name)}) VALUES ('rebuild')")  # noqa: S608 - names are quoted
            self._connection.execute(setting, (_USUAL_BUFFER_BYTES,))


@contextmanager
def build_ledger(path: Path, ledger: str, version: int) -> Generator[Loader]:
    """Make a ledger at an older schema version to fill; in the end complete, durable and at the newest."""
    files.new(path).close()
    built = max(version, BASELINE)
    with translate_errors(ledger, path):
        migrate.build(path, ledger, None if built == migrate.latest(ledger) else built)
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.execute(_SETTINGS)
            connection.execute("BEGIN IMMEDIATE")
            with guards.suspend(connection, guards.EVERY), _indexed_afterwards(connection, ledger):
                loader = Loader(connection, ledger, version)
                loader.clear()
                yield loader
                loader.set_counters()
                loader.index_text()
            loader.adapt()
            migrate.record_history(connection, ledger, built)
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
        connection.execute(f"DROP INDEX {quote(name)}")
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
    columns = ", ".join(quote(column) for column in table.columns)
    places = ", ".join("CAST(? AS TEXT)" if isinstance(value, ForeignText) else "?" for value in row)
    return f"INSERT INTO {quote(table.name)} ({columns}) VALUES ({places})"  # noqa: S608  names are no parameters


class Rows:
    """Collects rows and hands them to the loader of their ledger."""

    def __init__(self, loaders: dict[str, Loader], tally: Tally) -> None:
        self._loaders = loaders
        self._tally = tally
        self._place: tuple[str, str] | None = None
        self._loader: Loader
        self._table: Table | None = None
        self._rows: list[Row] = []
        self._first_line = 0
        self._size_bytes = 0

    def take(self, record: dict[str, Any], line: int, size_bytes: int) -> None:
        """Take the row that a line brings."""
        place = (record["ledger"], record["table"])
        if place != self._place:
            self.flush()
            self._turn_to(place, tuple(record["row"]))
        if self._table is None:
            self._tally.rows[self._loader.ledger][place[1]] += 1
            return
        given = self._values_of(self._table, self._loader.complete(place[1], record["row"]))
        row = file_format.decode(given)
        # Text that is not UTF-8 needs a statement of its own.
        alone = row is not given and any(isinstance(value, file_format.ForeignText) for value in row)
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
        if self._rows and self._table is not None:
            self._loader.insert(self._table, self._rows, self._first_line)
            self._tally.rows[self._loader.ledger][self._table.name] += len(self._rows)
            self._rows = []
            self._size_bytes = 0

    def _turn_to(self, place: tuple[str, str], columns: Sequence[str]) -> None:
        ledger, table = place
        if ledger not in self._loaders:
            raise ValueError(f"the first line says nothing of a ledger {ledger!r}")
        self._loader = self._loaders[ledger]
        self._table = self._loader.table(table, columns)
        self._place = place

    def _values_of(self, table: Table, row: dict[str, Any]) -> tuple[Any, ...]:
        columns = table.columns
        if tuple(row) == columns:
            return tuple(row.values())
        missing = [name for name in columns if name not in row]
        unknown = [name for name in row if name not in columns]
        if missing or unknown:
            what = f"has no column {unknown[0]!r}" if unknown else f"needs {missing[0]!r}"
            raise ValueError(f"{table.name} {what}")
        return tuple(row[name] for name in columns)


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """What was read, and what of it waits for the owner's approval."""

    tally: Tally
    held: tuple[Held, ...]
    returned: tuple[Returned, ...] = ()
    """What was forgotten since the export."""


def read(
    stream: BinaryIO,
    home: Home,
    progress: Progress = lambda lines: None,
    *,
    trust: bool = False,
    receipts: Path | None = None,
) -> Imported:
    """Make a new home of an open file, line by line and in constant memory.

    Without `trust`, what could run arrives switched off. What was forgotten since is removed again, by the
    receipts in the home or folder `receipts`.
    """
    if staging.is_occupied(home):
        raise CareError(
            f"{home.root} already exists",
            hint="An import makes a new home: name a place with `nexus --home PATH import …`, "
            "or move that one away first.",
        )
    lines = _lines(stream)
    with staging.stage(home) as place:
        tally = Tally(_header(lines))
        _fill(place, tally, lines, progress)
        # What the file did not bring is made new.
        place.create_files()
        for name in LEDGERS:
            migrate.create(place.ledger(name), name)
        held = () if trust else quarantine.hold(place)
        sources = [Folder.of(place), *([] if receipts is None else [find_folder(receipts)])]
        returned = remove_again(place, sources, made_at=tally.header.created_at)
        staging.move_in(place, home)
        attach.ensure(home)
    return Imported(tally=tally, held=held, returned=tuple(returned))


def _fill(place: Home, tally: Tally, lines: Iterator[bytes], progress: Progress) -> None:
    with ExitStack() as stack:
        tree = stack.enter_context(Tree(place.root))
        rows = Rows(
            {
                name: stack.enter_context(build_ledger(place.ledger(name), name, version))
                for name, version in tally.header.schema.items()
            },
            tally,
        )
        for block in blocks(lines):
            last = block.pop() if block and block[-1].startswith(_END) else None
            # The first line is the header.
            for number, line in enumerate(block, start=tally.lines + 2):
                _take(_parse_line(line, number), number, len(line), rows, tree, tally)
            tally.add(block)
            progress(tally.lines)
            if last is not None:
                rows.flush()
                _check_end(_parse_line(last, tally.lines + 2), tally, lines)
                return
        raise _cut_short()


def _take(record: Any, number: int, size_bytes: int, rows: Rows, tree: Tree, tally: Tally) -> None:
    try:
        if "row" in record:
            rows.take(record, number, size_bytes)
        else:
            rows.flush()
            tally.files += tree.take(record)
    except KeyError as error:
        raise bad_line(number, f"it has no {error}") from error
    except (TypeError, ValueError, AttributeError, FileExistsError, NotADirectoryError) as error:
        raise bad_line(number, str(error)) from error
    except OSError as error:
        raise CareError(
            f"A file of the home could not be written: {files.reason(error)}",
            hint="Nothing changed. Check that the place can be written and has space.",
        ) from error


def _header(lines: Iterator[bytes]) -> Header:
    try:
        return Header.parse(file_format.parse_line(next(lines, b"")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CareError(
            "Not a file from `nexus export`",
            hint="Its first line must begin with `nexus_export`. For a folder, use `nexus restore`.",
        ) from error


def _parse_line(line: bytes, number: int) -> Any:
    if not line.endswith(b"\n"):
        raise _cut_short()
    try:
        return file_format.parse_line(line)
    except (ValueError, RecursionError) as error:
        raise bad_line(number, f"it is not JSON ({error})") from error


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    try:
        yield from iter(partial(stream.readline, _LONGEST_LINE_BYTES), b"")
    except EOFError as error:
        raise _cut_short() from error
    except (OSError, zlib.error) as error:
        raise CareError(
            f"Can't read the file: {error}",
            hint="Nothing changed. Copy the file again, or export again.",
        ) from error


def _cut_short() -> CareError:
    return CareError(
        "The file is truncated: its last line is missing",
        hint="Nothing changed. Copy the file again, or export again.",
    )


def _check_end(record: Any, tally: Tally, lines: Iterator[bytes]) -> None:
    if record != {"end": tally.end()} or next(lines, None) is not None:
        raise CareError(
            "The file is damaged: its checksum does not match",
            hint="Nothing changed. Copy the file again, or export again.",
        )
