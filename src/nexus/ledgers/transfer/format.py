"""The exported file: its lines and values, and the compressed stream that they are in."""

import base64
import gzip
import hashlib
import io
import json
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn, Self, cast

from nexus import ids
from nexus.errors import CareError
from nexus.home import LEDGERS
from nexus.ledgers import files, migrate

FORMAT_VERSION: Final = 1
# How much of a file one line carries.
FILE_CHUNK_BYTES: Final = 1024 * 1024
# What can be read of the time before 0.1.0: the schemas of 091557c.
_OLDEST = {"events": 2, "agents": 3, "identity": 4, "memory": 4, "embeddings": 2, "runtime": 12}
_BLOCK_BYTES = 256 * 1024

# Called now and then with the number of lines so far.
Progress = Callable[[int], None]
PIPE: Final = "-"
_HEADER = b'{"nexus_export":'
_GZIP_MAGIC = b"\x1f\x8b"
_BUFFER_BYTES = 1024 * 1024


class ForeignText(bytes):
    """The bytes of a text that is not UTF-8, as SQLite keeps them."""

    __slots__ = ()


Value = None | int | float | str | bytes

_INFINITE = {"inf": float("inf"), "-inf": float("-inf")}


def template(columns: Iterable[str]) -> str:
    """Return the JSON object of a row, with a place for each value."""
    # A table has the same columns in every row: naming them once takes half the time of a dict each.
    names = [json.dumps(column).replace("%", "%%") for column in columns]
    return "{" + ",".join(f"{name}:%s" for name in names) + "}"


def encode(template: str, row: Iterable[Value]) -> str:
    """Write a row as a JSON object."""
    return template % tuple([_ENCODERS[type(value)](value) for value in row])


def decode(row: tuple[Any, ...]) -> tuple[Value, ...]:
    """Return a row of JSON values as SQLite takes them; the very same one where nothing was marked."""
    if _PLAIN.issuperset(map(type, row)):
        return row
    return tuple(value if type(value) in _PLAIN else _unmark(value) for value in row)


def parse_line(line: bytes) -> Any:
    """Parse a line of JSON. What only looks like JSON, such as a bare `NaN`, raises ValueError."""
    text = line.decode()
    value, end = _decoder.raw_decode(text)
    if text[end:] != "\n":
        raise ValueError("more than one value, or no end of line")
    return value


def from_bytes(text: bytes) -> str | ForeignText:
    """Return the text that these bytes are."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return ForeignText(text)


def _real(value: float) -> str:
    text = repr(value)
    return json.dumps({"real": text}) if text in _INFINITE else text


def _mark(kind: str) -> Callable[[bytes], str]:
    return lambda value: f'{{"{kind}":"{base64.b64encode(value).decode()}"}}'


def _unmark(value: object) -> Value:
    if isinstance(value, dict) and len(cast("dict[str, Any]", value)) == 1:
        ((kind, content),) = cast("dict[str, Any]", value).items()
        if kind == "blob":
            return base64.b64decode(content, validate=True)
        if kind == "text":
            return from_bytes(base64.b64decode(content, validate=True))
        if kind == "real" and content in _INFINITE:
            return _INFINITE[content]
    raise ValueError(f"{json.dumps(value)[:60]} is not a value that a column can have")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_ENCODERS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    int: repr,
    float: _real,
    str: encode_basestring,
    bytes: _mark("blob"),
    ForeignText: _mark("text"),
}
_PLAIN = {type(None), int, float, str}
_decoder = json.JSONDecoder(parse_constant=_refuse)


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """The first line. A ledger that `schema` does not name is not in the file."""

    nexus_version: str
    created_at: str
    schema: dict[str, int]

    def line(self) -> bytes:
        return dump_line({**self._hashed_fields(), "created_at": self.created_at})

    def seal(self) -> bytes:
        """Return what the file's hash begins with."""
        return dump_line(self._hashed_fields())

    @classmethod
    def parse(cls, record: Any) -> Self:
        """Raises KeyError, TypeError, ValueError or AttributeError for what is no header at all."""
        if record["nexus_export"] != FORMAT_VERSION:
            raise CareError(
                "The file was written by a newer Nexus",
                hint="Install that version or a later one.",
            )
        header = cls(
            nexus_version=str(record["nexus_version"]),
            created_at=str(record["created_at"]),
            schema={str(name): int(version) for name, version in record["schema"].items()},
        )
        header._check_schema()
        return header

    def _hashed_fields(self) -> dict[str, Any]:
        return {"nexus_export": FORMAT_VERSION, "nexus_version": self.nexus_version, "schema": self.schema}

    def _check_schema(self) -> None:
        for name, version in self.schema.items():
            if name not in LEDGERS:
                raise CareError(f"The file's first line names a ledger that does not exist: {name} {version}")
            if version < _OLDEST[name]:
                raise CareError(
                    f"The file's {name} ledger has schema {version}, from before November 15, 2026",
                    hint="Open the home with a later checkout from before 0.1.0 and export it there.",
                )
            if version > migrate.latest(name):
                raise CareError(
                    f"The file's {name} ledger has schema {version}, and this program knows up to "
                    f"{migrate.latest(name)}",
                    hint="It was written by a newer Nexus. Install that version or a later one.",
                )


