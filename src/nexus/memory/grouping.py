"""Episodes made by algorithm: the events of each thread that are in no episode yet, cut at long silences."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, cast

import apsw

from nexus import clock, ids
from nexus.errors import ConfigError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.sql import rows
from nexus.memory import episodes
from nexus.memory.digest import describe_episodes

DEFINITION: Final = "conversation"
_STRATEGY: Final = "gap-and-budget"
_DEFAULTS: Final = {"gap_minutes": 60, "budget_tokens": 4_000}
_EVENTS_A_READ: Final = 5_000
_EVENTS_A_ROUND: Final = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One event of a thread, as far as cutting needs it."""

    event_id: str
    at: datetime
    tokens: int


def cut(events: Sequence[Said], *, gap: timedelta, budget_tokens: int) -> list[list[Said]]:
    """Cut events, in order of time, where nobody spoke for a `gap` or the budget would be exceeded.

    An event that exceeds the budget by itself is an episode by itself.
    """
    segments: list[list[Said]] = []
    tokens = 0
    for event in sorted(events, key=lambda event: (event.at, event.event_id)):
        joins = segments and event.at - segments[-1][-1].at < gap and tokens + event.tokens <= budget_tokens
        if joins:
            segments[-1].append(event)
            tokens += event.tokens
        else:
            segments.append([event])
            tokens = event.tokens
    return segments


def choose_closed(segments: Sequence[list[Said]], *, gap: timedelta, now: datetime) -> list[list[Said]]:
    """Choose those that are over: all but the last, which is over once nobody spoke for a `gap`."""
    if segments and now - segments[-1][-1].at < gap:
        return list(segments[:-1])
    return list(segments)


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """How events are cut."""

    id: str
    gap: timedelta
    budget_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviousVersion:
    """The newest version of an episode."""

    id: str
    version: int
    start: str
    end: str
    events: int
    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """What one episode is made of."""

    thread_id: str
    channel: str
    events: list[Said]
    definition: Definition
    now: str

    @property
    def event_ids(self) -> list[str]:
        return [event.event_id for event in self.events]

    @property
    def tokens(self) -> int:
        return sum(event.tokens for event in self.events)

    def write(self, connection: apsw.Connection, mentions: dict[str, int]) -> str | None:
        """Record the episode and that its events are done; None where another process was quicker."""
        queries = sql.queries("memory")
        undone = rows(connection, queries["undone_events"], (json.dumps(self.event_ids), episodes.PROCESSOR))
        if len(undone) < len(self.events):
            return None
        episode_id, earlier = ids.new("epi"), self._find_previous(connection)
        connection.execute(queries["add_episode"], self._values(episode_id, earlier))
        if earlier:
            both = {"id": episode_id, "previous": earlier.id}
            connection.execute(queries["inherit_events"], both)
            connection.execute(queries["inherit_mentions"], both)
        first = earlier.events if earlier else 0
        links = [(episode_id, event_id, first + place) for place, event_id in enumerate(self.event_ids)]
        connection.executemany(queries["link_episode_event"], links)
        named = [(episode_id, entity_id, count) for entity_id, count in mentions.items()]
        connection.executemany(queries["mention_entity"], named)
        done = [(episodes.PROCESSOR, "event", event_id, self.now) for event_id in self.event_ids]
        connection.executemany(queries["mark_done"], done)
        return episode_id

    def _find_previous(self, connection: apsw.Connection) -> PreviousVersion | None:
        """Find the episode that late events belong to: same thread, near in time, not read yet, with room."""
        found = rows(
            connection,
            sql.queries("memory")["episode_to_extend"],
            {
                "thread": self.thread_id,
                "definition": self.definition.id,
                "from": clock.timestamp(self.events[0].at - self.definition.gap),
                "until": clock.timestamp(self.events[-1].at + self.definition.gap),
                "room": self.definition.budget_tokens - self.tokens,
            },
        )
        return (
            PreviousVersion(**dict(zip(PreviousVersion.__slots__, found[0], strict=True))) if found else None
        )

    def _values(self, episode_id: str, earlier: PreviousVersion | None) -> dict[str, Any]:
        start, end = clock.timestamp(self.events[0].at), clock.timestamp(self.events[-1].at)
        return {
            "id": episode_id,
            "definition": self.definition.id,
            "channel": self.channel,
            "thread": self.thread_id,
            "title": None,
            "summary": None,
            "start": min(start, earlier.start) if earlier else start,
            "end": max(end, earlier.end) if earlier else end,
            "events": len(self.events) + (earlier.events if earlier else 0),
            "tokens": self.tokens + (earlier.tokens if earlier else 0),
            "version": earlier.version + 1 if earlier else 1,
            "previous": earlier.id if earlier else None,
            "request": None,
            "metadata": "{}",
            "now": self.now,
        }


@dataclass(kw_only=True, slots=True)
class Grouped:
    """What one pass made, and where the next one may begin."""

    episode_ids: list[str] = field(default_factory=list[str])
    events: int = 0
    next_seq: int = 0


