"""How a message gets in, from the owner or a channel: checked, with its files, and only once."""

import asyncio
import base64
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, Self
from weakref import WeakValueDictionary

import apsw

from nexus import attachments, clock, ids
from nexus.attachments import Attachment, File
from nexus.broker import attached
from nexus.broker.broker import Broker
from nexus.channels import Message, kinds
from nexus.channels.supervisor import Progress
from nexus.config import Config
from nexus.errors import AccessError, UsageError
from nexus.home import Home
from nexus.ledgers import Ledgers, events, staging
from nexus.ledgers.events import NewEvent, Participant
from nexus.ledgers.identity import access as grants
from nexus.ledgers.identity import senders
from nexus.ledgers.runtime import approvals, executions, requests
from nexus.ledgers.runtime import channels as channel_states
from nexus.ledgers.runtime.requests import StoredRequest
from nexus.ledgers.text import storable
from nexus.pipeline import Incoming, Pipeline
from nexus.pipeline.pipeline import refusal
from nexus.runs import FinishedRun, Receipt
from nexus.text import join_lines


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


_UNVERIFIED: Final = "unverified:"
"""How names begin that a channel doesn't vouch for."""
_READ_WITHIN_S: Final = 2.1
"""For all files of a message: the next ones of its channel wait meanwhile."""


class Edit(NamedTuple):
    """What a change means."""

    thread: str
    """Where the message was said first: a service may tell the room, and not the thread in it."""
    is_new: bool = True
    """Whether the words are others than before. Services also tell of previews that they added."""
    replaces: str | None = None
    """The run that answered the message before, if nothing was said since."""


