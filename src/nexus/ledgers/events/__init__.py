"""The events ledger: everything that was said, appended once and never changed."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, cast

import apsw

from nexus import clock, ids
from nexus.attachments import Attachment
from nexus.ledgers import sql
from nexus.ledgers.text import storable, storable_or_none

TRANSCRIPT: Final = ":transcript"
"""How the external id of what was said in a voice note ends, behind the id of its event."""
Direction = Literal["inbound", "outbound", "internal"]
ParticipantRole = Literal["sender", "recipient", "cc", "observer"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Participant:
    """Somebody who took part in an event, as the channel names them."""

    role: ParticipantRole
    identifier: str
    display_name: str | None = None
    contact_id: str | None = None
    entity_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NewEvent:
    """Something that was said, before it is recorded. With `external_id` it is recorded once only."""

    channel: str
    content: str
    direction: Direction = "inbound"
    kind: str = "message"
    thread_id: str | None = None
    external_id: str | None = None
    sender: str | None = None
    content_type: str = "text/plain"
    reply_to_event_id: str | None = None
    request_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    occurred_at: datetime | None = None
    participants: tuple[Participant, ...] = ()
    id: str | None = None
    """The id that it had before it was lost here; None: a new one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A recorded event."""

    seq: int
    id: str
    thread_id: str | None
    channel: str
    direction: Direction
    kind: str
    external_id: str | None
    sender: str | None
    content: str
    content_type: str
    reply_to_event_id: str | None
    request_id: str | None
    metadata: dict[str, Any]
    occurred_at: str
    created_at: str


def ensure_thread(
    connection: apsw.Connection,
    *,
    channel: str,
    external_id: str,
    kind: str = "chat",
    title: str | None = None,
) -> str:
    """Return the id of the channel's thread, made if it is new."""
    queries = sql.queries("events")
    connection.execute(
        queries["ensure_thread"],
        {"id": ids.new("thr"), "channel": channel, "external_id": external_id, "kind": kind, "title": title},
    )
    return cast("str", connection.execute(queries["thread_by_external_id"], (channel, external_id)).get)


def append(
    connection: apsw.Connection, events: Iterable[NewEvent], now: clock.Clock = clock.now
) -> list[str]:
    """Record events in order, with their participants; returns their ids.

    One that its channel delivered before (same `external_id`) is not recorded again: the id that it
    has is returned in its place.
    """
    queries = sql.queries("events")
    recorded_at = clock.timestamp(now())
    rows: list[tuple[str | None, ...]] = []
    participants: list[tuple[str | None, ...]] = []
    result: list[str] = []
    in_this_call: dict[tuple[str, str], str] = {}
    for event in events:
        key = None if event.external_id is None else (event.channel, storable(event.external_id))
        known = key and (in_this_call.get(key) or connection.execute(queries["recorded"], key).get)
        if known:
            result.append(cast("str", known))
            continue
        event_id = event.id or ids.new("evt")
        if key:
            in_this_call[key] = event_id
        result.append(event_id)
        rows.append(_row(event_id, event, recorded_at))
        participants += [_participant_row(event_id, participant) for participant in event.participants]
    connection.executemany(queries["append"], rows)
    if participants:
        connection.executemany(queries["add_participant"], participants)
    return result


def attach(connection: apsw.Connection, event_id: str, attachments: Iterable[Attachment]) -> None:
    """Record the files that came with an event. It may be repeated."""
    rows = [
        (
            ids.derived("att", event_id, f"{place}:{each.sha256}"),
            event_id,
            storable(each.name),
            each.media_type,
            each.size_bytes,
            each.sha256,
            each.path,
        )
        for place, each in enumerate(attachments)
    ]
    connection.executemany(sql.queries("events")["attach"], rows)


def transcribe(connection: apsw.Connection, recorded: Event, content: str) -> str:
    """Record what was said in a voice note: an event of its own, with the sender and files of the note.

    It is recorded once; returns its id.
    """
    said = NewEvent(
        channel=recorded.channel,
        content=content,
        kind="transcript",
        thread_id=recorded.thread_id,
        external_id=f"{recorded.id}{TRANSCRIPT}",
        sender=recorded.sender,
        # What the channel calls the message, for the answer to it.
        metadata={"edits": recorded.external_id, **recorded.metadata},
        occurred_at=clock.parse(recorded.occurred_at),
    )
    [event_id] = append(connection, [said])
    connection.execute(sql.queries("events")["copy_participants"], {"id": event_id, "recorded": recorded.id})
    attach(connection, event_id, attachments_of(connection, recorded.id))
    return event_id


