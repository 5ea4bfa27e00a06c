"""The file that carries a whole home: JSON, one object to a line.

    {"nexus_export": 1, "nexus_version": …, "created_at": …, "schema": {"events": 1, …}}
    {"ledger": "events", "table": "events", "row": {"seq": 1, "id": "evt_…", …}}
    {"directory": "state/hooks", "mode": "0700"}
    {"file": "config.toml", "mode": "0600", "text": "…"}
    {"file": "state/model.bin", "mode": "0600", "base64": "…"}, then {"more": "…"} for what follows
    {"end": {"lines": 4, "rows": {…}, "files": 2, "sha256": "…"}}

The last line counts and hashes what came before, so a file that is cut short or was changed is noticed.
The first line's time is not hashed: two exports of the same home differ in that alone.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Self

from nexus.errors import CareError
from nexus.home import LEDGERS
from nexus.ledgers import migrate

FORMAT_VERSION: Final = 1
# How much of a file one line carries.
FILE_CHUNK_BYTES: Final = 1024 * 1024
_BLOCK_BYTES = 256 * 1024

# Called now and then with the number of lines so far.
Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """The first line. A ledger that `schema` does not name is not in the file."""

    nexus_version: str
    created_at: str
    schema: dict[str, int]

    def line(self) -> bytes:
        return _line({**self._hashed(), "created_at": self.created_at})

    def seal(self) -> bytes:
        """What the file's hash begins with."""
        return _line(self._hashed())

    @classmethod
    def parsed(cls, record: Any) -> Self:
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

    def _hashed(self) -> dict[str, Any]:
        return {"nexus_export": FORMAT_VERSION, "nexus_version": self.nexus_version, "schema": self.schema}

    def _check_schema(self) -> None:
        for name, version in self.schema.items():
            if name not in LEDGERS or version < 1:
                raise CareError(f"The file's first line names a ledger that does not exist: {name} {version}")
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
        """The content of the last line."""
        rows = {ledger: dict(tables) for ledger, tables in self.rows.items()}
        return {"lines": self.lines, "rows": rows, "files": self.files, "sha256": self._digest.hexdigest()}

    def last_line(self) -> bytes:
        return _line({"end": self.end()})


def blocks(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Lines in groups: large enough to be quick, small enough to hold."""
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
    """The error for a line that cannot be taken."""
    return CareError(
        f"Line {number} can't be imported: {reason}",
        hint="Nothing changed. The file is damaged, edited, or not from `nexus export`.",
    )


def _line(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, separators=(",", ":")) + "\n").encode()
