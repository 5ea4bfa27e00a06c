"""Episodes as a list, and one of them with what was said and learned in it."""

import json
from dataclasses import dataclass, replace
from typing import Any

import apsw

from nexus.errors import MissingError
from nexus.ledgers import Ledgers, sql
from nexus.memory.digest import make_digests
from nexus.memory.views import events, names
from nexus.memory.views.events import Learned, Said
from nexus.memory.views.page import ALWAYS, Page, Period, make_page, make_record

_MOST_EVENTS = 100
_CHARACTERS = 1_500


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode:
    """A stretch of conversation, in one version."""

    id: str
    channel: str
    thread_id: str | None
    title: str
    summary: str
    start_time: str
    end_time: str
    event_count: int
    token_count: int
    version: int
    previous_version_id: str | None
    source_request_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Mention:
    """An entity that occurs in an episode."""

    entity_id: str
    name: str
    mentions: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeView:
    """One episode, whole."""

    episode: Episode
    newer_id: str | None
    """The version that took its place, where one did."""
    said: tuple[Said, ...]
    mentions: tuple[Mention, ...]
    learned: tuple[Learned, ...]


async def load_page(
    ledgers: Ledgers,
    *,
    channel: str | None = None,
    period: Period = ALWAYS,
    cursor: str | None = None,
    limit: int = 50,
) -> Page[Episode]:
    """Load episodes in their newest versions, the latest first."""
    at, id_ = period.begin(cursor)
    values = {"channel": channel, "since": period.since, "at": at, "id": id_, "limit": limit + 1}
    query = sql.queries("memory")["episodes_before"]
    found = await ledgers.memory.read(sql.rows, query, values)
    lines = await _add_digests(ledgers, [make_record(Episode, row) for row in found])
    return make_page(lines, limit, lambda line: (line.end_time, line.id))


async def load_newest(ledgers: Ledgers, *, entity: str | None = None, limit: int = 50) -> list[Episode]:
    """Load the newest episodes, all or those that mention what a name or an id means."""
    wanted = json.dumps(await names.find_family(ledgers, entity)) if entity else None
    bindings = {"entities": wanted, "limit": limit}
    found = await ledgers.memory.read(sql.rows, sql.queries("memory")["newest_episodes"], bindings)
    return await _add_digests(ledgers, [make_record(Episode, row) for row in found])


async def get(ledgers: Ledgers, episode_id: str) -> EpisodeView:
    """Load one episode, with the beginning of what was said in it."""
    found = await ledgers.memory.read(_load_view, episode_id=episode_id)
    if found is None:
        raise MissingError(f"Unknown episode {episode_id}", hint="It may have been deleted.")
    stored, newer, event_ids, mentions, learned = found
    (episode,) = await _add_digests(ledgers, [stored])
    known = await names.load_roots(ledgers, [row[0] for row in mentions])
    return EpisodeView(
        episode=episode,
        newer_id=newer,
        said=await events.load_messages(ledgers, event_ids, _CHARACTERS),
        mentions=tuple(
            Mention(entity_id=known[id_][0], name=known[id_][1], mentions=count)
            for id_, count in mentions
            if id_ in known
        ),
        learned=learned,
    )


async def _add_digests(ledgers: Ledgers, found: list[Episode]) -> list[Episode]:
    """The episodes, each with a title and a summary."""
    made = await ledgers.read(make_digests, [each.id for each in found if not (each.title and each.summary)])
    return [
        replace(each, title=made[each.id].title, summary=made[each.id].summary) if each.id in made else each
        for each in found
    ]


def _load_view(connection: apsw.Connection, episode_id: str) -> Any:
    queries = sql.queries("memory")
    found = sql.rows(connection, queries["episode"], (episode_id,))
    if not found:
        return None
    newer = sql.rows(connection, queries["newer_episode"], (episode_id,))
    event_ids = sql.rows(connection, queries["events_of_episode"], (episode_id, _MOST_EVENTS))
    learned = sql.rows(connection, queries["facts_of_episode"], (episode_id, _MOST_EVENTS))
    return (
        make_record(Episode, found[0]),
        newer[0][0] if newer else None,
        [row[0] for row in event_ids],
        sql.rows(connection, queries["mentions_of_episode"], (episode_id,)),
        tuple(make_record(Learned, row) for row in learned),
    )
