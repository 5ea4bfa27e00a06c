"""Writing a whole home to one file, while others may be writing to the home."""

import base64
import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import apsw

from nexus import __version__, clock
from nexus.config import LedgersConfig
from nexus.errors import LedgerCorruptError
from nexus.home import LEDGERS, Home
from nexus.ledgers import files, migrate, tables
from nexus.ledgers.connection import connect
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.staging import snapshots
from nexus.ledgers.tables import Table, quote
from nexus.ledgers.transfer import format as file_format
from nexus.ledgers.transfer.format import FILE_CHUNK_BYTES, Header, Progress, Tally, blocks, dump_line

_EXACT = "typeof({0}) = 'text', CASE typeof({0}) WHEN 'text' THEN CAST({0} AS BLOB) ELSE {0} END"


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """What went into the file, and what of the home could not."""

    tally: Tally
    left_out: tuple[str, ...]


def write(
    home: Home, stream: BinaryIO, *, embeddings: bool = True, progress: Progress = lambda lines: None
) -> Exported:
    """Write the home as it is now to an open file, line by line and in constant memory."""
    names = [name for name in LEDGERS if embeddings or name != "embeddings"]
    with snapshots(home, _open) as sources:
        header = Header(
            nexus_version=__version__,
            created_at=clock.timestamp(clock.now()),
            schema={name: migrate.latest(name) for name in names},
        )
        tally = Tally(header)
        stream.write(header.line())
        left_out = [part for name in names for part in _foreign(sources[name], name)]
        for name in names:
            for table in tables.load_expected(name).values():
                _write(stream, _rows(sources[name], name, table, tally), tally, progress)
        # After the ledgers, because these refer to files: an automation to its script.
        _write(stream, _files(home, tally, left_out), tally, progress)
    stream.write(tally.last_line())
    return Exported(tally=tally, left_out=tuple(left_out))


def _open(path: Path, ledger: str) -> apsw.Connection:
    # With the default settings: a config.toml that cannot be used must not keep the data in.
    return connect(path, ledger, LedgersConfig(), writes=False)


def _write(stream: BinaryIO, lines: Iterator[bytes], tally: Tally, progress: Progress) -> None:
    for block in blocks(lines):
        stream.write(tally.add(block))
        progress(tally.lines)


def _foreign(connection: apsw.Connection, ledger: str) -> Iterator[str]:
    """Yield tables and columns that somebody added: their meaning is not ours to carry to another home."""
    known = tables.load_expected(ledger)
    for table in tables.list_tables(connection):
        if table.name not in known:
            yield f"the table {table.name} in the {ledger} ledger"
        else:
            added = set(table.columns) - set(known[table.name].columns)
            yield from (
                f"the column {column} of {table.name} in the {ledger} ledger" for column in sorted(added)
            )


def _rows(connection: apsw.Connection, ledger: str, table: Table, tally: Tally) -> Iterator[bytes]:
    place = f'"ledger":{json.dumps(ledger)},"table":{json.dumps(table.name)}'
    template = f'{{{place},"row":{file_format.template(table.columns)}}}\n'
    count = 0
    try:
        with translate_errors(ledger, Path(connection.filename)):
            for row in _values(connection, table):
                if table.name == tables.COUNTERS and row[0] not in tables.load_expected(ledger):
                    continue
                count += 1
                yield file_format.encode(template, row).encode()
    except apsw.SQLError as error:
        raise LedgerCorruptError(
            f"The {ledger} ledger is not as it should be: {error}", hint="Run `nexus doctor`."
        ) from error
    if count:
        tally.rows[ledger][table.name] = count


def _values(connection: apsw.Connection, table: Table) -> Iterator[tuple[file_format.Value, ...]]:
    columns = [quote(column) for column in table.columns]
    order = ", ".join(quote(column) for column in table.order)
    read = f"SELECT {{}} FROM {quote(table.name)} ORDER BY {order}"  # noqa: S608  names are no parameters
    count = 0
    try:
        for row in connection.execute(read.format(", ".join(columns))):
            yield row
            count += 1
    except UnicodeDecodeError:
        # Another program wrote text that is not UTF-8. From that row on, text is read as bytes.
        exact = [_EXACT.format(column) for column in columns]
        rows = connection.execute(read.format(", ".join(exact)))
        for row in itertools.islice(rows, count, None):
            yield tuple(
                file_format.from_bytes(cast("bytes", value)) if is_text else value
                for is_text, value in zip(row[::2], row[1::2], strict=True)
            )


def _files(home: Home, tally: Tally, left_out: list[str]) -> Iterator[bytes]:
    for entry in files.entries(home):
        if entry.kind == "directory":
            yield dump_line({"directory": entry.path, "mode": entry.mode})
        elif entry.kind == "file":
            # Agents work on meanwhile: a file that is gone by now is no longer part of the home.
            with suppress(FileNotFoundError):
                yield from _file(home, entry, tally)
        else:
            left_out.append(f"{entry.path}, which is {'a link' if entry.kind == 'link' else 'no plain file'}")


def _file(home: Home, entry: files.Entry, tally: Tally) -> Iterator[bytes]:
    with (home.root / entry.path).open("rb") as stream:
        tally.files += 1
        first = stream.read(FILE_CHUNK_BYTES)
        yield dump_line({"file": entry.path, "mode": entry.mode, **_content(first)})
        for more in iter(partial(stream.read, FILE_CHUNK_BYTES), b""):
            yield dump_line({"more": base64.b64encode(more).decode()})


def _content(chunk: bytes) -> dict[str, str]:
    text = file_format.from_bytes(chunk)
    if isinstance(text, str) and len(chunk) < FILE_CHUNK_BYTES:
        return {"text": text}
    return {"base64": base64.b64encode(chunk).decode()}
