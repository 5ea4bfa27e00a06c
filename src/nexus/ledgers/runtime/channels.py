"""Channels in the runtime ledger: how each is doing, what it has to send, what it has not taken in.

A delivery holds no text: it names the recorded message that is to be sent. Messages of one thread leave in
the order in which they were recorded; those of other threads don't wait for them.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, cast

import apsw

from nexus import clock, ids
from nexus.ledgers import sql
from nexus.ledgers.text import storable

Status = Literal["starting", "connected", "waiting", "paused", "stopped"]
"""`waiting`: it ended by itself and is started again soon."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelState:
    """How a channel is doing."""

    name: str
    paused: bool = False
    status: Status = "stopped"
    reason: str | None = None
    restarts: int = 0
    last_message_at: str | None = None
    updated_at: str | None = None
    answer: Literal["addressed", "always", "never"] | None = None
    quiet_hours: str | None = None
    zone: str | None = None
    """What was set while it ran, if anything: it wins over config.toml."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """A message on its way out."""

    event_id: str
    channel: str
    thread_id: str
    status: Literal["waiting", "sent", "failed"]
    attempts: int
    next_at: str
    external_id: str | None
    error: str | None
    created_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SetAside:
    """A message that could not be taken in."""

    id: str
    channel: str
    external_id: str
    sender: str
    body: dict[str, Any]
    reason: str
    created_at: str


@dataclass(frozen=True, slots=True)
class Counts:
    """What of a channel needs somebody's attention, or time."""

    waiting: int
    failed: int
    set_aside: int


def state(connection: apsw.Connection, name: str) -> ChannelState:
    """Return how a channel is doing; stopped, where it never ran."""
    row = connection.execute(_query("channel"), {"name": name}).fetchone()
    return ChannelState(name=name) if row is None else _state(row)


def note_status(connection: apsw.Connection, name: str, status: Status, reason: str | None = None) -> None:
    """Record how a channel is doing now."""
    values = {"name": name, "status": status, "reason": reason and storable(reason)}
    connection.execute(_query("channel_state"), values)


def pause(connection: apsw.Connection, name: str, *, paused: bool) -> None:
    """Let a channel rest, or go on. Whoever serves the home notices."""
    connection.execute(_query("pause_channel"), {"name": name, "paused": int(paused)})


def set_(
    connection: apsw.Connection, name: str, *, answer: str | None, quiet_hours: str | None, zone: str | None
) -> None:
    """Change settings of a channel while it runs. None: as in config.toml."""
    values = {"name": name, "answer": answer, "quiet_hours": quiet_hours, "zone": zone}
    connection.execute(_query("set_channel"), values)


def note_message(connection: apsw.Connection, name: str) -> None:
    """Record that something came in just now."""
    connection.execute(_query("channel_heard"), {"name": name})


def cursor(connection: apsw.Connection, name: str) -> Any:
    """Return how far a channel's adapter has read, in its own terms; None at first."""
    found = cast("str | None", connection.execute(_query("channel_cursor"), {"name": name}).get)
    return None if found is None else json.loads(found)


def keep_cursor(connection: apsw.Connection, name: str, cursor: Any) -> None:
    """Remember how far an adapter has read."""
    connection.execute(_query("keep_channel_cursor"), {"name": name, "cursor": json.dumps(cursor)})


def queued_seq(connection: apsw.Connection, name: str) -> int | None:
    """Return up to where a channel's recorded messages are in its queue; None where it never ran."""
    return cast("int | None", connection.execute(_query("queued_seq"), {"name": name}).get)


def queue(
    connection: apsw.Connection, name: str, outgoing: Iterable[tuple[str, str, bool]], *, seq: int
) -> None:
    """Let recorded messages be sent, and remember up to where they were found.

    They are given by event, thread and whether nobody asked for them. A message is sent once, however often
    it is queued.
    """
    for event_id, thread_id, unasked in outgoing:
        values = {"event_id": event_id, "channel": name, "thread_id": thread_id, "unasked": int(unasked)}
        connection.execute(_query("queue_delivery"), values)
    connection.execute(_query("keep_queued_seq"), {"name": name, "seq": seq})


def list_due(
    connection: apsw.Connection,
    channel: str,
    now: datetime,
    longest: timedelta,
    limit: int = 32,
    *,
    quiet: bool = False,
) -> list[Delivery]:
    """Return what a channel can send now: of each thread the first that waits. In quiet hours, answers alone.

    One that would wait longer than the longest pause was recorded before the clock was set back.
    """
    values = {
        "channel": channel,
        "now": clock.timestamp(now),
        "at_most": clock.timestamp(now + longest),
        "quiet": int(quiet),
        "limit": limit,
    }
    return [sql.make(Delivery, row) for row in connection.execute(_query("due_deliveries"), values)]


