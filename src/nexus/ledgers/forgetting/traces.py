"""Searching bytes for the words of what was forgotten: as they are, as UTF-16 and inside of base64.

Words are known only while something is being forgotten. They stay in memory: no receipt holds one.
"""

import base64
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import apsw
import numpy as np

from nexus.ledgers.forgetting.rules import Table
from nexus.ledgers.forgetting.sets import Sets, gone_condition, key_condition
from nexus.ledgers.forgetting.tables import TOUCHED
from nexus.ledgers.forgetting.targets import fold, unescape

# Shorter words turn up in any bytes.
_LEAST_BYTES: Final = 6
_TELLING: Final = frozenset({"content", "fact", "summary", "extracted_fact", "written"})
# "Thank you!" is said by many.
_LEAST_TELLING: Final = 16
# Of a whole text, its beginning is looked for.
_BEGINNING: Final = 100
_MOST_WORDS: Final = 5_000
_WORD: Final = re.compile(r"[^\W_]{2,}")
_CHUNK_BYTES: Final = 1024 * 1024
# Longer than any pattern: the beginning of a text of four-byte characters, as UTF-16 in base64.
_OVERLAP_BYTES: Final = 1024
_SLOT_BITS: Final = 19
# Columns that hold a place or the program's own word rather than anybody's words.
_PLAIN: Final = frozenset(
    {("attachments", "path"), ("steps", "name"), ("spans", "name"), ("approvals", "tool")}
)


@dataclass(kw_only=True, slots=True)
class Words:
    """The words and the texts of what is being forgotten."""

    words: set[str] = field(default_factory=set[str])
    texts: set[str] = field(default_factory=set[str])
    # Those of the texts that say something: another row with the same sender says nothing about this one.
    telling: set[str] = field(default_factory=set[str])
    # More were found than are searched for.
    is_sample: bool = False

    def add(self, text: str, *, is_whole: bool, is_telling: bool = False) -> None:
        """Take a text in; a whole one is looked for as it is, too."""
        if is_telling and len(text) >= _LEAST_TELLING:
            self.telling.add(text[:_BEGINNING].strip())
        if is_whole and len(text.encode("utf-8", "replace")) >= _LEAST_BYTES:
            self.texts.add(text[:_BEGINNING].strip())
        for form in dict.fromkeys((text, unescape(text) if "\\" in text else text)):
            found = (
                word for word in _WORD.findall(form) if len(word.encode("utf-8", "replace")) >= _LEAST_BYTES
            )
            self.words.update(found)

    def gather(self, sets: Sets) -> None:
        """Take in every text of the rows that a plan lets go, and of the columns that it empties."""
        for table in TOUCHED.values():
            columns = _columns(table)
            if not columns:
                continue
            goes = gone_condition(table, "gone_{}".format)
            query = f"SELECT {', '.join(columns)} FROM {table.path} WHERE {goes}"  # noqa: S608 - names are constants of the program, values are bound
            for row in sets.connection.execute(query):
                self._add_row(columns, row)
            for column in columns:
                keys = f"(SELECT key FROM emptied WHERE kind = '{table.name}.{column}')"  # noqa: S608 - names are constants of the program, values are bound
                query = f"SELECT {column} FROM {table.path} WHERE {key_condition(table, keys)}"  # noqa: S608 - names are constants of the program, values are bound
                for row in sets.connection.execute(query):
                    self._add_row([column], row)

    def _add_row(self, columns: list[str], row: tuple[Any, ...]) -> None:
        for column, value in zip(columns, row, strict=True):
            if isinstance(value, str) and value:
                self.add(value, is_whole=not column.endswith("_json"), is_telling=column in _TELLING)

    def patterns(self) -> "Patterns":
        """Return all forms to look for; of too many words, the longest."""
        words = self.words
        if len(words) > _MOST_WORDS:
            self.is_sample = True
            words = set(sorted(words, key=lambda word: (-len(word), word))[:_MOST_WORDS])
        texts = self.texts
        if len(texts) > _MOST_WORDS:
            self.is_sample = True
            texts = set(sorted(texts, key=lambda text: (-len(text), text))[:_MOST_WORDS])
        return Patterns(words, texts, self.telling & texts)


def _columns(table: Table) -> list[str]:
    names = dict.fromkeys([*table.indexed, *(text.column for text in table.texts)])
    return [name for name in names if (table.name, name) not in _PLAIN]


class Patterns:
    """Byte strings to look for, all at once."""

    def __init__(self, words: Iterable[str], texts: Iterable[str], telling: Collection[str]) -> None:
        # The forms of texts that say something wherever they are.
        self.whole: set[bytes] = set()
        plain: set[bytes] = set()
        exact: set[bytes] = set()
        for text in (*words, *texts):
            forms = _forms(text)
            plain |= forms
            if text in telling:
                self.whole |= forms
            exact |= _base64_forms(text)
        self._plain = _Scanner(plain)
        self._exact = _Scanner(exact)

    def __len__(self) -> int:
        return len(self._plain) + len(self._exact)

    def find(self, data: bytes, among: Collection[bytes] | None = None) -> set[bytes]:
        """Return the patterns that some bytes hold. The case of ASCII letters is no matter, but in base64."""
        found = self._plain.find(data.lower()) | self._exact.find(data)
        return found if among is None else found & set(among)

    def find_in_file(self, path: Path) -> set[bytes]:
        """Return the patterns that a file holds; one that is gone holds none."""
        found: set[bytes] = set()
        try:
            for chunk in chunks(path):
                found |= self.find(chunk)
        except FileNotFoundError:
            pass
        return found


