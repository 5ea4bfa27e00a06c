"""Seals: a running hash over the facts, by which a fact that was changed or removed is found.

Each digest covers a fact and the digest before it. It holds no key: it finds mistakes, stray SQL and
damage, and whoever may write the file can compute it again. Note the last one elsewhere to tell.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, cast

import apsw

from nexus import ids
from nexus.ledgers import guards, sql

_BATCH: Final = 5_000
_FIRST: Final = bytes(32)
_BEFORE_ALL: Final = -(2**63)
_NULL: Final = b"\xff\xff\xff\xff"

Column = bytes | float | int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Break:
    """A fact that does not match its seal."""

    seq: int
    what: Literal["changed", "removed", "inserted"]


def seal(connection: apsw.Connection, *, at_most: int = _BATCH) -> int:
    """Seal facts that have no seal yet, in order, inside the caller's transaction; returns how many."""
    queries = sql.queries("memory")
    last = connection.execute(queries["last_seal"]).fetchone()
    after, digest = cast("tuple[int, bytes]", last or (_BEFORE_ALL, _FIRST))
    rows = connection.execute(queries["unsealed_facts"], {"after": after, "limit": at_most}).fetchall()
    made: list[tuple[int, bytes]] = []
    for row in cast("list[Sequence[Column]]", rows):
        digest = _digest(digest, row)
        made.append((cast("int", row[0]), digest))
    connection.executemany(queries["seal_fact"], made)
    return len(made)


def breaks(connection: apsw.Connection) -> Iterator[Break]:
    """Yield every fact that does not match its seal. Facts without one yet are no matter."""
    queries = sql.queries("memory")
    digest, after = _FIRST, _BEFORE_ALL
    while rows := connection.execute(queries["sealed_facts"], {"after": after, "limit": _BATCH}).fetchall():
        for row in cast("list[Sequence[Column]]", rows):
            after, sealed = cast("tuple[int, bytes]", row[:2])
            if row[2] is None:
                yield Break(seq=after, what="removed")
            elif _digest(digest, row[2:]) != sealed:
                yield Break(seq=after, what="changed")
            # From here on as it was sealed, so that only the facts themselves are named.
            digest = sealed
    for (seq,) in connection.execute(queries["facts_without_seal"]):
        yield Break(seq=cast("int", seq), what="inserted")


def count_unsealed(connection: apsw.Connection) -> int:
    """Count how many facts have no seal yet."""
    return cast("int", connection.execute(sql.queries("memory")["unsealed_count"]).get)


def head(connection: apsw.Connection) -> str:
    """Return the last digest, which stands for every fact that is sealed. Empty where none is."""
    last = connection.execute(sql.queries("memory")["last_seal"]).fetchone()
    return cast("bytes", last[1]).hex() if last else ""


def count_broken_before(connection: apsw.Connection) -> int:
    """Count facts that were broken when a forget made the seals again, and not accepted since."""
    return cast("int", connection.execute(sql.queries("memory")["broken_before_reseal"]).get)


def lift(connection: apsw.Connection, first_seq: int) -> None:
    """Drop the seals from a fact on, inside the caller's transaction; `seal` makes them again."""
    with guards.suspend(connection, guards.refusals_of("fact_seals")):
        connection.execute(sql.queries("memory")["break_seals"], (first_seq,))


def note_forget(connection: apsw.Connection, forget_id: str, broken: int) -> None:
    """Record, once for each forget, that it makes seals again, and how many were broken before."""
    connection.execute(sql.queries("memory")["record_reseal"], (forget_id, "forget", broken))


def accept(connection: apsw.Connection) -> int:
    """Take all facts as they are; returns how many did not match their seals."""
    found = list(breaks(connection))
    if found:
        lift(connection, min(each.seq for each in found))
    if found or count_broken_before(connection):
        record = (ids.new("res"), "accepted", len(found))
        connection.execute(sql.queries("memory")["record_reseal"], record)
    return len(found)


def _digest(before: bytes, row: Sequence[Column]) -> bytes:
    return sha256(before + b"".join(map(_encode, row))).digest()


def _encode(value: Column) -> bytes:
    """Encode a value with its length, so that no two rows are encoded alike."""
    if value is None:
        return _NULL
    if isinstance(value, float):
        value = struct.pack(">d", value)
    elif isinstance(value, int):
        value = value.to_bytes(8, "big", signed=True)
    return len(value).to_bytes(4, "big") + value
