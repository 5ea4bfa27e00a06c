"""The memory ledger: what was learned, appended and never overwritten."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, cast

import apsw

from nexus import clock, ids
from nexus.errors import MissingError, UsageError
from nexus.ledgers import sql
from nexus.ledgers.memory import seals
from nexus.ledgers.text import storable
from nexus.text import join_lines

# Facts that were written with plain SQL, or before there were seals, are sealed along with new ones.
_OLDER_TO_SEAL: Final = 100
_SHORT_ID: Final = 6
_FACT_ID = re.compile(r"\bfact_[0-9A-Za-z]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class NewFact:
    """A statement that was learned, before it is recorded. Without `valid_at` it holds from then on."""

    fact: str
    id: str | None = None
    source_entity_id: str | None = None
    relation_type: str | None = None
    target_entity_id: str | None = None
    confidence: float = 1.0
    source_type: str = "mentioned"
    as_of: datetime | None = None
    valid_at: datetime | None = None
    source_event_id: str | None = None
    source_episode_id: str | None = None
    source_request_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


How = Literal["corrected", "changed", "cancelled"]
"""How a fact came to be replaced: it was never true, it was true until then, or it was called off."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Successor:
    """The fact that replaced another one, since when it holds, and how that is known."""

    id: str
    fact: str
    at: str
    confidence: float
    basis: str  # stated or judged
    how: How = "changed"
    signals: tuple[str, ...] = ()  # what decided, the strongest first

    @property
    def note(self) -> str:
        return replacement_note(self.how, self.at, self.fact)


def replacement_note(how: How, at: str, text: str, *, is_next: bool = True) -> str:
    """Say of a replaced fact what holds instead, in the words that every surface uses.

    `is_next` says whether that replaced it directly: only then did it correct or cancel it.
    """
    when = f"until {at[:10]}" if how == "changed" else f"{how} on {at[:10]}"
    now = ": " if is_next and how != "changed" else "; now: "
    return f"{when}{now}{join_lines(text)}"


def successors(connection: apsw.Connection, fact_ids: Iterable[str]) -> dict[str, Successor]:
    """Return what replaced which of the given facts."""
    rows = connection.execute(sql.queries("memory")["successors"], (json.dumps(list(fact_ids)),))
    found = cast("Iterable[tuple[str, str, str, str, float, str, How, str]]", rows)
    return {
        old: Successor(
            id=id_,
            fact=fact,
            at=at,
            confidence=confidence,
            basis=basis,
            how=how,
            signals=tuple(json.loads(signals)),
        )
        for old, id_, fact, at, confidence, basis, how, signals in found
    }


def shorten_id(fact_id: str) -> str:
    """Return the end of a fact's id, by which people name it."""
    return fact_id[-_SHORT_ID:]


def find_fact(connection: apsw.Connection, reference: str) -> str:
    """Return the id of the fact that an id means, whole or shortened to its last characters."""
    wanted = reference.strip()
    if connection.execute(sql.queries("memory")["has_fact"], (wanted,)).get:
        return wanted
    found: list[tuple[str]] = []
    if len(wanted) >= _SHORT_ID:
        found = sql.rows(connection, sql.queries("memory")["facts_ending_in"], {"ending": wanted})
    if len(found) > 1:
        raise UsageError(
            f"{reference!r} is the end of several facts' ids",
            hint="Pass one of these: " + ", ".join(id_ for (id_,) in found),
        )
    if not found:
        raise MissingError(f"Unknown fact {reference!r}", hint="List them with `nexus memory facts`.")
    return found[0][0]


def newest_about(connection: apsw.Connection, *, entity_ids: Iterable[str], limit: int) -> list[str]:
    """Return the ids of the newest facts about some entities that nothing has replaced."""
    given = {"entities": json.dumps(list(entity_ids)), "limit": limit}
    return [str(row[0]) for row in connection.execute(sql.queries("memory")["newest_about"], given)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """Who wrote a fact by hand, where and when."""

    by: str
    channel: str
    at: str


def find_written_by_hand(connection: apsw.Connection, fact_ids: Iterable[str]) -> dict[str, Written]:
    """Return the source of those facts that somebody wrote by hand."""
    found = sql.rows(connection, sql.queries("memory")["written_by_hand"], (json.dumps(list(fact_ids)),))
    return {id_: Written(by=by, channel=channel, at=at) for id_, by, channel, at in found}


def append_facts(
    connection: apsw.Connection, facts: Iterable[NewFact], now: clock.Clock = clock.now
) -> list[str]:
    """Record statements in order; returns their ids. Nothing is refused as a duplicate."""
    recorded_at = clock.timestamp(now())
    rows = [_row(fact.id or ids.new("fact"), fact, recorded_at) for fact in facts]
    connection.executemany(sql.queries("memory")["append_fact"], rows)
    seals.seal(connection, at_most=len(rows) + _OLDER_TO_SEAL)
    return [str(row[0]) for row in rows]


def is_learned(connection: apsw.Connection, *, event_id: str, fact: str) -> bool:
    """Whether a statement was recorded from an event already, in the same words."""
    return connection.execute(sql.queries("memory")["is_learned"], (event_id, storable(fact))).get is not None


def find_told(connection: apsw.Connection, *, line: str) -> str | None:
    """Return the fact that a line of memories tells: the one whose id it names, or whose words it holds."""
    for id_ in _FACT_ID.findall(line):
        if connection.execute(sql.queries("memory")["has_fact"], (id_,)).get:
            return cast("str", id_)
    return cast(
        "str | None", connection.execute(sql.queries("memory")["told_in"], {"line": storable(line)}).get
    )


def count_learned(connection: apsw.Connection, *, request_id: str, event_ids: Iterable[str]) -> int:
    """Count how many statements a request recorded from some events."""
    given = {"request": request_id, "events": json.dumps(list(event_ids))}
    return cast("int", connection.execute(sql.queries("memory")["learned_by"], given).get)


def is_known(connection: apsw.Connection, *, request_id: str, since: str, fact: str) -> bool:
    """Whether a request has recorded a statement in these words since it began."""
    given = {"request": request_id, "since": since, "fact": storable(fact)}
    return connection.execute(sql.queries("memory")["is_known"], given).get is not None


def _row(fact_id: str, fact: NewFact, recorded_at: str) -> tuple[str | float | None, ...]:
    return (
        fact_id,
        fact.source_entity_id,
        fact.relation_type,
        fact.target_entity_id,
        storable(fact.fact),
        fact.confidence,
        fact.source_type,
        clock.timestamp(fact.as_of) if fact.as_of else None,
        clock.timestamp(fact.valid_at) if fact.valid_at else recorded_at,
        fact.source_event_id,
        fact.source_episode_id,
        fact.source_request_id,
        json.dumps(fact.metadata, sort_keys=True) if fact.metadata else "{}",
        recorded_at,
    )
