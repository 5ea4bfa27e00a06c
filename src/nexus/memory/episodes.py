"""Episodes as a writer records them: a stretch of conversation with its events and whom it mentions.

Several people who meet are an entity of their own, a group. Two never are: what ties them is a
relationship. Three to five are named once they have met often enough to be a group. Six and more always are.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import apsw

from nexus import clock, ids
from nexus.errors import UsageError
from nexus.ledgers import Ledgers, memory, sql
from nexus.ledgers.memory import NewFact
from nexus.ledgers.sql import rows
from nexus.ledgers.text import storable
from nexus.memory import entities
from nexus.memory.arguments import Arguments
from nexus.memory.references import OWN_ID, is_known, resolve
from nexus.memory.writing import Provenance, Scope, Step, storable_or_none

# As `nexus forget` knows it: the events of an episode that is forgotten become undone under this name.
PROCESSOR: Final = "episodes"
EXAMPLE: Final = (
    'memory-write.sh episode --channel imessage --start "2026-02-13T10:00:00Z" --end "2026-02-13T10:30:00Z" '
    '--summary "Discussion about project timeline" --events event-1,event-2 --entities entity-123'
)
_INHERITED: Final = (
    "version", "definition", "channel", "thread", "title", "summary", "start", "end", "events", "tokens",
)  # fmt: skip
_GROUP_TYPE: Final = "Group"
_MEMBER_OF: Final = "MEMBER_OF"
_FEWEST_MEMBERS: Final = 3
_ALWAYS_NAMED: Final = 6
_TIMES_TOGETHER: Final = 3
_SPELLED_OUT: Final = 6


def is_named(members: int, times_together: int) -> bool:
    """Whether people who meet are a group with a name, by the rule of three and six."""
    if members >= _ALWAYS_NAMED:
        return True
    return members >= _FEWEST_MEMBERS and times_together >= _TIMES_TOGETHER


def name_group(members: Sequence[str]) -> str:
    """Name a group that nobody has named: `Ada, Ben and Cleo`, `Ada, Ben and 9 others`."""
    first = sorted(dict.fromkeys(members))
    if len(first) > _SPELLED_OUT:
        first = [*first[:2], f"{len(first) - 2} others"]
    return " and ".join(filter(None, (", ".join(first[:-1]), first[-1])))


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A named group: an entity that stands for its members."""

    id: str
    name: str
    # The members' ids and names.
    members: dict[str, str]

    def join(self, connection: apsw.Connection, episode_id: str, now: str) -> None:
        """Mention the group in an episode and, where nobody has said it yet, who belongs to it."""
        queries = sql.queries("memory")
        connection.execute(queries["mention_entity"], (episode_id, self.id, 1))
        if connection.execute(queries["has_members"], (self.id,)).get:
            return
        observed = [
            NewFact(
                fact=f"{name} belongs to the group {self.name}",
                source_entity_id=member,
                relation_type=_MEMBER_OF,
                target_entity_id=self.id,
                source_type="observed",
                source_episode_id=episode_id,
            )
            for member, name in self.members.items()
        ]
        memory.append_facts(connection, observed, lambda: clock.parse(now))


async def ensure_group(ledgers: Ledgers, present: Sequence[str], now: str) -> Group | None:
    """Make the group of the people present, if the rule says that it has a name."""

    def work(connection: apsw.Connection) -> tuple[list[str], dict[str, str]]:
        queries, wanted = sql.queries("identity"), json.dumps(list(present))
        as_met = [str(row[0]) for row in rows(connection, queries["are_people"], (wanted,))]
        return as_met, {
            str(id_): str(name) for id_, name in rows(connection, queries["people_among"], (wanted,))
        }

    as_met, members = await ledgers.identity.read(work)
    if not is_named(len(members), await count_meetings(ledgers, as_met) + 1):
        return None
    # The same members give the same id, so that work which is done again finds what it made.
    digest = hashlib.sha256("\n".join(sorted(members)).encode()).hexdigest()[:20]
    group = Group(id=f"group-{digest}", name=name_group(list(members.values())), members=members)
    await ledgers.identity.write(_put, group, now)
    return group


async def count_meetings(ledgers: Ledgers, present: Sequence[str]) -> int:
    """Count the episodes in which all of these were mentioned."""
    query = sql.queries("memory")["times_together"]
    together = json.dumps(sorted(set(present)))
    return cast("int", await ledgers.memory.read(sql.value, query, (together,)))


def _put(connection: apsw.Connection, group: Group, now: str) -> None:
    if not is_known(connection, group.id):
        given = {"id": group.id, "name": group.name, "type": _GROUP_TYPE}
        step = entities.parse(Arguments("entity", given, ""))
        step.in_identity(connection, Scope(provenance=Provenance(actor="episodes"), now=now))


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