def next_at(connection: apsw.Connection, channel: str, *, quiet: bool = False) -> datetime | None:
    """Return when something is due next. In quiet hours, of the answers."""
    values = {"channel": channel, "quiet": int(quiet)}
    found = cast("str | None", connection.execute(_query("next_delivery_at"), values).get)
    return None if found is None else clock.parse(found)


def record_sent(connection: apsw.Connection, event_id: str, external_id: str | None) -> None:
    """Record that a message has left, and what the channel calls it, if anything."""
    connection.execute(_query("delivery_sent"), {"event_id": event_id, "external_id": external_id})


def find_sent_id(connection: apsw.Connection, event_id: str) -> str | None:
    """Return what the channel calls a message that has left, if it has a name for it."""
    return cast("str | None", connection.execute(_query("delivery_sent_as"), (event_id,)).get)


def record_failed(connection: apsw.Connection, event_id: str, error: str, next_at: datetime | None) -> None:
    """Record that an attempt failed. Without a next time nothing more is tried until somebody says so."""
    at = None if next_at is None else clock.timestamp(next_at)
    values = {"event_id": event_id, "error": storable(error), "next_at": at}
    connection.execute(_query("delivery_failed"), values)


def deliveries(
    connection: apsw.Connection,
    channel: str | None,
    status: str,
    limit: int = 100,
    *,
    since: str = "",
    until: str | None = None,
) -> list[Delivery]:
    """Return messages with that status, the newest first; those queued within a time, if one is given."""
    values = {"channel": channel, "status": status, "since": since, "until": until, "limit": limit}
    return [sql.make(Delivery, row) for row in connection.execute(_query("deliveries_listed"), values)]


def retry(connection: apsw.Connection, channel: str) -> int:
    """Let what failed be sent again; how many messages that are."""
    connection.execute(_query("retry_deliveries"), {"channel": channel})
    return connection.changes()


def set_aside(
    connection: apsw.Connection, *, channel: str, external_id: str, sender: str, body: Any, reason: str
) -> None:
    """Keep a message that could not be taken in. One that comes again is kept once."""
    values = {
        "id": ids.new("asi"),
        "channel": channel,
        "external_id": storable(external_id),
        "sender": storable(sender),
        "body": json.dumps(body),
        "reason": storable(reason),
    }
    connection.execute(_query("set_aside"), values)


def keep_received(
    connection: apsw.Connection, *, channel: str, external_id: str, sender: str, body: Any
) -> None:
    """Keep a message until it is taken in. One that comes again meanwhile is kept once."""
    values = {
        "id": ids.new("asi"),
        "channel": channel,
        "external_id": storable(external_id),
        "sender": storable(sender),
        "body": json.dumps(body),
    }
    connection.execute(_query("keep_received"), values)


def list_received(connection: apsw.Connection, channel: str, limit: int) -> list[dict[str, Any]]:
    """Return messages that wait to be taken in, the oldest first."""
    rows = connection.execute(_query("received"), {"channel": channel, "limit": limit})
    return [json.loads(cast("tuple[str]", row)[0]) for row in rows]


def end_received(connection: apsw.Connection, channel: str, external_id: str) -> None:
    """Record that a message was taken in and waits no more; one that was set aside meanwhile stays."""
    values = {"channel": channel, "external_id": storable(external_id)}
    connection.execute(_query("end_received"), values)


def list_set_aside(
    connection: apsw.Connection,
    channel: str | None = None,
    limit: int = 100,
    *,
    since: str = "",
    until: str | None = None,
) -> list[SetAside]:
    """Return what could not be taken in, the oldest first; what came within a time, if one is given."""
    values = {"channel": channel, "since": since, "until": until, "limit": limit}
    rows = connection.execute(_query("set_aside_listed"), values)
    found: list[SetAside] = []
    for row in cast("list[tuple[Any, ...]]", rows.fetchall()):
        id_, name, external_id, sender, body, reason, created_at = row
        found.append(
            SetAside(
                id=id_,
                channel=name,
                external_id=external_id,
                sender=sender,
                body=json.loads(body),
                reason=reason,
                created_at=created_at,
            )
        )
    return found


def take(connection: apsw.Connection, id_: str) -> bool:
    """Remove one that was set aside, because it was taken in after all or is not wanted."""
    connection.execute(_query("take_set_aside"), {"id": id_})
    return connection.changes() > 0


def counts(connection: apsw.Connection, name: str) -> Counts:
    """Return how much waits, has failed, and was set aside."""
    row = connection.execute(_query("channel_counts"), {"name": name}).fetchone()
    return Counts(*cast("tuple[int, int, int]", row))


def _query(name: str) -> str:
    return sql.queries("runtime")[name]


def _state(row: Any) -> ChannelState:
    values: dict[str, Any] = dict(zip(ChannelState.__slots__, cast("tuple[Any, ...]", row), strict=True))
    values["paused"] = bool(values["paused"])
    return ChannelState(**values)
