"""From an event of a Matrix room to a message of the channel."""

import re
from dataclasses import dataclass
from typing import Any, Final, cast

from nexus.channels.adapter import File, Message, MessageError

AUTOMATIC: Final = "dev.nexus.automatic"
"""Marks what an agent wrote, so that two of them don't go on forever."""
_MEDIA: Final = frozenset({"m.image", "m.file", "m.audio", "m.video"})
_PRIVATE: Final = 2
"""Members of a room where nobody else reads along."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """What of a room matters for a message in it."""

    id: str
    members: int
    is_open: bool
    """Whether anybody can join it or read it without being invited."""
    title: str | None
    own_name: str
    """What the agent is called in it."""
    sender_name: str | None

    @property
    def is_group(self) -> bool:
        return self.is_open or self.members > _PRIVATE


def parse_message(event: dict[str, Any], room: Room, own_id: str, files: tuple[File, ...]) -> Message | None:
    """A message; None for what is none, or was written by the agent itself."""
    content = read_content(event)
    sender = _read_field(event, "sender")
    edits: str | None = None
    if _read_relation(content) == "m.replace":
        edits = _read_field(_as_object(content.get("m.relates_to")), "event_id")
        content = _as_object(content.get("m.new_content"))
    if sender == own_id or not content:
        return None  # Its own words, or something deleted.
    text = read_text(content)
    if not text.strip() and not files:
        return None
    return Message(
        id=_read_field(event, "event_id"),
        thread=_read_thread(content, room.id),
        sender=sender,
        sender_name=room.sender_name,
        text=text,
        edits=edits,
        title=room.title,
        is_group=room.is_group,
        is_addressed=not room.is_group or _is_addressed(content, room, own_id),
        is_automatic=content.get("msgtype") == "m.notice" or content.get(AUTOMATIC) is True,
        files=files,
    )


def read_text(content: dict[str, Any]) -> str:
    """The words of a message. Those of a file are its caption; without one, its body is its name."""
    body = content.get("body")
    if not isinstance(body, str):
        raise MessageError("The message has no body")
    if has_file(content) and content.get("filename") in (None, body):
        return ""
    return _without_quote(body) if "m.in_reply_to" in _as_object(content.get("m.relates_to")) else body


def read_content(event: dict[str, Any]) -> dict[str, Any]:
    """The content of an event; nothing, if it is no object."""
    return _as_object(event.get("content"))


def has_file(content: dict[str, Any]) -> bool:
    """Whether a file comes with a message."""
    kind = content.get("msgtype")
    return isinstance(kind, str) and kind in _MEDIA


def read_file_name(content: dict[str, Any]) -> str:
    """The name of the file that comes with a message."""
    name = content.get("filename") or content.get("body")
    return name if isinstance(name, str) else "file"


def read_media_type(content: dict[str, Any]) -> str:
    """What a file is, as its sender says."""
    given = _as_object(content.get("info")).get("mimetype")
    return given if isinstance(given, str) else "application/octet-stream"


def _read_thread(content: dict[str, Any], room_id: str) -> str:
    root = _as_object(content.get("m.relates_to")).get("event_id")
    return f"{room_id} {root}" if _read_relation(content) == "m.thread" and isinstance(root, str) else room_id


def _read_relation(content: dict[str, Any]) -> Any:
    return _as_object(content.get("m.relates_to")).get("rel_type")


def _is_addressed(content: dict[str, Any], room: Room, own_id: str) -> bool:
    """Whether a message names the agent. Clients name whoever they reply to as well."""
    named = _as_object(content.get("m.mentions")).get("user_ids")
    if isinstance(named, list) and own_id in cast("list[Any]", named):
        return True
    body = read_text(content)
    return any(
        re.search(rf"(?<!\w){re.escape(name)}(?!\w)", body) for name in (own_id, room.own_name) if name
    )


def _without_quote(body: str) -> str:
    """A reply without the lines that older clients quote above it."""
    lines = body.split("\n")
    end = next((number for number, line in enumerate(lines) if not line.startswith(">")), len(lines))
    return "\n".join(lines[end:]).strip("\n") or body


def _read_field(event: dict[str, Any], name: str) -> str:
    found = event.get(name)
    if not isinstance(found, str):
        raise MessageError(f"The event has no {name}")
    return found


def _as_object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