class Reception:
    """Takes the messages of a home and hands them to the pipeline."""

    def __init__(
        self, home: Home, config: Config, ledgers: Ledgers, broker: Broker, pipeline: Pipeline
    ) -> None:
        self.home = home
        self.config = config
        self.ledgers = ledgers
        self.broker = broker
        self.pipeline = pipeline
        self._receiving: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def attach(
        self,
        text: str,
        files: Sequence[File],
        model: str = "",
        within_s: int | None = None,
        *,
        role: str = "manager",
    ) -> tuple[str, tuple[Attachment, ...]]:
        """Keep the files of a message: its text with what they say, and what is kept.

        UsageError where one can't be read, or is an image and the model reads none: then nothing is kept.
        What takes more than `within_s` seconds to read is kept, and the agent that answers reads it.
        """
        if not files:
            return text, ()
        found = await attached.Files.check(files, self.config.attachments)
        if found.has_images:
            known = await self.broker.capabilities(role, model)
            if known.images is False:
                name = model or self.broker.models.names(role)[0]
                raise UsageError(
                    f"{name} can't read images", hint="Name a model that can, such as with `--model`."
                )
        text = await found.append_to(text, self.home, within_s)
        await found.keep(self.home)
        return text, found.attachments

    async def accept(self, incoming: Incoming) -> Receipt:
        """Take a message from anyone, over a channel or directly; a repeated delivery is not taken twice.

        One that has its event already is taken as it is.
        """
        is_direct = incoming.channel not in self.config.channels and not incoming.is_scheduled
        async with AsyncExitStack() as stack:
            if incoming.external_id is not None and incoming.event_id is None:
                # The lock keeps two simultaneous deliveries of one message apart.
                lock = self._receiving.setdefault(incoming.external_id, asyncio.Lock())
                await stack.enter_async_context(lock)
                if (known := await _received_before(self.ledgers, self.broker, incoming)) is not None:
                    return known
            async with self.broker.pace.reception(is_direct=is_direct):
                journey = await self.pipeline.receive(incoming)
            if journey.denied is not None:
                raise refusal(journey)
            id_ = journey.request.request_id
            if journey.run is None:
                run = FinishedRun.of(id_, journey.response or "")
                return Receipt(request_id=id_, run=run, reason=journey.reason)
            return Receipt(request_id=id_, run=journey.run, execution_id=journey.run.id)

    async def from_channel(self, channel: str, message: Message) -> Progress | None:
        """Take in a message from a channel. Its answer leaves by the channel, when there is one.

        What its sender has changed is answered again, in place of the first answer, if nothing was said
        since. Otherwise the change is recorded.
        """
        state = await self.ledgers.runtime.read(channel_states.state, name=channel)
        settings = kinds.apply_state(self.config.channels[channel], state)
        answers = not message.is_automatic and (
            not message.is_group
            or settings.answer == "always"
            or (settings.answer == "addressed" and message.is_addressed)
        )
        edit = await read_edit(self.ledgers, channel, message)
        if edit is not None and not edit.is_new:
            return None
        # What claims to come from somebody must not get in the way of what really does.
        claimed = "" if message.is_verified else _UNVERIFIED
        text, kept, unread = await self._with_files(channel, message)
        incoming = Incoming(
            channel=channel,
            content=text,
            attachments=kept,
            unread_files=unread,
            sender=claimed + message.sender,
            thread=claimed + (message.thread if edit is None else edit.thread),
            title=message.title,
            display_name=message.sender_name,
            external_id=claimed + message.id,
            is_owner=kinds.is_owner(settings, message),
            is_verified=message.is_verified,
            is_group=message.is_group,
            wants_answer=answers and (edit is None or edit.replaces is not None),
            edits=None if edit is None else message.edits,
            replaces=None if edit is None else edit.replaces,
            mode="interrupt" if edit is not None and edit.replaces else "followup",
        )
        receipt = await self.accept(incoming)
        return (
            None if receipt.execution_id is None else partial(self._describe_progress, receipt.execution_id)
        )

    async def hand_over_again(self, unheard: Iterable[tuple[str, str | None]]) -> None:
        """Take in messages that are recorded, and that nobody was asked about when a host was lost.

        Beside each stands a run whose answer was lost with the host, if there was one: its turn is replaced.
        """
        for event_id, lost_run in unheard:
            incoming = await self.ledgers.events.read(_load_incoming, event_id=event_id)
            is_owner = incoming.is_verified and self.is_owners(incoming.channel, incoming.sender)
            with suppress(AccessError):
                replaces = incoming.replaces or lost_run
                await self.accept(replace(incoming, is_owner=is_owner, replaces=replaces))

    async def take_salvaged(self, message: Salvaged) -> bool:
        """Take in a message that another host had accepted, under its old id. False: it is known here."""
        async with self._receiving.setdefault(message.lock, asyncio.Lock()):
            await asyncio.to_thread(message.keep_files, self.home)
            event_id = await self.ledgers.events.write(message.record)
            if event_id != message.id or await self.ledgers.runtime.read(requests.of_event, event_id):
                return False
            await self.hand_over_again([(event_id, None)])
            return True

    def is_owners(self, channel: str, address: str) -> bool:
        """Whether an address is the owner's. What isn't a channel of the settings is the owner's own."""
        settings = self.config.channels.get(channel)
        return settings is None or kinds.is_owner_address(settings, address)

    async def knows(self, channel: str, sender: str) -> bool:
        """Whether a sender on a channel is the owner or was let in."""
        if kinds.is_owner_address(self.config.channels[channel], sender):
            return True
        found = await self.ledgers.identity.read(senders.find, channel=channel, identifier=sender)
        if found is None or found.is_owner:
            return found is not None
        return await self.ledgers.identity.read(grants.find_grant, entity_id=found.entity_id) is not None

    async def _describe_progress(self, execution_id: str) -> str | None:
        """What a run does that has still to answer; None if it has answered, or waits for the owner."""
        found = await self.ledgers.runtime.read(executions.get, execution_id=execution_id)
        if found is None or found.status in executions.FINAL or found.taken_by is not None:
            return None
        if await self.ledgers.runtime.read(approvals.list_waiting, session_label=found.session_label):
            return None
        return self.broker.run(execution_id).describe_progress()

    async def _with_files(
        self, channel: str, message: Message
    ) -> tuple[str, tuple[Attachment, ...], tuple[str, ...]]:
        """The text of a message with what its files say, what is kept of them, and which can't be read.

        A file that can't be read is named, with the reason, and doesn't hold up the message. Files of an
        unverified sender are only named.
        """
        text, most = message.text, self.config.attachments.max_files
        kept: list[Attachment] = []
        unread: list[str] = []
        if not message.files:
            return text, (), ()
        known = await self._find_recorded(channel, message)
        if known is not None:
            # It comes again: a file that could be read then must be read now, or it would look like another.
            files = await self.ledgers.events.read(events.attachments_of, event_id=known.id)
            return known.content, files, ()
        begun = time.monotonic()
        for number, file in enumerate(message.files):
            left_s = int(_READ_WITHIN_S - (time.monotonic() - begun))
            try:
                if number >= most or not message.is_verified:
                    raise UsageError("not taken")
                if file.problem:
                    raise UsageError(file.problem)
                text, found = await self.attach(
                    text, [File(name=file.name, data=file.data)], within_s=max(0, left_s)
                )
                kept += found
            except UsageError as error:
                name = join_lines(file.name)[:200]
                text = "\n\n".join(filter(None, [text, f"[Attachment not read: {name} ({error.message})]"]))
                unread.append(f"{name}: {error.message.removeprefix(f'{name} is ')}")
        return text, tuple(kept), tuple(unread)

    async def _find_recorded(self, channel: str, message: Message) -> events.Event | None:
        """The message as it was recorded before, if it was; an unverified one could be another's."""
        if not message.is_verified:
            return None
        return await self.ledgers.events.read(
            events.find_by_external_id, channel=channel, external_id=message.id
        )


