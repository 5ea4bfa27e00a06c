"""The versions of the owner's profile in the ledger: lines, what each rests on, and who wrote them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

import apsw

from nexus import ids
from nexus.errors import UsageError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.sql import load_statements
from nexus.ledgers.text import storable
from nexus.memory.recall.words import token_count

SQL: Final = load_statements(Path(__file__).with_name("queries.sql"))
MAX_TOKENS: Final = 300
"""The most that a profile takes of every prompt."""

Origin = Literal["facts", "consolidation", "owner"]
"""Who wrote a version: a rule over the facts, a model that consolidated them, or the owner."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One statement, with the facts that it rests on; none for the owner's own words."""

    text: str
    fact_ids: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Citation:
    """A fact that supports a line of a profile."""

    line: int
    fact_id: str
    fact: str
    event_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """One version of the profile."""

    id: str
    version: int
    content: str
    origin: Origin
    written: str | None
    written_at: str | None
    source_request_id: str | None
    created_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NewVersion:
    """A version before it is recorded: the owner's words, if there are any, then lines that cite facts."""

    lines: tuple[Line, ...]
    origin: Origin
    written: str | None = None
    written_at: str | None = None
    request_id: str | None = None

    @property
    def content(self) -> str:
        return "\n".join(filter(None, [self.written or "", *(line.text for line in self.lines)]))


async def newest(ledgers: Ledgers) -> Version | None:
    """The version that counts."""
    return await ledgers.memory.read(current)


def current(connection: apsw.Connection) -> Version | None:
    """The version that counts."""
    row = sql.row(connection, SQL["newest"])
    return None if row is None else _version(row)


def with_known_through(connection: apsw.Connection) -> tuple[Version | None, str]:
    """The version that counts, and a mark of all that a profile could be made of."""
    return current(connection), str(sql.value(connection, SQL["known_through"]))


async def rests_on_replaced(ledgers: Ledgers, profile_id: str) -> bool:
    """Whether a version has a line of which a fact was replaced."""
    return bool(await ledgers.memory.read(sql.value, SQL["rests_on_replaced"], (profile_id,)))


async def exists(ledgers: Ledgers, profile_id: str) -> bool:
    """Whether a version of this id was recorded."""
    return await ledgers.memory.read(sql.value, SQL["has"], (profile_id,)) is not None


async def listed(ledgers: Ledgers, limit: int = 20) -> list[Version]:
    """The versions, the newest first."""
    found = await ledgers.memory.read(sql.rows, SQL["versions"], (limit,))
    return [_version(row) for row in found]


async def citations(ledgers: Ledgers, profile_id: str) -> list[Citation]:
    """What the lines of a version rest on."""
    found = await ledgers.memory.read(sql.rows, SQL["citations"], (profile_id,))
    rows = cast("list[tuple[int, str, str, str | None]]", found)
    return [Citation(line=row[0], fact_id=row[1], fact=row[2], event_id=row[3]) for row in rows]


async def append(ledgers: Ledgers, new: NewVersion, *, now: str, id_: str | None = None) -> Version:
    """Record a version, unless the newest one says the same; the same id again changes nothing."""
    if token_count(new.content) > MAX_TOKENS:
        raise UsageError(
            f"The profile is longer than {MAX_TOKENS} tokens",
            hint="It is part of every prompt. Shorten it; recall finds everything else.",
        )

    def work(connection: apsw.Connection) -> Version:
        before = connection.execute(SQL["newest"]).fetchone()
        if before is not None and _says(_version(before), new):
            return _version(before)
        made = id_ or ids.new("pro")
        if connection.execute(SQL["has"], (made,)).fetchone() is None:
            _add(connection, made, new, now)
        return _version(connection.execute(SQL["newest"]).fetchone())

    return await ledgers.memory.write(work)


def fitting(lines: Sequence[Line], written: str = "") -> tuple[Line, ...]:
    """The first lines that fit into a profile beside the owner's own words."""
    left = MAX_TOKENS - token_count(written)
    kept: list[Line] = []
    for line in lines:
        size = token_count(line.text) + 1
        if size <= left:
            kept.append(line)
            left -= size
    return tuple(kept)


def _says(version: Version, new: NewVersion) -> bool:
    return (version.content, version.written) == (
        storable(new.content),
        new.written and storable(new.written),
    )


def _add(connection: apsw.Connection, id_: str, new: NewVersion, now: str) -> None:
    connection.execute(
        SQL["add"],
        {
            "id": id_,
            "content": storable(new.content),
            "origin": new.origin,
            "written": new.written and storable(new.written),
            "written_at": new.written_at,
            "request": new.request_id,
            "now": now,
        },
    )
    first = 1 + len((new.written or "").splitlines())
    for number, line in enumerate(new.lines, start=first):
        for fact_id in line.fact_ids:
            connection.execute(SQL["cite"], {"profile": id_, "fact": fact_id, "line": number})


def _version(row: Any) -> Version:
    return Version(**dict(zip(Version.__slots__, row, strict=True)))
