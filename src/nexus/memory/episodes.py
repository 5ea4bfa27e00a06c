"""Episodes as a writer records them: a stretch of conversation with its events and whom it mentions."""

import json
from dataclasses import dataclass, field
from typing import Any, Final, cast

import apsw

from nexus import clock, ids
from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.ledgers.sql import rows
from nexus.ledgers.text import storable
from nexus.memory.arguments import Arguments
from nexus.memory.grouping import PROCESSOR
from nexus.memory.groups import is_named
from nexus.memory.references import OWN_ID, resolve
from nexus.memory.writing import Scope, Step, storable_or_none

EXAMPLE: Final = (
    'memory-write.sh episode --channel imessage --start "2026-02-13T10:00:00Z" --end "2026-02-13T10:30:00Z" '
    '--summary "Discussion about project timeline" --events event-1,event-2 --entities entity-123'
)
_INHERITED: Final = (
    "version", "definition", "channel", "thread", "title", "summary", "start", "end", "events", "tokens",
)  # fmt: skip


@dataclass(kw_only=True, slots=True)
class RecordEpisode(Step):
    """Record an episode, or a new version of one, which keeps whatever it does not change."""

    id: str
    channel: str | None
    start: str | None
    end: str | None
    title: str | None
    summary: str | None
    thread_id: str | None
    events: tuple[str, ...]
    entities: tuple[str, ...]
    facts: tuple[str, ...]
    previous: str | None
    request_id: str | None
    metadata_json: str
    version: int = 1
    mentioned: list[str] = field(default_factory=list[str])
    people: list[str] = field(default_factory=list[str])
    times_together: int = 0

    @property
    def needs(self) -> list[tuple[str, str]]:
        previous = [("episode", self.previous)] if self.previous else []
        return [*previous, *(("fact", fact) for fact in self.facts)]

    @property
    def makes(self) -> list[tuple[str, str]]:
        return [("episode", self.id)]

    def in_identity(self, connection: apsw.Connection, scope: Scope) -> None:
        self.mentioned = [resolve(connection, each, scope) for each in self.entities]
        query = sql.queries("identity")["are_people"]
        self.people = [str(row[0]) for row in rows(connection, query, (json.dumps(self.mentioned),))]

    def in_memory(self, connection: apsw.Connection, scope: Scope) -> None:
        queries = sql.queries("memory")
        if connection.execute(queries["has_episode"], (self.id,)).get:
            raise UsageError(
                f"There is an episode {self.id!r} already", hint="Name it as `previous` to change it."
            )
        earlier = self._earlier(connection)
        self.version = earlier["version"] + 1
        values = {
            "id": self.id,
            "version": self.version,
            "previous": self.previous,
            "request": self.request_id or scope.provenance.request_id,
            "metadata": self.metadata_json,
            "now": scope.now,
            "definition": earlier["definition"],
            "channel": storable(self.channel or earlier["channel"]),
            "thread": self.thread_id or earlier["thread"],
            "title": storable_or_none(self.title) or earlier["title"],
            "summary": storable_or_none(self.summary) or earlier["summary"],
            "start": self.start or earlier["start"],
            "end": self.end or earlier["end"],
            "events": len(self.events) or earlier["events"],
            "tokens": 0 if self.events else earlier["tokens"],
        }
        connection.execute(queries["add_episode"], values)
        self._link(connection, scope.now)
        together = connection.execute(queries["times_together"], (json.dumps(sorted(set(self.people))),)).get
        self.times_together = cast("int", together)

    def _earlier(self, connection: apsw.Connection) -> dict[str, Any]:
        """Load what the version before this one says."""
        if self.previous is None:
            return dict.fromkeys(_INHERITED) | {"version": 0, "events": 0, "tokens": 0}
        queries = sql.queries("memory")
        newer = connection.execute(queries["newer_episode"], (self.previous,)).get
        if newer:
            raise UsageError(
                f"The episode {self.previous!r} has a newer version: {newer}",
                hint="Name the newest one as `previous`, so that the versions stay one chain.",
            )
        return dict(zip(_INHERITED, rows(connection, queries["inherited"], (self.previous,))[0], strict=True))

    def _link(self, connection: apsw.Connection, now: str) -> None:
        queries, both = sql.queries("memory"), {"id": self.id, "previous": self.previous}
        if self.previous and not self.events:
            connection.execute(queries["inherit_events"], both)
        if self.previous and not self.mentioned:
            connection.execute(queries["inherit_mentions"], both)
        links = [(self.id, event, position) for position, event in enumerate(self.events)]
        connection.executemany(queries["link_episode_event"], links)
        # What a writer made an episode of, the algorithm need not group again.
        done = [(PROCESSOR, "event", event, now) for event in self.events]
        connection.executemany(queries["mark_done"], done)
        mentions = [
            (self.id, entity, self.mentioned.count(entity)) for entity in dict.fromkeys(self.mentioned)
        ]
        connection.executemany(queries["mention_entity"], mentions)
        known = [(self.id, fact, None, None, 1.0, now) for fact in self.facts]
        connection.executemany(queries["mention_relationship"], known)

    def answer(self) -> dict[str, Any]:
        told = {
            "id": self.id,
            "version": self.version,
            "events": len(self.events),
            "entities": self.mentioned,
        }
        if not is_named(len(self.people), self.times_together):
            return told
        advice = "They are a group: make it an entity of type Group, if it is none yet, and mention it."
        return told | {
            "group": {"members": self.people, "times_together": self.times_together, "advice": advice}
        }


def parse(arguments: Arguments) -> RecordEpisode:
    """`episode`: channel, start and end, unless `previous` has them; summary, events, entities, …"""
    previous = arguments.text("previous")
    start, end = arguments.moment("start"), arguments.moment("end")
    missing = [name for name, given in (("start", start), ("end", end)) if given is None and not previous]
    channel = arguments.text("channel") if previous else arguments.require("channel")
    if missing:
        raise arguments.error(f"`episode` needs `{missing[0]}`, a time such as 2026-02-13T10:00:00Z")
    if start and end and start > end:
        raise arguments.error("An episode cannot end before it starts")
    id_ = arguments.text("id")
    if id_ is not None and not OWN_ID.fullmatch(id_):
        raise arguments.error(f"{id_!r} is not a valid id: use lowercase letters, digits, and . _ : -")
    return RecordEpisode(
        id=id_ or ids.new("epi"),
        channel=channel,
        start=clock.timestamp(start) if start else None,
        end=clock.timestamp(end) if end else None,
        title=arguments.text("title"),
        summary=arguments.text("summary"),
        thread_id=arguments.text("thread"),
        events=arguments.texts("events"),
        entities=arguments.texts("entities"),
        facts=arguments.texts("facts"),
        previous=previous,
        request_id=arguments.text("request"),
        metadata_json=arguments.json_object("metadata"),
    )