def chunks(path: Path) -> Iterator[bytes]:
    """Yield a file's bytes in pieces that overlap."""
    before = b""
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            yield before + chunk
            before = chunk[-_OVERLAP_BYTES:]


def find_in_rows(connection: apsw.Connection, ledger: str, patterns: Patterns) -> set[bytes]:
    """Return the patterns that stand in the rows of an attached ledger, or in its schema.

    An index holds words without their case and accents, so these count as well.
    """
    tables = connection.execute(
        f"SELECT name FROM {ledger}.sqlite_schema WHERE type = 'table' "  # noqa: S608 - names are constants of the program
        "AND name NOT IN (SELECT name FROM pragma_table_list WHERE type IN ('shadow', 'virtual'))"
    ).fetchall()
    names = [str(name) for (name,) in tables]
    found: set[bytes] = set()
    parts: list[bytes] = []
    size = 0
    for name in ["sqlite_schema", *names]:
        for row in connection.execute(f'SELECT * FROM {ledger}."{name}"'):  # noqa: S608 - the ledger's own names
            for value in cast("tuple[Any, ...]", row):
                for part in _bytes_of(value):
                    parts.append(part)
                    size += len(part)
            if size > _CHUNK_BYTES:
                found |= patterns.find(b"\n".join(parts))
                parts, size = [], 0
    return found | patterns.find(b"\n".join(parts))


def find_in_indexes(connection: apsw.Connection, ledger: str, patterns: Patterns) -> set[bytes]:
    """Return the patterns that stand in the blocks of an attached ledger's full-text indexes."""
    found: set[bytes] = set()
    query = f"SELECT name FROM {ledger}.sqlite_schema WHERE type = 'table' AND name GLOB '*_fts_data'"  # noqa: S608 - names are constants of the program
    for (name,) in connection.execute(query).fetchall():
        for (block,) in connection.execute(f'SELECT block FROM {ledger}."{name}"'):  # noqa: S608 - the ledger's own names
            found |= patterns.find(cast("bytes", block))
    return found


def _bytes_of(value: Any) -> Iterator[bytes]:
    if isinstance(value, str):
        yield value.encode("utf-8", "replace")
        if not value.isascii():
            yield fold(value).encode("utf-8", "replace")
    elif isinstance(value, bytes):
        yield value


def _forms(text: str) -> set[bytes]:
    """Return a text as UTF-8 and UTF-16, with ASCII letters in lower case."""
    folded = {text, fold(text)}
    forms = {form.encode(code, "replace") for form in folded for code in ("utf-8", "utf-16-le", "utf-16-be")}
    return {form.lower() for form in forms if len(form) >= _LEAST_BYTES}


def _base64_forms(text: str) -> set[bytes]:
    """Return what base64 makes of a text wherever it begins: the characters that only the text decides."""
    found: set[bytes] = set()
    for raw in (text.encode("utf-8", "replace"), text.encode("utf-16-le", "replace")):
        if len(raw) < _LEAST_BYTES:
            continue
        for before in range(3):
            encoded = base64.b64encode(b"\0" * before + raw)
            first = (0, 2, 3)[before]
            last = len(encoded) - (0, 3, 2)[(before + len(raw)) % 3]
            found |= {encoded[first:last], encoded[first:last].replace(b"+", b"-").replace(b"/", b"_")}
    return found


class _Scanner:
    """Finds any of many byte strings: by a table of their first bytes, then each candidate in full."""

    _FACTOR: Final = np.uint32(0x9E3779B1)
    _SHIFT: Final = np.uint32(32 - _SLOT_BITS)

    def __init__(self, patterns: Iterable[bytes]) -> None:
        # By their start and length, because many begin alike: "Message from …".
        self._by_start: dict[bytes, dict[int, set[bytes]]] = {}
        for pattern in patterns:
            by_length = self._by_start.setdefault(pattern[:_LEAST_BYTES], {})
            by_length.setdefault(len(pattern), set()).add(pattern)
        # Marks the first four bytes of any pattern, and the last four of any start.
        self._firsts, self._lasts = (np.zeros(1 << _SLOT_BITS, dtype=np.bool_) for _ in range(2))
        for marks, cut in ((self._firsts, slice(0, 4)), (self._lasts, slice(2, 6))):
            numbers = np.frombuffer(b"".join(start[cut] for start in self._by_start), dtype="<u4")
            marks[self._slots(numbers)] = True

    def __len__(self) -> int:
        return sum(len(alike) for by_length in self._by_start.values() for alike in by_length.values())

    def find(self, data: bytes) -> set[bytes]:
        found: set[bytes] = set()
        if not self._by_start or len(data) < _LEAST_BYTES:
            return found
        for offset in range(4):
            # What begins at every fourth byte, as one number each; with the two bytes behind it.
            count = (len(data) - offset - 2) // 4
            firsts = np.frombuffer(data, dtype="<u4", count=count, offset=offset)
            near = np.flatnonzero(self._firsts[self._slots(firsts)])
            lasts = np.frombuffer(data, dtype="<u4", count=count, offset=offset + 2)[near]
            for place in near[self._lasts[self._slots(lasts)]].tolist():
                position = offset + 4 * place
                by_length = self._by_start.get(data[position : position + _LEAST_BYTES], {})
                for length, alike in by_length.items():
                    if (piece := data[position : position + length]) in alike:
                        found.add(piece)
        return found

    def _slots(self, numbers: Any) -> Any:
        return (numbers * self._FACTOR) >> self._SHIFT
