"""One recorded message, with what was said around it and what came of it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import apsw

from nexus.errors import MissingError
from nexus.ledgers import Ledgers, events, sql
from nexus.ledgers.events import Event
from nexus.memory.views import names
from nexus.memory.views.page import list_columns, make_record, name_columns

_AROUND = 6
_CHARACTERS = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """A message before or after another one. `characters` is its full length."""

    seq: int
    id: str
    direction: str
    sender: str | None
    content: str
    characters: int
    occurred_at: str
    channel: str
    sender_name: str | None = None
    """Whom the channel's identifier belongs to, where that is known."""


_STORED = list_columns(Said, before="sender_name")


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """A fact that came from a message."""

    id: str
    fact: str
    source_entity_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EventView:
    """A message in its conversation."""

    event: Event
    sender_name: str | None
    thread_title: str | None
    before: tuple[Said, ...]
    after: tuple[Said, ...]
    request_ids: tuple[str, ...]
    """The requests that it asked for, or the one that it answers."""
    learned: tuple[Learned, ...]
    episode_ids: tuple[str, ...]


async def get(ledgers: Ledgers, event_id: str) -> EventView:
    """Load one event, whole."""
    found = await ledgers.events.read(events.get, event_id=event_id)
    if found is None:
        raise MissingError(f"Unknown event {event_id}", hint="It may have been deleted.")
    title, before, after = await ledgers.events.read(_load_around, event=found)
    around = await _name_senders(ledgers, [*before, *after])
    known = await names.load_sender_names(ledgers, [(found.channel, found.sender)])
    asked = sql.queries("runtime")["requests_of_event"]
    requests = await ledgers.runtime.read(sql.rows, asked, (event_id,))
    learned, episodes = await ledgers.memory.read(_load_learned, event_id=event_id)
    return EventView(
        event=found,
        sender_name=known.get((found.channel, found.sender or "")),
        thread_title=title,
        before=around[: len(before)],
        after=around[len(before) :],
        request_ids=tuple(row[0] for row in requests) or tuple(filter(None, [found.request_id])),
        learned=learned,
        episode_ids=episodes,
    )


async def load_messages(ledgers: Ledgers, ids: list[str], characters: int = _CHARACTERS) -> tuple[Said, ...]:
    """Load some events in the order in which they were recorded."""
    values = {"ids": json.dumps(ids), "most": characters}
    query = sql.queries("events")["said"]
    found = await ledgers.events.read(sql.rows, query, values)
    return await _name_senders(ledgers, [Said(**name_columns(_STORED, row)) for row in found])


async def _name_senders(ledgers: Ledgers, said: Sequence[Said]) -> tuple[Said, ...]:
    known = await names.load_sender_names(ledgers, [(each.channel, each.sender) for each in said])
    return tuple(replace(each, sender_name=known.get((each.channel, each.sender or ""))) for each in said)


def _load_around(
    connection: apsw.Connection, event: Event
) -> tuple[str | None, tuple[Said, ...], tuple[Said, ...]]:
    if event.thread_id is None:
        return None, (), ()
    queries = sql.queries("events")
    title = sql.rows(connection, queries["thread_title"], (event.thread_id,))
    values = {"thread_id": event.thread_id, "seq": event.seq, "limit": _AROUND, "most": _CHARACTERS}
    before = sql.rows(connection, queries["said_before"], values)
    after = sql.rows(connection, queries["said_after"], values)
    return (
        title[0][0] if title else None,
        tuple(Said(**name_columns(_STORED, row)) for row in reversed(before)),
        tuple(Said(**name_columns(_STORED, row)) for row in after),
    )


def _load_learned(connection: apsw.Connection, event_id: str) -> tuple[tuple[Learned, ...], tuple[str, ...]]:
    queries = sql.queries("memory")
    facts = sql.rows(connection, queries["facts_from_event"], (event_id,))
    episodes = sql.rows(connection, queries["episodes_with_event"], (event_id,))
    return tuple(make_record(Learned, row) for row in facts), tuple(row[0] for row in episodes)
