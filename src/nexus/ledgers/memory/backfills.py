"""Backfills in the memory ledger: which episodes of imported histories are read, in which order, how far."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, cast

import apsw

from nexus import clock, ids
from nexus.ledgers import sql
from nexus.ledgers.memory import processing
from nexus.ledgers.text import storable_or_none

Sort = Literal["newest", "oldest", "relevant"]
Status = Literal["running", "paused", "done", "canceled"]
EpisodeStatus = Literal["waiting", "done", "skipped", "failed"]
PROCESSOR: Final = "memory-writer"
"""Whose work it is, in the processing log."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How fast and for how much; None is no limit."""

    episodes_an_hour: int | None = None
    budget_microusd: int | None = None
    budget_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How many episodes stand where, and what they came to."""

    waiting: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0
    facts: int = 0
    refused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Backfill:
    """One backfill, as it stands."""

    id: str
    import_id: str | None
    sort: Sort
    status: Status
    reason: str | None
    limits: Limits
    estimate: dict[str, Any]
    round: int
    created_at: str
    updated_at: str
    completed_at: str | None
    progress: Progress = field(default_factory=Progress)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of reading one episode."""

    episode_id: str
    status: EpisodeStatus
    event_ids: Sequence[str] = ()
    detail: str | None = None
    request_id: str | None = None
    refused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int = 0


def add(
    connection: apsw.Connection,
    *,
    import_id: str | None,
    sort: Sort,
    limits: Limits,
    estimate: dict[str, Any],
    episode_ids: Sequence[str],
    now: clock.Clock = clock.now,
) -> str:
    """Record a backfill with the episodes that it will read, in order; returns its id."""
    queries, id_ = sql.queries("memory"), ids.new("bkf")
    values = {
        "id": id_,
        "import_id": import_id,
        "sort": sort,
        "estimate": json.dumps(estimate),
        "now": clock.timestamp(now()),
        **_limits(limits),
    }
    connection.execute(queries["add_backfill"], values)
    rows = ((id_, episode_id, place) for place, episode_id in enumerate(episode_ids))
    connection.executemany(queries["add_backfill_episode"], rows)
    return id_


def list_backfills(connection: apsw.Connection, backfill_id: str | None = None) -> list[Backfill]:
    """Return all backfills, the oldest first, or the one of that id."""
    rows = connection.execute(sql.queries("memory")["backfills"], {"id": backfill_id}).fetchall()
    return [_backfill(connection, row) for row in cast("list[tuple[Any, ...]]", rows)]


def active(connection: apsw.Connection) -> str | None:
    """Return the backfill that is running or paused. There is one at a time."""
    return cast("str | None", connection.execute(sql.queries("memory")["active_backfills"]).get)


def next_episodes(connection: apsw.Connection, backfill_id: str, count: int) -> list[str]:
    """Return the episodes that are read next."""
    rows = connection.execute(sql.queries("memory")["next_backfill_episodes"], (backfill_id, count))
    return [cast("str", row[0]) for row in rows]


def last_read(connection: apsw.Connection, backfill_id: str, now: datetime) -> str | None:
    """Return when the last episode was read, without those from before the clock was set back."""
    values = (backfill_id, clock.timestamp(now))
    return cast("str | None", connection.execute(sql.queries("memory")["backfill_last"], values).get)


def mark(
    connection: apsw.Connection, backfill_id: str, outcome: Outcome, now: clock.Clock = clock.now
) -> None:
    """Record what came of an episode and of its events: in one transaction, so that none is read twice."""
    queries = sql.queries("memory")
    facts = connection.execute(queries["facts_of_events"], (json.dumps(list(outcome.event_ids)),)).fetchall()
    values = {
        "backfill": backfill_id,
        "episode": outcome.episode_id,
        "status": outcome.status,
        "facts": len(facts),
        "refused": outcome.refused,
        "input_tokens": outcome.input_tokens,
        "output_tokens": outcome.output_tokens,
        "cost_microusd": outcome.cost_microusd,
        "now": clock.timestamp(now()),
    }
    connection.execute(queries["mark_backfill_episode"], values)
    log(connection, outcome, now)


