"""A message that one host had accepted for a home, on its way to the host that owns the home now."""

import base64
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Self

import apsw

from nexus import attachments, clock
from nexus.attachments import Attachment
from nexus.home import Home
from nexus.ledgers import events, staging
from nexus.ledgers.events import NewEvent, Participant


@dataclass(frozen=True, kw_only=True)
class Salvaged:
    """An inbound message with its files, as JSON carries it."""

    event: dict[str, Any]
    thread: str | None
    title: str | None
    files: list[dict[str, Any]]

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(**value)

    @property
    def id(self) -> str:
        return self.event["id"]

    @property
    def lock(self) -> str:
        """What two deliveries of it have in common."""
        return self.event["external_id"] or self.id

    def record(self, connection: apsw.Connection) -> str:
        """Record it under its old id, unless it is recorded; returns the id that it has here."""
        if events.get(connection, self.id) is not None:
            return self.id
        event = self.event
        thread_id: str | None = event["thread_id"]
        if thread_id is not None:
            name = self.thread or thread_id
            thread_id = events.ensure_thread(
                connection, channel=event["channel"], external_id=name, title=self.title
            )
        new = NewEvent(
            id=self.id,
            channel=event["channel"],
            content=event["content"],
            kind=event["kind"],
            thread_id=thread_id,
            external_id=event["external_id"],
            sender=event["sender"],
            content_type=event["content_type"],
            reply_to_event_id=event["reply_to_event_id"],
            metadata=event["metadata"],
            occurred_at=clock.parse(event["occurred_at"]),
            participants=(Participant(role="sender", identifier=event["sender"] or ""),),
        )
        [known] = events.append(connection, [new])
        if known == self.id:
            events.attach(connection, known, [_attachment(file) for file in self.files])
        return known

    def is_recorded(self, connection: apsw.Connection) -> bool:
        """Whether it is there, under its old id or as the same message of its channel."""
        if events.get(connection, self.id) is not None:
            return True
        external_id = self.event["external_id"]
        return external_id is not None and (
            events.find_by_external_id(connection, channel=self.event["channel"], external_id=external_id)
            is not None
        )

    def keep_files(self, home: Home) -> None:
        """Keep its files. Waits for the disk."""
        for file in self.files:
            if file["data"] is not None:
                attachments.keep(home, _attachment(file), base64.b64decode(file["data"]))


def messages(home: Home, after: int) -> Iterator[dict[str, Any]]:
    """The messages that a home received after an event, as JSON. Waits for the disk."""
    with closing(staging.as_it_is(home.ledger("events"), "events")) as connection:
        for event_id in events.list_received_after(connection, after):
            event = events.get(connection, event_id)
            assert event is not None  # noqa: S101 - an invariant, for the reader and the type checker
            thread, title = events.thread_name(connection, event.thread_id or "")
            files = [_with_data(home, each) for each in events.attachments_of(connection, event_id)]
            values = {name: getattr(event, name) for name in type(event).__slots__}
            yield {"event": values, "thread": thread, "title": title, "files": files}


def has_all(home: Home, waiting: list[dict[str, Any]]) -> bool:
    """Whether a home has recorded each of some messages, given as JSON. Waits for the disk."""
    with closing(staging.as_it_is(home.ledger("events"), "events")) as connection:
        return all(Salvaged.from_json(each).is_recorded(connection) for each in waiting)


def _with_data(home: Home, file: Attachment) -> dict[str, Any]:
    data = attachments.read(home, file)
    return {
        "name": file.name,
        "media_type": file.media_type,
        "size_bytes": file.size_bytes,
        "sha256": file.sha256,
        "data": None if data is None else base64.b64encode(data).decode(),
    }


def _attachment(file: dict[str, Any]) -> Attachment:
    return Attachment.from_json({key: value for key, value in file.items() if key != "data"})
