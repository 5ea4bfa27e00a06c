"""What an adapter is, and what passes between it and the home.

Nothing is lost on the way in if an adapter confirms a message to its service only after `Inbox.receive` has
returned: from then on the message is on record. A message that the service sends again has the same id and is
answered once. Nothing is lost on the way out either: a delivery is tried until `deliver` returns. After a
crash it may be asked for again under the same key, so whoever can send a key along should.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, Protocol, Self, TypeVar, runtime_checkable

from nexus.errors import NexusError, UsageError

MAX_TEXT_BYTES: Final = 1_000_000
MAX_ID_BYTES: Final = 1_000
THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Where secrets may be sent unencrypted."""
Capability = Literal["attachments", "edits", "markdown", "reactions", "threads", "typing"]
"""`edits`: what was sent can be changed. `typing` and `reactions`: see `ShowsWork`."""


class DeliveryError(NexusError):
    """A message could not be sent. With `final`, trying again is of no use."""

    def __init__(self, message: str, *, hint: str = "", final: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.final = final


class MessageError(UsageError):
    """What an adapter handed over is no message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file that comes with a message or leaves with one."""

    name: str
    media_type: str
    data: bytes
    problem: str = ""
    """Why there is no data: the service doesn't hand it over. The file is named with the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """Something that somebody wrote, as the channel tells it."""

    id: str
    """The channel's own id of it. One that comes again is the same message."""
    thread: str
    """The channel's own id of the conversation: a chat, a room, a mail thread."""
    sender: str
    """How the channel names who wrote it: an address, a number, a handle that nobody can choose freely."""
    text: str
    sender_name: str | None = None
    """What they call themselves. It is shown, and gives no rights."""
    is_group: bool = False
    """Whether others than the sender and the agent read along."""
    is_addressed: bool = True
    """Whether the agent is meant. In a group, what isn't addressed to it is recorded and not answered."""
    is_verified: bool = True
    """Whether the channel vouches for the sender. Who isn't vouched for has no rights."""
    is_automatic: bool = False
    """Whether a program wrote it: an auto-reply, a bounce, a mailing list. It is recorded, never answered."""
    title: str | None = None
    """What the conversation is called: a subject, a room's name."""
    sent_at: str | None = None
    edits: str | None = None
    """The id of an earlier message that its writer changed to this one, which has an id of its own."""
    files: tuple[File, ...] = ()

    def validate(self) -> Self:
        """Itself, or an error that says what is wrong with it."""
        for name in ("id", "thread", "sender"):
            value = getattr(self, name)
            if not value.strip():
                raise MessageError(f"A message needs `{name}`")
            if len(value.encode(errors="replace")) > MAX_ID_BYTES:
                raise MessageError(f"`{name}` of a message is longer than {MAX_ID_BYTES:,} bytes")
        if len(self.text.encode(errors="replace")) > MAX_TEXT_BYTES:
            raise MessageError(f"The message is longer than {MAX_TEXT_BYTES:,} bytes")
        if not self.text.strip() and not self.files:
            raise MessageError("The message is empty")
        return self

    def body(self) -> dict[str, Any]:
        """As JSON can hold it, without files: those are too large to set aside."""
        return {**asdict(replace(self, files=())), "files": [file.name for file in self.files]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """A message for an adapter to send."""

    key: str
    """The same for every attempt."""
    thread: str
    """The channel's own id of the conversation."""
    text: str
    reply_to: str | None = None
    """The channel's own id of the message that this one answers."""
    to: str | None = None
    """Who wrote that message, as the channel names them."""
    title: str | None = None
    """What the conversation is called, if the channel said so."""
    edits: str | None = None
    """What the service calls an earlier answer that this one takes the place of. If that can't be changed any
    more, this one is sent as it is. Only for adapters with the capability `edits`."""
    files: tuple[File, ...] = ()


class Inbox(Protocol):
    """Where an adapter hands over what came in."""

    async def receive(self, message: Message) -> None:
        """Take a message in. It is on record when this returns, also if it was refused or set aside.

        While the home can't record anything (a full disk, a database out of reach) this waits.
        """
        ...

    async def accept(self, message: Message) -> None:
        """Keep a message that has no files, to be taken in soon: in the order of its conversation, and once.

        For adapters that must answer quickly, however much comes in. It is on record when this returns.
        """
        ...

    async def set_aside(self, body: Mapping[str, Any], reason: str) -> None:
        """Keep a malformed message for somebody to look at."""
        ...

    async def knows(self, sender: str) -> bool:
        """Whether a sender is the owner or was let in, such as before accepting an invitation."""
        ...

    async def connected(self) -> None:
        """Say that the service is reached. Until then the channel counts as starting."""
        ...

    async def cursor(self) -> Any:
        """What `keep_cursor` was last given; None at first."""
        ...

    async def keep_cursor(self, cursor: Any) -> None:
        """Remember how far the service was read, as JSON, after what was read is on record."""
        ...


class Adapter(Protocol):
    """Connects one channel."""

    capabilities: frozenset[Capability]

    async def run(self, inbox: Inbox) -> None:
        """Hand over what comes in until this is cancelled. If it raises or returns, it is started again."""
        ...

    async def deliver(self, delivery: Delivery) -> str | None:
        """Send a message; return what the service calls it, if that is known. Raises `DeliveryError`.

        It is called while `run` runs and has connected, for one message of a thread at a time.
        """
        ...


_KIND: Final = "__nexus_channel__"
A = TypeVar("A", bound=Adapter)


def channel(kind: str, /) -> Callable[[type[A]], type[A]]:
    """Make an adapter's class a kind of channel: `@channel("tcp-chat")`.

    A package offers it with an entry point of that name in the group `nexus.channels`. A channel is set up
    with `kind = "tcp-chat"`; its `options` are the arguments that the class is called with.
    """

    def mark(adapter: type[A]) -> type[A]:
        setattr(adapter, _KIND, kind)
        return adapter

    return mark


def kind_of(adapter: object) -> str:
    """The kind that a class was made; empty if it is none."""
    return str(vars(adapter).get(_KIND, "")) if isinstance(adapter, type) else ""


@runtime_checkable
class Removes(Protocol):
    """An adapter with the capability `edits` that can also take back what it sent."""

    async def deliver(self, delivery: Delivery) -> str | None: ...

    async def remove(self, thread: str, sent: str) -> None:
        """Delete a message, by what `deliver` returned for it."""
        ...


@runtime_checkable
class ShowsWork(Protocol):
    """An adapter with the capability `typing` or `reactions`: people see that they will be answered."""

    async def show_work(self, thread: str, message_id: str, *, ended: bool) -> None:
        """Show in a thread that a message is worked on, or take that back when the work has ended.

        With `typing` it is called again every few seconds, because services show it for no longer.
        """
        ...
