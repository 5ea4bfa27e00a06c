"""A stretch of one thread that becomes an episode, or a new version of the episode that it belongs to."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import apsw

from nexus import clock, ids
from nexus.ledgers import sql
from nexus.ledgers.sql import rows
from nexus.memory.segments import Said

# As `nexus forget` knows it: the events of an episode that is forgotten become undone under this name.
PROCESSOR: Final = "episodes"


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """How events are cut."""

    id: str
    gap: timedelta
    budget_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Earlier:
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
        undone = rows(connection, queries["undone_events"], (json.dumps(self.event_ids), PROCESSOR))
        if len(undone) < len(self.events):
            return None
        episode_id, earlier = ids.new("epi"), self._earlier(connection)
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
        done = [(PROCESSOR, "event", event_id, self.now) for event_id in self.event_ids]
        connection.executemany(queries["mark_done"], done)
        return episode_id

    def _earlier(self, connection: apsw.Connection) -> Earlier | None:
        """The episode that late events belong to: of this thread, near in time, not read yet, with room."""
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
        return Earlier(**dict(zip(Earlier.__slots__, found[0], strict=True))) if found else None

    def _values(self, episode_id: str, earlier: Earlier | None) -> dict[str, Any]:
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