def log(connection: apsw.Connection, outcome: Outcome, now: clock.Clock = clock.now) -> None:
    """Record in the processing log that an episode was read, or why it couldn't be."""
    status: processing.Status = "done" if outcome.status == "waiting" else outcome.status
    targets = [("episode", outcome.episode_id)]
    if status == "done":
        targets += [("event", event_id) for event_id in outcome.event_ids]
    marks = [
        processing.Mark(
            target_type=kind,
            target_id=id_,
            status=status,
            detail=outcome.detail,
            request_id=outcome.request_id,
        )
        for kind, id_ in targets
    ]
    processing.mark(connection, PROCESSOR, marks, now)


def attempts(connection: apsw.Connection, episode_id: str) -> int:
    """Return how often reading an episode has ended, well or not."""
    values = (PROCESSOR, "episode", episode_id)
    return cast("int", connection.execute(sql.queries("memory")["attempts"], values).get or 0)


def set_status(
    connection: apsw.Connection,
    backfill_id: str,
    status: Status,
    reason: str | None = None,
    now: clock.Clock = clock.now,
) -> bool:
    """Pause, resume or end a backfill; False where it has ended."""
    values = {
        "id": backfill_id,
        "status": status,
        "reason": storable_or_none(reason),
        "now": clock.timestamp(now()),
    }
    connection.execute(sql.queries("memory")["set_backfill"], values)
    return connection.changes() > 0


def retry(connection: apsw.Connection, backfill_id: str) -> None:
    """Let what failed be tried again."""
    connection.execute(sql.queries("memory")["retry_backfill_episodes"], (backfill_id,))


def limit(connection: apsw.Connection, backfill_id: str, limits: Limits) -> None:
    """Change how fast and for how much."""
    connection.execute(sql.queries("memory")["limit_backfill"], {"id": backfill_id, **_limits(limits)})


def next_round(connection: apsw.Connection, backfill_id: str, round_: int) -> bool:
    """Begin the next round, unless another has; only one execution of the engine can."""
    values = {"id": backfill_id, "round": round_}
    connection.execute(sql.queries("memory")["next_backfill_round"], values)
    return connection.changes() > 0


def list_unread(connection: apsw.Connection, event_ids: Iterable[str]) -> list[tuple[str, str, str, int]]:
    """Return the unread episodes that hold some events: episode, event, when it begins, its tokens."""
    rows = connection.execute(sql.queries("memory")["unread_episodes"], (json.dumps(list(event_ids)),))
    return cast("list[tuple[str, str, str, int]]", rows.fetchall())


def events_of(connection: apsw.Connection, episode_id: str) -> list[str]:
    """Return the events of an episode, in order."""
    without_limit = -1
    rows = connection.execute(sql.queries("memory")["events_of_episode"], (episode_id, without_limit))
    return [cast("str", row[0]) for row in rows]


def _backfill(connection: apsw.Connection, row: tuple[Any, ...]) -> Backfill:
    (
        id_,
        import_id,
        sort,
        status,
        reason,
        pace,
        money,
        tokens,
        estimate,
        round_,
        created,
        updated,
        completed,
    ) = row
    return Backfill(
        id=id_,
        import_id=import_id,
        sort=sort,
        status=status,
        reason=reason,
        limits=Limits(episodes_an_hour=pace, budget_microusd=money, budget_tokens=tokens),
        estimate=json.loads(estimate),
        round=round_,
        created_at=created,
        updated_at=updated,
        completed_at=completed,
        progress=_progress(connection, id_),
    )


def _progress(connection: apsw.Connection, backfill_id: str) -> Progress:
    rows = connection.execute(sql.queries("memory")["backfill_progress"], (backfill_id,)).fetchall()
    found = cast("list[tuple[Any, ...]]", rows)
    sums = [sum(column) for column in zip(*(row[2:] for row in found), strict=True)] if found else [0] * 5
    names = ("facts", "refused", "input_tokens", "output_tokens", "cost_microusd")
    return Progress(**{row[0]: row[1] for row in found}, **dict(zip(names, sums, strict=True)))


def _limits(limits: Limits) -> dict[str, int | None]:
    return {
        "episodes_an_hour": limits.episodes_an_hour,
        "budget_microusd": limits.budget_microusd,
        "budget_tokens": limits.budget_tokens,
    }
