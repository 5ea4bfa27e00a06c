"""Reading an exported file into a new home: all of it, checked, or nothing.

The file may come from anywhere. Nothing in it is trusted: no table but the schema's, no path but those
below a home, no line that does not say what it is.
"""

import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from nexus.errors import CareError
from nexus.home import LEDGERS, Home
from nexus.ledgers import attach, files, migrate, quarantine, staging
from nexus.ledgers.quarantine import Held
from nexus.ledgers.transfer import values
from nexus.ledgers.transfer.format import Header, Progress, Tally, bad_line, blocks
from nexus.ledgers.transfer.loader import loading
from nexus.ledgers.transfer.rows import Rows
from nexus.ledgers.transfer.tree import Tree

# SQLite keeps no row over 1,000,000,000 bytes; a longer line than this is an accident or an attack.
_LONGEST_LINE_BYTES = 2 * 1024 * 1024 * 1024
_END = b'{"end":'


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """What was read, and what of it waits for the owner's approval."""

    tally: Tally
    held: tuple[Held, ...]


def read(
    stream: BinaryIO, home: Home, progress: Progress = lambda lines: None, *, trust: bool = False
) -> Imported:
    """Make a new home of an open file, line by line and in constant memory.

    Without `trust`, what could run arrives switched off.
    """
    if staging.occupied(home):
        raise CareError(
            f"{home.root} already exists",
            hint="An import makes a new home: name a place with `nexus --home PATH import …`, "
            "or move that one away first.",
        )
    lines = _lines(stream)
    with staging.staged(home) as place:
        tally = Tally(_header(lines))
        _fill(place, tally, lines, progress)
        # What the file did not bring is made new.
        place.create()
        for name in LEDGERS:
            migrate.create(place.ledger(name), name)
        held = () if trust else quarantine.hold(place)
        staging.move_in(place, home)
        attach.ensure(home)
    return Imported(tally=tally, held=held)


def _fill(place: Home, tally: Tally, lines: Iterator[bytes], progress: Progress) -> None:
    with ExitStack() as stack:
        tree = stack.enter_context(Tree(place.root))
        rows = Rows(
            {
                name: stack.enter_context(loading(place.ledger(name), name, version))
                for name, version in tally.header.schema.items()
            },
            tally,
        )
        for block in blocks(lines):
            last = block.pop() if block and block[-1].startswith(_END) else None
            # The first line is the header.
            for number, line in enumerate(block, start=tally.lines + 2):
                _take(_parsed(line, number), number, len(line), rows, tree, tally)
            tally.add(block)
            progress(tally.lines)
            if last is not None:
                rows.flush()
                _check_end(_parsed(last, tally.lines + 2), tally, lines)
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
        return Header.parsed(values.parsed(next(lines, b"")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CareError(
            "Not a file from `nexus export`",
            hint="Its first line must begin with `nexus_export`. For a folder, use `nexus restore`.",
        ) from error


def _parsed(line: bytes, number: int) -> Any:
    if not line.endswith(b"\n"):
        raise _cut_short()
    try:
        return values.parsed(line)
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