def find_transcript(connection: apsw.Connection, recorded: Event) -> Event | None:
    """Return what was said in a voice note, if it was transcribed."""
    return find_by_external_id(connection, channel=recorded.channel, external_id=f"{recorded.id}{TRANSCRIPT}")


def thread(connection: apsw.Connection, thread_id: str) -> tuple[str, str] | None:
    """Return the channel of a thread, and what that calls it."""
    found = connection.execute(sql.queries("events")["thread_by_id"], (thread_id,)).fetchone()
    return cast("tuple[str, str] | None", found)


def attachments_of(connection: apsw.Connection, event_id: str) -> tuple[Attachment, ...]:
    """Return the kept files of an event, in order."""
    rows = connection.execute(sql.queries("events")["attachments_of"], (event_id,)).fetchall()
    found = cast("list[tuple[str, str, int, str]]", rows)
    return tuple(
        Attachment(name=name, media_type=media_type, size_bytes=size, sha256=sha256)
        for name, media_type, size, sha256 in found
    )


def get(connection: apsw.Connection, event_id: str) -> Event | None:
    """Return one event, whole."""
    row = connection.execute(sql.queries("events")["get"], (event_id,)).fetchone()
    if row is None:
        return None
    values: dict[str, Any] = dict(zip(Event.__slots__, row, strict=True))
    return Event(**{**values, "metadata": json.loads(values["metadata"])})


def find_by_external_id(connection: apsw.Connection, *, channel: str, external_id: str) -> Event | None:
    """Return the event that a channel delivered under an id of its own."""
    found = connection.execute(sql.queries("events")["recorded"], (channel, storable(external_id))).get
    return None if found is None else get(connection, cast("str", found))


def list_delivered(
    connection: apsw.Connection, *, channel: str, beginning: str, limit: int = 20
) -> list[str]:
    """List the newest events that a channel delivered under ids that begin so, newest first."""
    values: dict[str, Any] = {
        "channel": channel,
        "from": beginning,
        "to": f"{beginning}\U0010ffff",
        "limit": limit,
    }
    return [id_ for (id_,) in connection.execute(sql.queries("events")["delivered_newest"], values)]


@dataclass(frozen=True, slots=True)
class ChangedAnswer:
    """An answer that an automation changed or withheld before it was delivered."""

    request_id: str
    key: str
    """The run that wrote it; another id where an automation had."""
    delivered: str
    original: str
    changed_by: str
    withheld: str
    """Why it was withheld, if it was."""


def changed_answers(connection: apsw.Connection, request_ids: Iterable[str]) -> list[ChangedAnswer]:
    """Return the answers to some requests that were changed or withheld, in order."""
    wanted = (json.dumps(list(request_ids)),)
    rows = connection.execute(sql.queries("events")["changed_answers"], wanted).fetchall()
    return [ChangedAnswer(*cast("Any", row)) for row in rows]


def find_last_heard(connection: apsw.Connection, *, channel: str, thread: str) -> Event | None:
    """Return what somebody said last in a thread, by the channel's own id of it."""
    found = connection.execute(sql.queries("events")["last_heard"], (channel, storable(thread))).get
    return None if found is None else get(connection, cast("str", found))


def thread_name(connection: apsw.Connection, thread_id: str) -> tuple[str | None, str | None]:
    """Return the channel's own id of a thread, and its title."""
    found = connection.execute(sql.queries("events")["thread_name"], (thread_id,)).fetchone()
    return cast("tuple[str | None, str | None]", found or (None, None))


def last_seq(connection: apsw.Connection) -> int:
    """Return the number of the event that was recorded last; 0 where there is none."""
    return cast("int", connection.execute(sql.queries("events")["last_seq"]).get)


def list_received_after(connection: apsw.Connection, seq: int) -> list[str]:
    """Return the messages that came in after an event, but for imported ones."""
    found = connection.execute(sql.queries("events")["received_after"], (seq,)).fetchall()
    return [cast("str", row[0]) for row in found]


def list_outgoing(
    connection: apsw.Connection, *, channel: str, after: int
) -> tuple[list[tuple[str, str, bool]], int]:
    """Return what a home has to say on a channel, recorded after an event, and up to where.

    Each is an id with its thread and whether nobody asked for it. What was imported isn't among it: it was
    said elsewhere.
    """
    until = last_seq(connection)
    values: dict[str, Any] = {"channel": channel, "after": after, "until": until}
    rows = connection.execute(sql.queries("events")["outgoing_after"], values)
    found = cast("list[tuple[str, str, int]]", rows.fetchall())
    return [(event_id, thread_id, bool(unasked)) for event_id, thread_id, unasked in found], until


