"""What a source yields: what was said, what it could not read, and places to resume at."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from nexus.ledgers.agents.imported import PastCall, PastResult

Author = Literal["owner", "person", "assistant", "system", "tool"]
"""Who said something. An assistant is another program's agent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """Somebody as the source names them. `identifier` is stable; two persons never share one."""

    identifier: str
    kind: Literal["email", "phone", "handle"] = "handle"
    name: str | None = None
    is_automated: bool = False
    """A newsletter, a no-reply address or a bot: recorded as a participant, never as an entity."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """A file that came with a message. If the export doesn't hold its bytes, only its description is kept."""

    name: str | None
    media_type: str = "application/octet-stream"
    size_bytes: int | None = None
    member: str | None = None
    """The file of the export that holds its bytes."""
    data: bytes | None = field(default=None, repr=False)
    """Its bytes, where they are part of the message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread:
    """A conversation. It comes before its messages; a branch names the thread that it left."""

    external_id: str
    title: str | None = None
    kind: str = "chat"
    parent: str | None = None
    at: datetime | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """Something that was said, with the id and the time that the source gave it."""

    external_id: str
    thread: str
    author: Author
    content: str
    at: datetime | None
    sender: Person | None = None
    """Who, where the author is a person. An assistant's sender only has a name."""
    recipients: tuple[Person, ...] = ()
    copied: tuple[Person, ...] = ()
    kind: str = "message"
    content_type: str = "text/plain"
    reply_to: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    attachments: tuple[Attachment, ...] = ()
    card: "Card | None" = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """Who a contact card describes: names, addresses, and hard facts such as a birthday."""

    name: str
    aliases: tuple[tuple[str, str], ...] = ()
    """Text and type: `("ada@example.com", "email")`."""
    facts: tuple[tuple[str, str, str], ...] = ()
    """Category, type and value: `("personal", "birthday", "1990-04-01")`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSession:
    """A session of another program's agent, by the id that the program gave it."""

    id: str
    project: str | None = None
    """The folder that the agent worked in."""
    parent: str | None = None
    """The session that started this one as a subagent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionMessage:
    """A message of an agent's session in full, after the messages that say in brief what is in it."""

    external_id: str
    session: AgentSession
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    message: str
    """The first of the messages for it, by its external id."""
    model: str | None = None
    calls: tuple[PastCall, ...] = ()
    results: tuple[PastResult, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SetAside:
    """Something that could not be read. `place` says where in the source it is."""

    reason: str
    place: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A place at which the source can be entered again. What was yielded before it counts as read."""

    cursor: str


Item = Thread | Message | SessionMessage | SetAside | Mark
