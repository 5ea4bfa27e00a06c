"""The processing log of the memory ledger: what has been done with what, so that it is done once."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

import apsw

from nexus import clock
from nexus.ledgers import sql
from nexus.ledgers.text import storable_or_none

Status = Literal["done", "failed", "skipped", "flagged"]
_ALWAYS = 2**31


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """What came of working on one thing."""

    target_type: str
    target_id: str
    status: Status
    detail: str | None = None
    request_id: str | None = None


def mark(
    connection: apsw.Connection, processor: str, marks: Iterable[Mark], now: clock.Clock = clock.now
) -> None:
    """Record what came of it; the last time counts, and how often it was tried is kept."""
    rows = [
        {
            "processor": processor,
            "target_type": each.target_type,
            "target_id": each.target_id,
            "status": each.status,
            "detail": storable_or_none(each.detail),
            "request_id": each.request_id,
            "now": clock.timestamp(now()),
        }
        for each in marks
    ]
    connection.executemany(sql.queries("memory")["mark_processed"], rows)


def find_settled(
    connection: apsw.Connection,
    processor: str,
    target_type: str,
    target_ids: Iterable[str],
    most_attempts: int | None = None,
) -> set[str]:
    """Return those that need no more work: they were tried, and if they failed, at least that often."""
    values = {
        "processor": processor,
        "target_type": target_type,
        "targets": json.dumps(list(target_ids)),
        "most_attempts": _ALWAYS if most_attempts is None else most_attempts,
    }
    rows = connection.execute(sql.queries("memory")["settled"], values)
    return {cast("str", row[0]) for row in rows}