def list_said(connection: apsw.Connection, *, channel: str, external_id: str, limit: int) -> list[str]:
    """Return what was last said into a thread, the newest first."""
    values: dict[str, Any] = {"channel": channel, "external_id": external_id, "limit": limit}
    rows = connection.execute(sql.queries("events")["said_in_thread"], values)
    return [cast("str", row[0]) for row in rows]


def last_message(connection: apsw.Connection, thread_id: str) -> str | None:
    """Return what somebody last said in a thread; commands don't count."""
    return cast("str | None", connection.execute(sql.queries("events")["last_message"], (thread_id,)).get)


SCREENS: Final = ("cli", "web")
"""The channels on which the owner looks at sessions: the terminal and the browser."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unasked:
    """A message that answers nothing, as an automation that runs by the clock sends it."""

    seq: int
    occurred_at: str
    content: str


def was_written(connection: apsw.Connection, thread_id: str, text: str) -> bool:
    """Whether somebody wrote a text into a thread, in those very letters."""
    found = connection.execute(sql.queries("events")["inbound_in_thread_contains"], (thread_id, text)).get
    return bool(found)


def list_unasked(
    connection: apsw.Connection, *, channel: str, external_id: str, after: int | None = None, limit: int = 20
) -> list[Unasked]:
    """Return what was sent into a thread unasked, in order: after one, or since anything was last said.

    The terminal and the browser show the same sessions, so each shows what was sent to the other.
    """
    values: dict[str, Any] = {"external_id": external_id, "after": after, "limit": limit}
    channels = json.dumps(SCREENS if channel in SCREENS else [channel])
    rows = connection.execute(sql.queries("events")["unasked_in_thread"], {**values, "channels": channels})
    return [Unasked(seq=seq, occurred_at=at, content=text) for seq, at, text in cast("Any", rows)]


def list_unasked_before(
    connection: apsw.Connection, *, channel: str, external_id: str, event_id: str, limit: int = 5
) -> list[Unasked]:
    """Return what was sent into a thread unasked between a message and the one before it, in order."""
    values: dict[str, Any] = {"external_id": external_id, "event_id": event_id, "limit": limit}
    channels = json.dumps(SCREENS if channel in SCREENS else [channel])
    rows = connection.execute(sql.queries("events")["unasked_before"], {**values, "channels": channels})
    found = [Unasked(seq=seq, occurred_at=at, content=text) for seq, at, text in cast("Any", rows)]
    return found[::-1]


def list_unasked_between(
    connection: apsw.Connection, *, external_id: str, since: str, until: str, limit: int = 50
) -> list[Unasked]:
    """Return what was sent into a session unasked, on the owner's screens, from one time up to another."""
    values: dict[str, Any] = {"external_id": external_id, "since": since, "until": until, "limit": limit}
    channels = {"channels": json.dumps(SCREENS)}
    rows = connection.execute(sql.queries("events")["unasked_between"], {**values, **channels})
    found = [Unasked(seq=seq, occurred_at=at, content=text) for seq, at, text in cast("Any", rows)]
    return found[::-1]


def publish(
    connection: apsw.Connection, type_: str, subject: tuple[str, str] | None, payload: dict[str, Any]
) -> None:
    """Tell followers of the bus that something happened. The payload holds ids and counts, no content."""
    subject_type, subject_id = subject or (None, None)
    connection.execute(
        sql.queries("events")["publish"],
        (type_, subject_type, subject_id, json.dumps(payload, sort_keys=True)),
    )


def _row(event_id: str, event: NewEvent, recorded_at: str) -> tuple[str | None, ...]:
    return (
        event_id,
        event.thread_id,
        event.channel,
        event.direction,
        event.kind,
        storable_or_none(event.external_id),
        storable_or_none(event.sender),
        storable(event.content),
        event.content_type,
        event.reply_to_event_id,
        event.request_id,
        json.dumps(event.metadata, sort_keys=True) if event.metadata else "{}",
        clock.timestamp(event.occurred_at) if event.occurred_at else recorded_at,
        recorded_at,
    )


def _participant_row(event_id: str, participant: Participant) -> tuple[str | None, ...]:
    return (
        event_id,
        participant.role,
        storable(participant.identifier),
        storable_or_none(participant.display_name),
        participant.contact_id,
        participant.entity_id,
    )
