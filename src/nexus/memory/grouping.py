"""Episodes made by algorithm: events of each thread that are in no episode yet, cut at silences and budgets.

How they are cut stands in `episode_definitions`, in the row that is called `conversation`. An episode, its
events and the note that these are done are committed together, so work that is cut short is done again
from its start, and work that was done is not done twice.
"""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, cast

import apsw

from nexus import clock, ids
from nexus.errors import ConfigError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.sql import rows
from nexus.memory import groups, stretches
from nexus.memory.segments import Said, closed, cut
from nexus.memory.stretches import Definition, Stretch

DEFINITION: Final = "conversation"
_STRATEGY: Final = "gap-and-budget"
_DEFAULTS: Final = {"gap_minutes": 60, "budget_tokens": 4_000}
_EVENTS_A_READ: Final = 5_000
_EVENTS_A_ROUND: Final = 100_000


@dataclass(kw_only=True, slots=True)
class Grouped:
    """What one pass made, and where the next one may begin."""

    episode_ids: list[str] = field(default_factory=list[str])
    events: int = 0
    next_seq: int = 0


async def group_events(ledgers: Ledgers, *, since_seq: int = 0, now: clock.Clock = clock.now) -> Grouped:
    """Make episodes of all conversations that are over. Hand `next_seq` back to look at new events only."""
    definition = await _definition(ledgers)
    done, seq, open_seq = Grouped(), since_seq, None
    while True:
        waiting, reached = await _waiting(ledgers, seq)
        for thread_id, event_ids in waiting.items():
            first_open = await _group_thread(ledgers, thread_id, event_ids, definition, now, done)
            if first_open is not None:
                open_seq = min(first_open, open_seq or first_open)
        if reached == seq:
            # The next pass must see again what was not over.
            done.next_seq = seq if open_seq is None else open_seq - 1
            return done
        seq = reached


async def _definition(ledgers: Ledgers) -> Definition:
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
        raise _unusable(f"has settings that cannot be read: {error}") from error
    if strategy != _STRATEGY or gap <= timedelta(0) or budget < 1:
        raise _unusable(f"must have the strategy `{_STRATEGY}`, and numbers above 0")
    return Definition(id=id_, gap=gap, budget_tokens=budget)


def _unusable(why: str) -> ConfigError:
    return ConfigError(
        f"The episode definition `{DEFINITION}` {why}",
        hint=f"Its config_json is like {json.dumps(_DEFAULTS)}; correct it with `nexus sql --write`.",
    )


async def _waiting(ledgers: Ledgers, since_seq: int) -> tuple[dict[str, list[str]], int]:
    """The next events that are in no episode yet, by thread, and the last event that was looked at."""
    waiting: dict[str, list[str]] = {}
    seq, count = since_seq, 0
    query = sql.queries("events")["threaded_after"]
    while count < _EVENTS_A_ROUND:
        page = await ledgers.events.read(rows, query, (seq, _EVENTS_A_READ))
        if not page:
            break
        undone = await _undone(ledgers, [row[1] for row in page])
        for _, event_id, thread_id in page:
            if event_id in undone:
                waiting.setdefault(thread_id, []).append(event_id)
        seq, count = page[-1][0], count + len(undone)
    return waiting, seq


async def _undone(ledgers: Ledgers, event_ids: list[str]) -> set[str]:
    query = sql.queries("memory")["undone_events"]
    found = await ledgers.memory.read(rows, query, (json.dumps(event_ids), stretches.PROCESSOR))
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
    from nexus.memory.recall.selection import token_count

    query = sql.queries("events")["events_to_group"]
    found = await ledgers.events.read(rows, query, (json.dumps(event_ids),))
    seqs = {row[1]: row[0] for row in found}
    events = [Said(event_id=row[1], at=clock.parse(row[2]), tokens=token_count(row[3])) for row in found]
    segments = cut(events, gap=definition.gap, budget_tokens=definition.budget_tokens)
    over = closed(segments, gap=definition.gap, now=now())
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
    group = await groups.ensure(ledgers, list(mentions), stretch.now)

    def work(connection: apsw.Connection) -> str | None:
        episode_id = stretch.write(connection, mentions)
        if group is not None and episode_id is not None:
            group.join(connection, episode_id, stretch.now)
        return episode_id

    return await ledgers.memory.write(work)