def _load_incoming(connection: apsw.Connection, event_id: str) -> Incoming:
    """A message as it came in, from its event."""
    event = events.get(connection, event_id)
    assert event is not None  # noqa: S101 - an invariant, for the reader and the type checker
    thread, title = events.thread_name(connection, event.thread_id or "")
    told = event.metadata
    return Incoming(
        channel=event.channel,
        content=event.content,
        sender=event.sender or "",
        thread=thread or "",
        title=title,
        session_label=told.get("session", ""),
        external_id=event.external_id,
        event_id=event.id,
        is_verified=not (thread or "").startswith(_UNVERIFIED),
        is_group=told.get("group", False),
        wants_answer=not told.get("unanswered", False),
        is_scheduled=told.get("scheduled", False),
        model=told.get("model", ""),
        role=told.get("role", "manager"),
        has_tools=not told.get("without_tools", False),
        fork_of=(fork[0], fork[1]) if (fork := told.get("fork_of")) else None,
        replaces=told.get("replaces"),
        edits=told.get("edits"),
        attachments=events.attachments_of(connection, event_id),
    )


async def _received_before(ledgers: Ledgers, broker: Broker, incoming: Incoming) -> Receipt | None:
    """What became of the message; None if it is new or was never handed to an agent."""
    external_id = incoming.external_id
    if external_id is None:
        return None
    event = await ledgers.events.read(
        events.find_by_external_id, channel=incoming.channel, external_id=external_id
    )
    if event is None:
        return None
    is_elsewhere = event.metadata.get("session", "") != incoming.session_label
    if is_elsewhere or event.content != storable(incoming.content):
        other = "in another session" if is_elsewhere else "for another message"
        raise UsageError(
            f"This idempotency key was already used {other}", hint="Use a new key for each message."
        )
    request = await ledgers.runtime.read(requests.for_event, event_id=event.id)
    if request is None and (said := await ledgers.events.read(events.find_transcript, event)) is not None:
        request = await ledgers.runtime.read(requests.for_event, event_id=said.id)
    if request is None:
        return None
    runs = await ledgers.runtime.read(
        executions.of_request, request_id=request.id, session_label=request.session_label or ""
    )
    if runs:
        return Receipt(request_id=request.id, run=broker.run(runs[0].id), execution_id=runs[0].id)
    return await _without_run(ledgers, request)


async def _without_run(ledgers: Ledgers, request: StoredRequest) -> Receipt | None:
    if request.status == "denied":
        raise AccessError(f"This was denied: {request.error}")
    if request.status == "failed" or request.status == "cancelled":
        return None  # nobody was asked on its behalf, and nobody will be: it is received anew
    if request.status == "running":
        # It holds the key no more.
        await ledgers.runtime.write(
            requests.end,
            request_id=request.id,
            status="failed",
            error="Its process ended before it was asked",
        )
        return None
    external_id = ids.derived("evt", request.id, "answer")
    said = await ledgers.events.read(
        events.find_by_external_id, channel=request.channel or "", external_id=external_id
    )
    run = FinishedRun.of(request.id, said.content if said else "")
    return Receipt(request_id=request.id, run=run, reason="it was answered without an agent before")


async def read_edit(ledgers: Ledgers, channel: str, message: Message) -> Edit | None:
    """What it means that a message edits another; None if it edits none, or nobody vouches for its sender."""
    if message.edits is None or not message.is_verified:
        return None
    thread, before, is_last = await ledgers.events.read(_before, channel=channel, message=message)
    if before is None:
        return Edit(thread)
    if before.external_id == storable(message.id):  # It comes again.
        return Edit(thread, replaces=before.metadata.get("replaces"))
    if _says_the_same(before.content, message):
        return Edit(thread, is_new=False)
    return Edit(thread, replaces=await ledgers.runtime.read(_run, event_id=before.id) if is_last else None)


def _before(
    connection: apsw.Connection, channel: str, message: Message
) -> tuple[str, events.Event | None, bool]:
    """The thread of a message, the message as it was until now, and whether nothing was said since."""
    edited = storable(message.edits or "")
    first = events.find_by_external_id(connection, channel=channel, external_id=edited)
    thread = message.thread
    if first is not None and first.thread_id is not None:
        thread = events.thread_name(connection, first.thread_id)[0] or thread
    again = events.find_by_external_id(connection, channel=channel, external_id=message.id)
    if again is not None:
        return thread, again, False
    last = events.find_last_heard(connection, channel=channel, thread=thread)
    # The second change of a message follows the first.
    if last is not None and edited in (last.external_id, last.metadata.get("edits")):
        return thread, last, last.sender == storable(message.sender)
    return thread, first, False


def _run(connection: apsw.Connection, event_id: str) -> str | None:
    request = requests.for_event(connection, event_id)
    if request is None:
        return None
    runs = executions.of_request(connection, request.id, request.session_label or "")
    return runs[0].id if runs else None


def _says_the_same(content: str, message: Message) -> bool:
    """Whether it has the words of a recorded one. What files say is recorded behind the words."""
    text = storable(message.text)
    return content.startswith(text) if message.files else content == text
