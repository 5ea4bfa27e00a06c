"""Episodes as a writer records them: a stretch of conversation with its events and whom it mentions."""

from dataclasses import dataclass, field
from typing import Any, Final, cast

import apsw

from nexus import clock, ids
from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.ledgers.text import storable
from nexus.memory.arguments import Arguments
from nexus.memory.references import OWN_ID, resolve
from nexus.memory.writing import Scope, Step, rows, storable_or_none

EXAMPLE: Final = (
    'memory-write.sh episode --channel imessage --start "2026-02-13T10:00:00Z" --end "2026-02-13T10:30:00Z" '
    '--summary "Discussion about project timeline" --events event-1,event-2 --entities entity-123'
)


@dataclass(kw_only=True, slots=True)
class RecordEpisode(Step):
    """Record an episode, or a new version of one, which keeps the events and mentions it does not change."""

    id: str
    channel: str
    start: str
    end: str
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

    @property
    def needs(self) -> list[tuple[str, str]]:
        previous = [("episode", self.previous)] if self.previous else []
        return [*previous, *(("fact", fact) for fact in self.facts)]

    @property
    def makes(self) -> list[tuple[str, str]]:
        return [("episode", self.id)]

    def in_identity(self, connection: apsw.Connection, scope: Scope) -> None:
        self.mentioned = [resolve(connection, each, scope) for each in self.entities]

    def in_memory(self, connection: apsw.Connection, scope: Scope) -> None:
        queries = sql.queries("memory")
        if connection.execute(queries["has_episode"], (self.id,)).get:
            raise UsageError(
                f"There is an episode {self.id!r} already", hint="Name it as `previous` to change it."
            )
        inherited, tokens = self._follow(connection)
        count = len(self.events) or inherited
        connection.execute(
            queries["add_episode"],
            {
                "id": self.id,
                "definition": None,
                "channel": storable(self.channel),
                "thread": self.thread_id,
                "title": storable_or_none(self.title),
                "summary": storable_or_none(self.summary),
                "start": self.start,
                "end": self.end,
                "events": count,
                "tokens": 0 if self.events else tokens,
                "version": self.version,
                "previous": self.previous,
                "request": self.request_id or scope.provenance.request_id,
                "metadata": self.metadata_json,
                "now": scope.now,
            },
        )
        self._link(connection, scope.now)

    def _follow(self, connection: apsw.Connection) -> tuple[int, int]:
        if self.previous is None:
            return 0, 0
        queries = sql.queries("memory")
        newer = connection.execute(queries["newer_episode"], (self.previous,)).get
        if newer:
            raise UsageError(
                f"The episode {self.previous!r} has a newer version: {newer}",
                hint="Name the newest one as `previous`, so that the versions stay one chain.",
            )
        self.version = cast("int", connection.execute(queries["episode_version"], (self.previous,)).get) + 1
        return cast("tuple[int, int]", rows(connection, queries["inherited_size"], (self.previous,))[0])

    def _link(self, connection: apsw.Connection, now: str) -> None:
        queries, both = sql.queries("memory"), {"id": self.id, "previous": self.previous}
        if self.previous and not self.events:
            connection.execute(queries["inherit_events"], both)
        if self.previous and not self.mentioned:
            connection.execute(queries["inherit_mentions"], both)
        links = [(self.id, event, position) for position, event in enumerate(self.events)]
        connection.executemany(queries["link_episode_event"], links)
        mentions = [
            (self.id, entity, self.mentioned.count(entity)) for entity in dict.fromkeys(self.mentioned)
        ]
        connection.executemany(queries["mention_entity"], mentions)
        known = [(self.id, fact, None, None, 1.0, now) for fact in self.facts]
        connection.executemany(queries["mention_relationship"], known)

    def answer(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "version": self.version,
            "events": len(self.events),
            "entities": self.mentioned,
        }


def parse(arguments: Arguments) -> RecordEpisode:
    """`episode`: channel, start and end, and optionally summary, title, events, entities, facts, previous."""
    start, end = arguments.required_moment("start"), arguments.required_moment("end")
    if start > end:
        raise arguments.error("An episode cannot end before it starts")
    id_ = arguments.text("id")
    if id_ is not None and not OWN_ID.fullmatch(id_):
        raise arguments.error(f"{id_!r} cannot be an id: use small letters, digits, and . _ : -")
    return RecordEpisode(
        id=id_ or ids.new("epi"),
        channel=arguments.required("channel"),
        start=clock.timestamp(start),
        end=clock.timestamp(end),
        title=arguments.text("title"),
        summary=arguments.text("summary"),
        thread_id=arguments.text("thread"),
        events=arguments.texts("events"),
        entities=arguments.texts("entities"),
        facts=arguments.texts("facts"),
        previous=arguments.text("previous"),
        request_id=arguments.text("request"),
        metadata_json=arguments.json_object("metadata"),
    )
