"""What every format has in common: it recognizes its files, and yields what they hold as a stream."""

import io
import json
import mimetypes
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Any, ClassVar, Final, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from nexus.errors import UsageError
from nexus.history.files import Files
from nexus.history.items import Item, SetAside
from nexus.history.mail_addresses import normalize_address

_OLDEST: Final = datetime(1980, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How an export is to be read."""

    owner: tuple[str, ...] = ()
    """Names, addresses or ids under which the owner appears in it."""
    timezone: tzinfo = UTC
    """Of times that don't say theirs."""
    trusts_from: bool = False
    """Whether the From of a mail is enough for it to be the owner's."""
    mapping: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Which field of a generic JSONL file is what."""

    def is_owner(self, *names: str | None) -> bool:
        """Whether any of these is the owner, in whatever case; addresses as mail servers tell them apart."""
        mine = set(map(_comparable, self.owner))
        return any(name is not None and _comparable(name) in mine for name in names)


def _comparable(name: str) -> str:
    return normalize_address(name) or name.casefold().strip()


class Source:
    """One export. Subclasses say what they read, recognize it, and stream it in bounded memory."""

    name: ClassVar[str]
    """What `--format` calls it."""
    title: ClassVar[str]
    channel: ClassVar[str]
    """The channel that its messages are recorded under."""

    def __init__(self, files: Files, options: Options) -> None:
        self.files = files
        self.options = options

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        """Whether these files are an export of this kind, by names and first bytes."""
        raise NotImplementedError

    @cached_property
    def members(self) -> frozenset[str]:
        """The names of all files, to look up those that messages refer to."""
        return frozenset(self.files.names())

    def read(self, cursor: str | None) -> Iterator[Item]:
        """Return everything after a cursor, or from the start. Never raises for damaged content."""
        raise NotImplementedError


def parse_moment(value: object, zone: tzinfo = UTC) -> datetime | None:
    """Parse a time as exports write it: seconds or milliseconds since 1970, or ISO text; else None."""
    try:
        if isinstance(value, bool) or value is None:
            return None
        if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
            found = datetime.fromisoformat(value.strip())
            found = found.replace(tzinfo=zone) if found.tzinfo is None else found
        else:
            number = float(cast("Any", value))
            found = datetime.fromtimestamp(number / 1000 if number > 1e11 else number, UTC)
        found = found.astimezone(UTC)
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return found if found >= _OLDEST else None


def as_object(value: object) -> dict[str, Any]:
    """Return a JSON object, or an empty one where it is something else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a JSON array, or an empty one where it is something else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    """Return a text that isn't empty, or a number as text."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def guess_type(name: str | None) -> str:
    """Return the media type that a file's name suggests."""
    return (name and mimetypes.guess_type(name)[0]) or "application/octet-stream"


def set_failures_aside(items: Iterator[Item], place: str) -> Iterator[Item]:
    """Yield the items of one entry. It is set aside if its fields are of kinds that nobody foresaw."""
    try:
        yield from items
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        yield SetAside(reason=f"the entry cannot be read: {type(error).__name__}", place=place)


def read_beginning(files: Files, name: str, size_bytes: int = 4096) -> bytes:
    """Return the first bytes of a file."""
    try:
        with files.open(name) as stream:
            return stream.read(size_bytes)
    except (OSError, ValueError, EOFError):
        return b""


def make_cursor(name: str, position: int) -> str:
    """Return a cursor for sources of several files: which one, and where in it."""
    return json.dumps([name, position])


def parse_cursor(cursor: str | None) -> tuple[str, int]:
    """Read what `make_cursor` made; the start of everything for None."""
    if cursor is None:
        return "", 0
    name, position = json.loads(cursor)
    return str(name), int(position)


def remaining_files(names: Iterable[str], cursor: str | None) -> Iterator[tuple[str, int]]:
    """Yield the files from a cursor on, each with the position in it to begin at."""
    after, position = parse_cursor(cursor)
    return ((name, position if name == after else 0) for name in names if name >= after)


def find_zone(name: str) -> tzinfo:
    """Return a time zone by its name; this machine's for an empty one."""
    if not name:
        return datetime.now().astimezone().tzinfo or UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"Unknown time zone {name!r}", hint="Write it as Europe/Berlin.") from None


LONGEST_LINE_BYTES: Final = 16 * 1024 * 1024


def read_lines(stream: io.BufferedReader, start: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line with the offset after it, from an offset on. A line that is too long is None."""
    if start:
        stream.seek(start)
    offset = start
    while line := stream.readline(LONGEST_LINE_BYTES):
        offset += len(line)
        if len(line) < LONGEST_LINE_BYTES or line.endswith(b"\n"):
            yield offset, line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(LONGEST_LINE_BYTES)
            offset += len(line)
        yield offset, None