@dataclass(slots=True)
class Tally:
    """What has gone through so far. Writer and reader each keep one; at the end they must be equal."""

    header: Header
    lines: int = 0
    files: int = 0
    rows: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    _digest: Any = None

    def __post_init__(self) -> None:
        self._digest = hashlib.sha256(self.header.seal())

    def add(self, lines: list[bytes]) -> bytes:
        """Count and hash lines; returns their bytes."""
        block = b"".join(lines)
        self.lines += len(lines)
        self._digest.update(block)
        return block

    @property
    def total_rows(self) -> int:
        return sum(sum(tables.values()) for tables in self.rows.values())

    def end(self) -> dict[str, Any]:
        """Return the content of the last line."""
        rows = {ledger: dict(tables) for ledger, tables in self.rows.items()}
        return {"lines": self.lines, "rows": rows, "files": self.files, "sha256": self._digest.hexdigest()}

    def last_line(self) -> bytes:
        return dump_line({"end": self.end()})


def blocks(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield lines in groups: large enough to be quick, small enough to hold."""
    block: list[bytes] = []
    size_bytes = 0
    for line in lines:
        block.append(line)
        size_bytes += len(line)
        if size_bytes >= _BLOCK_BYTES:
            yield block
            block, size_bytes = [], 0
    yield block


def bad_line(number: int, reason: str) -> CareError:
    """Return the error for a line that cannot be taken."""
    return CareError(
        f"Line {number} can't be imported: {reason}",
        hint="Nothing changed. The file is damaged, edited, or not from `nexus export`.",
    )


def dump_line(record: dict[str, Any]) -> bytes:
    """Write a record as a line of JSON: in ASCII, because a file's name need not be UTF-8."""
    return (json.dumps(record, separators=(",", ":")) + "\n").encode()


@contextmanager
def open_output(name: str) -> Generator[BinaryIO]:
    """Open a new private file that gets its name when it is complete, or standard output for `-`."""
    if name == PIPE:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(name).expanduser()
    if path.exists():
        raise CareError(f"{path} exists already", hint="Use another name, or delete the file first.")
    building = path.with_name(f".{path.name}.unfinished-{ids.new('exp')}")
    try:
        with files.new(building) as raw:
            if path.suffix == ".gz":
                # Without a time, so that the same home gives the same bytes.
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
                    yield cast("BinaryIO", packed)
            else:
                yield raw
            files.sync(raw)
        building.rename(path)
        files.sync_file(path.parent)
    except BaseException as error:
        building.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CareError(
                f"{path} could not be written: {files.reason(error)}",
                hint="Nothing of it was kept. Choose a place that can be written and has enough space.",
            ) from error
        raise


@contextmanager
def open_input(name: str) -> Generator[BinaryIO]:
    """Open the file of that name, or standard input for `-`; unpacks what is compressed."""
    if name == PIPE:
        yield _unpack(sys.stdin.buffer)
        return
    path = Path(name).expanduser()
    try:
        stream = path.open("rb", buffering=_BUFFER_BYTES)
    except OSError as error:
        hint = "For a backup folder, use `nexus restore`." if path.is_dir() else "Check its name."
        raise CareError(f"Can't read {path}: {error.strerror}", hint=hint) from error
    with stream:
        yield _unpack(stream)


def is_export(name: str) -> bool:
    """Whether a file is, or once was, one that `nexus export` wrote, by how it begins."""
    if name == PIPE:
        return True
    if not Path(name).expanduser().is_file():
        return False
    with open_input(name) as stream:
        try:
            return stream.read(len(_HEADER)) == _HEADER
        except (OSError, EOFError, zlib.error):
            return False


def _unpack(stream: Any) -> BinaryIO:
    if stream.peek(2)[:2] != _GZIP_MAGIC:
        return stream
    unpacking = cast("io.RawIOBase", gzip.GzipFile(fileobj=stream))
    return io.BufferedReader(unpacking, _BUFFER_BYTES)