async def group_events(ledgers: Ledgers, *, since_seq: int = 0, now: clock.Clock = clock.now) -> Grouped:
    """Make episodes of all conversations that are over, each with a title and a summary.

    Hand `next_seq` back to look at new events only. A pass over all events also describes older episodes
    that nobody has described.
    """
    definition = await _load_definition(ledgers)
    done, seq, open_seq = Grouped(), since_seq, None
    while True:
        waiting, reached = await _find_waiting(ledgers, seq)
        for thread_id, event_ids in waiting.items():
            first_open = await _group_thread(ledgers, thread_id, event_ids, definition, now, done)
            if first_open is not None:
                open_seq = min(first_open, open_seq or first_open)
        if reached == seq:
            # The next pass must see again what was not over.
            done.next_seq = seq if open_seq is None else open_seq - 1
            await describe_episodes(ledgers, done.episode_ids if since_seq else None)
            return done
        seq = reached


async def _load_definition(ledgers: Ledgers) -> Definition:
    def work(connection: apsw.Connection) -> tuple[Any, ...]:
        queries = sql.queries("memory")
        default = (ids.new("def"), DEFINITION, _STRATEGY, json.dumps(_DEFAULTS))
        found = rows(connection, queries["episode_definition"], (DEFINITION,))
        if not found:
            connection.execute(queries["add_episode_definition"], default)
        return found[0] if found else (default[0], default[2], default[3])

    id_, strategy, config_json = await ledgers.memory.write(work)
    try:
        settings = {**_DEFAULTS, **json.loads(config_json)}
        gap, budget = timedelta(minutes=float(settings["gap_minutes"])), int(settings["budget_tokens"])
    except (ValueError, TypeError) as error:
        raise _make_error(f"has settings that cannot be read: {error}") from error
    if strategy != _STRATEGY or gap <= timedelta(0) or budget < 1:
        raise _make_error(f"must have the strategy `{_STRATEGY}`, and numbers above 0")
    return Definition(id=id_, gap=gap, budget_tokens=budget)


def _make_error(why: str) -> ConfigError:
    return ConfigError(
        f"The episode definition `{DEFINITION}` {why}",
        hint=f"Its config_json is like {json.dumps(_DEFAULTS)}; correct it with `nexus sql --write`.",
    )


async def _find_waiting(ledgers: Ledgers, since_seq: int) -> tuple[dict[str, list[str]], int]:
    """Find the next events that are in no episode yet, by thread, and the last event looked at."""
    waiting: dict[str, list[str]] = {}
    seq, count = since_seq, 0
    query = sql.queries("events")["threaded_after"]
    while count < _EVENTS_A_ROUND:
        page = await ledgers.events.read(rows, query, (seq, _EVENTS_A_READ))
        if not page:
            break
        undone = await _find_undone(ledgers, [row[1] for row in page])
        for _, event_id, thread_id in page:
            if event_id in undone:
                waiting.setdefault(thread_id, []).append(event_id)
        seq, count = page[-1][0], count + len(undone)
    return waiting, seq


async def _find_undone(ledgers: Ledgers, event_ids: list[str]) -> set[str]:
    query = sql.queries("memory")["undone_events"]
    found = await ledgers.memory.read(rows, query, (json.dumps(event_ids), episodes.PROCESSOR))
    return {str(row[0]) for row in found}


async def _group_thread(
    ledgers: Ledgers,
    thread_id: str,
    event_ids: list[str],
    definition: Definition,
    now: clock.Clock,
    done: Grouped,
) -> int | None:
    """Make a thread's episodes. Returns the first event of the conversation that is not over yet."""
    # Imported at first use: recall brings numpy, which takes longer to import than most commands to run.
    from nexus.memory.recall.words import token_count

    query = sql.queries("events")["events_to_group"]
    found = await ledgers.events.read(rows, query, (json.dumps(event_ids),))
    seqs = {row[1]: row[0] for row in found}
    events = [Said(event_id=row[1], at=clock.parse(row[2]), tokens=token_count(row[3])) for row in found]
    segments = cut(events, gap=definition.gap, budget_tokens=definition.budget_tokens)
    over = choose_closed(segments, gap=definition.gap, now=now())
    for segment in over:
        stretch = Stretch(
            thread_id=thread_id,
            channel=cast("str", found[0][4]),
            events=segment,
            definition=definition,
            now=clock.timestamp(now()),
        )
        made = await _record(ledgers, stretch)
        if made:
            done.episode_ids.append(made)
            done.events += len(segment)
    still = [seqs[event.event_id] for segment in segments[len(over) :] for event in segment]
    return min(still, default=None)


async def _record(ledgers: Ledgers, stretch: Stretch) -> str | None:
    query = sql.queries("events")["entities_of_events"]
    present = await ledgers.events.read(rows, query, (json.dumps(stretch.event_ids),))
    mentions = {str(row[0]): int(row[1]) for row in present}
    group = await episodes.ensure_group(ledgers, list(mentions), stretch.now)

    def work(connection: apsw.Connection) -> str | None:
        episode_id = stretch.write(connection, mentions)
        if group is not None and episode_id is not None:
            group.join(connection, episode_id, stretch.now)
        return episode_id

    return await ledgers.memory.write(work)
