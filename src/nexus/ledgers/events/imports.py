"""Imports in the events ledger: messages of the past, recorded in batches with where to resume.

An event's id follows from its channel, its own id there and its time, so importing the same export into
two homes gives the same ids. A batch, its counts and its cursor are one transaction.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

import apsw

from nexus import clock, ids
from nexus.home import PRIVATE_DIRECTORY, Home
from nexus.ledgers import sql
from nexus.ledgers.events import Direction, Participant
from nexus.ledgers.text import storable, storable_or_none

_EXAMPLES: Final = 50
_LONGEST_ID: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class AttachedFile:
    """A file that came with a message: what is known of it, and where it lies if it was kept."""

    filename: str | None
    media_type: str
    size_bytes: int | None
    sha256: str | None
    path: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PastThread:
    """A conversation as the source names it."""

    external_id: str
    kind: str
    title: str | None
    parent: str | None
    at: str
    metadata: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class PastEvent:
    """Something that was said, ready to be recorded."""

    id: str
    external_id: str
    thread: str
    direction: Direction
    kind: str
    sender: str | None
    content: str
    content_type: str
    reply_to: str | None
    metadata: dict[str, Any]
    occurred_at: str
    participants: tuple[Participant, ...]
    attachments: tuple[AttachedFile, ...]


@dataclass(slots=True)
class SetAsides:
    """What could not be read: how much for which reason, and some examples."""

    counts: Counter[str] = field(default_factory=Counter[str])
    examples: list[list[str]] = field(default_factory=list[list[str]])

    def add(self, reason: str, place: str) -> None:
        self.counts[reason] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append([reason, place])

    @property
    def total(self) -> int:
        return self.counts.total()

    def dump(self) -> str:
        return json.dumps({"counts": dict(self.counts), "examples": self.examples} if self.counts else {})

    @classmethod
    def load(cls, dumped: str) -> "SetAsides":
        held = json.loads(dumped)
        return cls(Counter(held.get("counts", {})), list(held.get("examples", [])))


@dataclass(frozen=True, kw_only=True, slots=True)
class Import:
    """One import, as far as it has come."""

    id: str
    source: str
    location: str
    status: str
    cursor: str | None
    threads: int
    messages: int
    known: int
    set_aside: SetAsides
    created_at: str
    completed_at: str | None

    def record(self) -> dict[str, Any]:
        """For a program to read."""
        return {
            "id": self.id,
            "format": self.source,
            "location": self.location,
            "status": self.status,
            "threads": self.threads,
            "messages": self.messages,
            "already_imported": self.known,
            "set_aside": dict(self.set_aside.counts),
            "examples": self.set_aside.examples,
            "created_at": self.created_at,
            "completed_at": self.completed_at,
        }


def event_id(channel: str, external_id: str, occurred_at: datetime) -> str:
    """Return the id of an imported event."""
    return ids.of_past("evt", occurred_at, f"{channel}:{external_id}")


def key(external_id: str) -> str:
    """Return an external id as it is stored: a very long one by its beginning and its hash."""
    kept = storable(external_id)
    return kept if len(kept) <= _LONGEST_ID else kept[: _LONGEST_ID - 33] + "#" + ids.digest(kept)[:32]


def begin(
    connection: apsw.Connection, *, source: str, location: str, fingerprint: str, options: dict[str, Any]
) -> str:
    """Start an import, or go on with one of the same export that was interrupted; returns its id."""
    queries = sql.queries("events")
    values = {
        "id": ids.new("imp"),
        "source": source,
        "location": storable(location),
        "fingerprint": fingerprint,
        "options": json.dumps(options, sort_keys=True),
        "now": clock.timestamp(clock.now()),
    }
    resumed = connection.execute(queries["unfinished_import"], values).get
    if resumed is not None:
        return cast("str", resumed)
    connection.execute(queries["begin_import"], values)
    return values["id"]


def list_imports(connection: apsw.Connection, import_id: str | None = None) -> list[Import]:
    """Return all imports, the oldest first, or the one of that id."""
    found = connection.execute(sql.queries("events")["imports"], {"id": import_id}).fetchall()
    return [_import(values) for values in cast("list[tuple[Any, ...]]", found)]


def _import(values: tuple[Any, ...]) -> Import:
    row: dict[str, Any] = dict(zip(Import.__slots__, values, strict=True))
    row["set_aside"] = SetAsides.load(row["set_aside"])
    return Import(**row)


class UnrecordedFiles:
    """The files that an import has stored for messages that are not recorded yet.

    They are noted before they are stored, so that undoing an import that was killed finds them.
    """

    def __init__(self, home: Home, import_id: str) -> None:
        self._home = home
        self._file = home.run / "imports" / import_id

    def note(self, path: str) -> None:
        """Note a file, by its path below the home."""
        self._file.parent.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as notes:
            notes.write(f"{path}\n")

    def settle(self) -> None:
        """Forget the notes: the messages are recorded."""
        self._file.unlink(missing_ok=True)

    def paths(self) -> list[str]:
        """Return what is noted."""
        return self._file.read_text(encoding="utf-8").split() if self._file.is_file() else []


def list_unreferenced(connection: apsw.Connection, paths: Sequence[str]) -> list[str]:
    """Return those of these files that no attachment has."""
    query = sql.queries("events")["attachment_paths"]
    known = {row[0] for row in connection.execute(query, (json.dumps(list(paths)),))}
    return [path for path in paths if path not in known]


def find_recorded(connection: apsw.Connection, *, channel: str, external_ids: Sequence[str]) -> set[str]:
    """Return which of these messages a channel has recorded, by their stored ids."""
    wanted = json.dumps([key(each) for each in external_ids])
    values = {"channel": channel, "external_ids": wanted, "import": ""}
    rows = connection.execute(sql.queries("events")["recorded_among"], values).fetchall()
    return {row[0] for row in cast("list[tuple[str, str, int]]", rows)}


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedEvent:
    """An event that a channel has recorded."""

    id: str
    thread_id: str | None
    occurred_at: str


def find_recorded_events(
    connection: apsw.Connection, *, channel: str, external_ids: Sequence[str]
) -> dict[str, RecordedEvent]:
    """Return those of these messages that a channel has recorded, by the ids that were passed."""
    wanted = {key(each): each for each in external_ids}
    values = {"channel": channel, "external_ids": json.dumps(list(wanted))}
    rows = connection.execute(sql.queries("events")["recorded_events"], values).fetchall()
    return {
        wanted[external_id]: RecordedEvent(id=id_, thread_id=thread_id, occurred_at=at)
        for external_id, id_, thread_id, at in cast("list[tuple[str, str, str | None, str]]", rows)
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What is recorded together: threads before the events in them.

    Without a cursor and set-asides, those of the batch before stand: the import resumes there.
    """

    import_id: str
    channel: str
    threads: Sequence[PastThread]
    events: Sequence[PastEvent]
    cursor: str | None
    set_aside: SetAsides | None
    recorded_at: str

    def record(self, connection: apsw.Connection) -> int:
        """Record what is new, and how far the import has come; returns how many events were new."""
        threads = self._threads(connection)
        known, own = self._find_known(connection)
        fresh: dict[str, PastEvent] = {}
        for event in self.events:
            if event.external_id not in known:
                fresh.setdefault(event.external_id, event)
        added = self._append(connection, list(fresh.values()), known)
        repeated = sum(event.external_id in known and event.external_id not in own for event in self.events)
        connection.execute(
            sql.queries("events")["advance_import"],
            {
                "id": self.import_id,
                "cursor": self.cursor,
                "threads": threads,
                "messages": added,
                "known": repeated,
                "set_aside": None if self.set_aside is None else self.set_aside.dump(),
                "now": clock.timestamp(clock.now()),
            },
        )
        return added

    def _threads(self, connection: apsw.Connection) -> int:
        queries, made = sql.queries("events"), 0
        for thread in self.threads:
            values = {
                "id": ids.of_past("thr", clock.parse(thread.at), f"{self.channel}:{thread.external_id}"),
                "channel": self.channel,
                "external_id": thread.external_id,
                "kind": thread.kind,
                "title": storable_or_none(thread.title),
                "parent": thread.parent,
                "metadata": json.dumps(thread.metadata, sort_keys=True) if thread.metadata else "{}",
                "at": thread.at,
            }
            connection.execute(queries["ensure_imported_thread"], values)
            made += connection.changes()
        return made

    def _find_known(self, connection: apsw.Connection) -> tuple[dict[str, str], set[str]]:
        """Return the recorded ones of the messages and of those that they answer, and which are our own."""
        wanted = {event.external_id for event in self.events}
        wanted |= {event.reply_to for event in self.events if event.reply_to is not None}
        values = {
            "channel": self.channel,
            "external_ids": json.dumps(sorted(wanted)),
            "import": self.import_id,
        }
        rows = connection.execute(sql.queries("events")["recorded_among"], values).fetchall()
        found = cast("list[tuple[str, str, int]]", rows)
        return {row[0]: row[1] for row in found}, {row[0] for row in found if row[2]}

    def _append(self, connection: apsw.Connection, events: list[PastEvent], known: dict[str, str]) -> int:
        if not events:
            return 0
        queries = sql.queries("events")
        id_of = {**known, **{event.external_id: event.id for event in events}}
        query = queries["thread_by_external_id"]
        thread_of = {
            thread: cast("str | None", connection.execute(query, (self.channel, thread)).get)
            for thread in {event.thread for event in events}
        }
        connection.executemany(
            queries["append"],
            [
                self._row(event, thread_of.get(event.thread), id_of.get(event.reply_to or ""))
                for event in events
            ],
        )
        connection.executemany(queries["add_participant"], _participants(events))
        connection.executemany(queries["add_attachment"], _attachments(events, self.recorded_at))
        first, last = (
            connection.execute(queries["seq_of"], (each.id,)).get for each in (events[0], events[-1])
        )
        self._extend(connection, cast("int", first), cast("int", last))
        return len(events)

    def _row(self, event: PastEvent, thread_id: str | None, answered: str | None) -> tuple[str | None, ...]:
        return (
            event.id, thread_id, self.channel, event.direction, event.kind, event.external_id,
            storable_or_none(event.sender), storable(event.content),
            event.content_type, answered, None,
            json.dumps(event.metadata, sort_keys=True) if event.metadata else "{}",
            event.occurred_at, self.recorded_at,
        )  # fmt: skip

    def _extend(self, connection: apsw.Connection, first: int, last: int) -> None:
        queries = sql.queries("events")
        before = connection.execute(queries["last_import_range"], (self.import_id,)).fetchone()
        if before is not None and cast("int", before[1]) == first - 1:
            connection.execute(queries["extend_import_range"], (last, self.import_id, before[0]))
        else:
            connection.execute(queries["add_import_range"], (self.import_id, first, last))


def end(connection: apsw.Connection, import_id: str) -> None:
    """Note that an import is complete."""
    values = {"id": import_id, "now": clock.timestamp(clock.now())}
    connection.execute(sql.queries("events")["end_import"], values)


def _participants(events: Sequence[PastEvent]) -> list[tuple[str | None, ...]]:
    rows: dict[tuple[str, str, str], tuple[str | None, ...]] = {}
    for event in events:
        for each in event.participants:
            identifier = storable(each.identifier)
            name = storable_or_none(each.display_name)
            rows.setdefault(
                (event.id, each.role, identifier),
                (event.id, each.role, identifier, name, each.contact_id, each.entity_id),
            )
    return list(rows.values())


def _attachments(events: Sequence[PastEvent], now: str) -> list[tuple[Any, ...]]:
    return [
        (
            ids.derived("att", event.id, str(number)), event.id,
            storable_or_none(each.filename), each.media_type, each.size_bytes,
            each.sha256, each.path, now,
        )
        for event in events
        for number, each in enumerate(event.attachments)
    ]  # fmt: skip
