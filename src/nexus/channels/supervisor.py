"""Keeps channels running: starts adapters, watches them, starts them again, and sends what waits for them.

One process of a home does this. How each channel is doing is written to the runtime ledger, where the other
commands and the dashboard read it.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw

from nexus import attachments, clock, ids
from nexus.attachments import Attachment
from nexus.automations import when
from nexus.backoff import next_pause_s
from nexus.channels import kinds
from nexus.channels.adapter import (
    MAX_ID_BYTES,
    Adapter,
    Delivery,
    DeliveryError,
    File,
    Message,
    MessageError,
    Removes,
    ShowsWork,
)
from nexus.config import ChannelConfig
from nexus.errors import AccessError, LedgerBusyError, LedgerError, LedgerFullError, NexusError
from nexus.home import PRIVATE_DIRECTORY
from nexus.ledgers import Ledgers, events
from nexus.ledgers.runtime import channels as ledger
from nexus.ledgers.runtime.channels import Status
from nexus.text import join_lines
from nexus.watch import Watch, wait_at_most

Progress = Callable[[], Awaitable[str | None]]
"""Tells what is being done for a message: empty if that isn't known, None once it is answered."""
Receive = Callable[[str, Message], Awaitable[Progress | None]]
"""Takes a message of a channel in. Raises what the home raises.

Where an agent is to answer, returns what tells how far it is with that."""
Knows = Callable[[str, str], Awaitable[bool]]
"""Tells whether a sender of a channel is the owner or was let in."""
LetPass = Callable[[], Awaitable[None]]

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 300.0
_LOOK_S: Final = 10.0
"""How often it is looked whether quiet hours have ended, or the clock was set."""
_WRITTEN_S: Final = 2.0
"""How soon after a look somebody else's doing (a pause, a retry) is looked for again."""
_SEEN_EVENTS: Final = 1_000
"""After how many events that are none of a channel's own it is remembered that they were looked at."""
_TAKEN_TOGETHER: Final = 16
"""How many accepted messages are read at a time; the others wait in the ledger."""
_SHOWN_S: Final = 4.0
"""How often it is shown that a message is worked on. Services show it for five seconds or more."""
_SHOWN_TIMES: Final = 150
"""Ten minutes. What takes longer isn't watched by whoever asked for it."""
_NOTE_AFTER_S: Final = 30.0
"""After how long somebody who waits for an answer is told what is being done."""
_NOTE_EVERY_S: Final = 15.0
_EDITABLE_CHARACTERS: Final = 1_000
"""Longer answers may have left in pieces, of which only the first is known."""
_DELIVERY_TIMEOUT_S: Final = 60.0
_LONGEST_DELAY: Final = timedelta(seconds=_LONGEST_PAUSE_S * 4)
_DELIVERY_ATTEMPTS: Final = 12
"""Two hours and a half, with the pauses between them."""
_log = logging.getLogger(__name__)


# Marked messages are noted beside what was sent, under their id behind this.
_MARKED = "marked:"


class _SentNotes:
    """The progress notes and marks that stand on a channel, in a file: what a crash leaves is removed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.threads: dict[str, str] = {}
        """By what `deliver` returned for a note, or by the message that is marked."""
        with suppress(OSError, ValueError):
            self.threads = json.loads(path.read_bytes())

    def add(self, sent: str, thread: str) -> None:
        self.threads[sent] = thread
        self._save()

    def discard(self, sent: str) -> None:
        if self.threads.pop(sent, None) is not None:
            self._save()

    def _save(self) -> None:
        with suppress(OSError):  # The note is shown also when the disk is full.
            self._path.parent.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
            self._path.write_text(json.dumps(self.threads), encoding="utf-8")


@dataclass(kw_only=True)
class _Channel:
    name: str
    adapter: Adapter
    notes: _SentNotes
    status: Status = "stopped"
    is_connected: asyncio.Event = field(default_factory=asyncio.Event)
    has_more: asyncio.Event = field(default_factory=asyncio.Event)
    has_received: asyncio.Event = field(default_factory=asyncio.Event)
    has_changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    showing: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])


class Channels:
    """The channels of a home. `start` them when the home is served."""

    def __init__(
        self,
        ledgers: Ledgers,
        adapters: Mapping[str, Adapter],
        receive: Receive,
        *,
        knows: Knows | None = None,
        retryable: tuple[type[NexusError], ...] = (),
        now: clock.Clock = clock.now,
        pause_s: float = _FIRST_PAUSE_S,
        settings: Mapping[str, ChannelConfig] | None = None,
        zone: str = "",
        redact: Callable[[str], str] = str,
        let_pass: LetPass | None = None,
    ) -> None:
        """`let_pass` returns when nobody waits for an answer of the agent: deliveries can wait a moment."""
        self._ledgers = ledgers
        self._receive = receive
        self._knows = knows
        self._retryable = (LedgerBusyError, LedgerFullError, *retryable)
        self._now = now
        self._pause_s = pause_s
        self._settings = settings or {}
        self._zone = zone
        self._redact = redact
        self._let_pass = let_pass
        folder = ledgers.home.run / "notes"
        self._channels = {
            name: _Channel(name=name, adapter=each, notes=_SentNotes(folder / f"{quote(name, safe='')}.json"))
            for name, each in adapters.items()
        }
        self._watch: Watch | None = None
        self.changed: Callable[[str, Status], None] = lambda name, status: None
        """Called when a channel's status has changed."""

    def __contains__(self, name: object) -> bool:
        return name in self._channels

    def statuses(self) -> dict[str, Status]:
        """How each channel is doing."""
        return {channel.name: channel.status for channel in self._channels.values()}

    async def start(self) -> None:
        """Run every channel that isn't paused, from now on."""
        if self._channels:
            ledgers = (self._ledgers.events, self._ledgers.runtime)
            logs = [ledger.path.with_name(f"{ledger.path.name}-wal") for ledger in ledgers]
            self._watch = Watch(logs, self._look_again, pause_s=_WRITTEN_S)
        for channel in self._channels.values():
            channel.task = asyncio.create_task(self._keep_running(channel), name=f"channel {channel.name}")

    async def stop(self) -> None:
        """End every adapter. What waits is sent when the home is served again."""
        if self._watch is not None:
            self._watch.close()
        tasks = [channel.task for channel in self._channels.values() if channel.task is not None]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        for channel in self._channels.values():
            await self._set_status(channel, "stopped")

    def wake(self, name: str) -> None:
        """Something was recorded that is to be sent."""
        if name in self._channels:
            self._channels[name].has_more.set()

    def _look_again(self) -> None:
        """Some process wrote: a delivery, an accepted message or a pause."""
        for channel in self._channels.values():
            for event in (channel.has_more, channel.has_received, channel.has_changed):
                event.set()

    async def receive(self, name: str, message: Message) -> None:
        """Take a message in, set it aside, or wait until the home can do one of them."""
        failures = 0
        while True:
            try:
                await self._take_in(name, message)
            except self._retryable as error:
                failures += 1
                _log.warning("a message waits to be taken in: %s", error, extra={"channel": name})
                await asyncio.sleep(next_pause_s(failures, self._pause_s, _LONGEST_PAUSE_S))
            else:
                return

    async def accept(self, name: str, message: Message) -> None:
        """Keep a message, to be taken in when it is its turn; set it aside if it is none."""
        try:
            message.validate()
        except MessageError:
            await self.receive(name, message)
            return
        await self._ledgers.runtime.write(
            ledger.keep_received,
            channel=name,
            external_id=message.id,
            sender=message.sender,
            body=message.body(),
        )
        self._channels[name].has_received.set()

    async def retry(self, id_: str) -> bool:
        """Take in a message that was set aside. It is set aside again if that fails."""
        found = await self._ledgers.runtime.read(ledger.list_set_aside, limit=10_000)
        kept = next((each for each in found if each.id == id_), None)
        if kept is None:
            return False
        body: dict[str, Any] = {**kept.body, "files": ()}
        await self._receive(kept.channel, Message(**body).validate())
        return await self._ledgers.runtime.write(ledger.take, id_=id_)

    async def set_aside(self, name: str, body: Mapping[str, Any], reason: str) -> None:
        """Keep what is no message, for somebody to look at."""
        await self._ledgers.runtime.write(
            ledger.set_aside,
            channel=name,
            external_id=str(body.get("id") or ids.new("msg"))[:MAX_ID_BYTES],
            sender=str(body.get("sender") or "")[:MAX_ID_BYTES],
            body=_cut_texts(dict(body)),
            reason=reason,
        )

    async def _take_in(self, name: str, message: Message) -> None:
        try:
            progress = await self._receive(name, message.validate())
            if progress is not None:
                self._show_work(self._channels[name], message, progress)
        except AccessError:
            pass  # It is on record as denied, and whoever sent it was told.
        except self._retryable:
            raise
        except Exception as error:
            _log.warning("a message was set aside: %s", error, exc_info=not isinstance(error, NexusError))
            await self._ledgers.runtime.write(
                _set_aside,
                name=name,
                message=message,
                reason=self._redact(_describe_error(error)),
                is_whole=not isinstance(error, MessageError),
            )
        await self._ledgers.runtime.write(_note_taken_in, name=name, external_id=message.id)

    async def _take_in_received(self, channel: _Channel) -> None:
        """Take in what was accepted: of each thread in order, and a few threads side by side."""
        while True:
            channel.has_received.clear()
            waiting = await self._ledgers.runtime.read(
                ledger.list_received, channel=channel.name, limit=_TAKEN_TOGETHER
            )
            threads: dict[str, list[Message]] = {}
            for found in waiting:
                body: dict[str, Any] = {**found, "files": ()}
                message = Message(**body)
                threads.setdefault(message.thread, []).append(message)
            await asyncio.gather(*(self._take_in_order(channel.name, each) for each in threads.values()))
            if not waiting:
                await channel.has_received.wait()

    async def _take_in_order(self, name: str, messages: list[Message]) -> None:
        for message in messages:
            await self.receive(name, message)

    def _show_work(self, channel: _Channel, message: Message, progress: Progress) -> None:
        """Let people see that they will be answered, where the channel has a way to."""
        shown = channel.adapter.capabilities & {"typing", "reactions"}
        if shown and isinstance(channel.adapter, ShowsWork):
            note = _ProgressNote(channel.adapter, message, channel.notes)
            work = _show_until_done(channel, message, progress, note, again="typing" in shown)
            task = asyncio.create_task(work)
            channel.showing.add(task)
            task.add_done_callback(channel.showing.discard)

    async def _keep_running(self, channel: _Channel) -> None:
        """Run an adapter for as long as the home is served, with longer and longer pauses when it fails."""
        failures = 0
        while True:
            if await self._is_paused(channel):
                await self._set_status(channel, "paused")
                await self._until_resumed(channel)
            await self._set_status(channel, "starting")
            reason = await self._run(channel)
            if reason is None:
                continue
            if channel.is_connected.is_set():
                failures = 0
                channel.is_connected.clear()
            failures += 1
            pause_s = next_pause_s(failures, self._pause_s, _LONGEST_PAUSE_S)
            _log.warning(
                "Reconnecting to %s in %.0f s: %s",
                channel.name,
                pause_s,
                reason,
                extra={"channel": channel.name},
            )
            await self._set_status(channel, "waiting", self._redact(reason))
            await asyncio.sleep(pause_s)

    async def _run(self, channel: _Channel) -> str | None:
        """Run an adapter until it ends or is paused; why it ended, unless it was paused."""
        inbox = _Inbox(self, channel)
        tasks = [
            asyncio.create_task(channel.adapter.run(inbox), name=f"adapter {channel.name}"),
            asyncio.create_task(self._send_due(channel), name=f"deliveries {channel.name}"),
            asyncio.create_task(self._until_paused(channel), name=f"pause {channel.name}"),
            asyncio.create_task(self._take_in_received(channel), name=f"received {channel.name}"),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, *channel.showing):
                task.cancel()
            await asyncio.gather(*tasks, *channel.showing, return_exceptions=True)
        if tasks[2] in done and tasks[2].exception() is None:
            channel.is_connected.clear()
            return None
        for task in done:
            if (error := task.exception()) is not None:
                return _describe_error(error)
        return "its adapter ended"

    async def _send_due(self, channel: _Channel) -> None:
        """Send what waits, of each thread in order, while the adapter is connected."""
        await channel.is_connected.wait()
        await _remove_left_notes(channel)
        while True:
            channel.has_more.clear()
            await self._queue_recorded(channel.name)
            is_quiet = await self._is_quiet(channel.name)
            due = await self._ledgers.runtime.read(
                ledger.list_due, channel=channel.name, now=self._now(), longest=_LONGEST_DELAY, quiet=is_quiet
            )
            await asyncio.gather(*(self._deliver(channel, each) for each in due))
            if not due:
                await self._wait_for_more(channel, is_quiet=is_quiet)

    async def _queue_recorded(self, name: str) -> None:
        """Put what was recorded since the last time into the queue: it follows the events."""
        after = await self._ledgers.runtime.read(ledger.queued_seq, name=name)
        if after is None:
            after = await self._ledgers.events.read(events.last_seq)
            await self._ledgers.runtime.write(ledger.queue, name=name, outgoing=(), seq=after)
        outgoing, until = await self._ledgers.events.read(events.list_outgoing, channel=name, after=after)
        if outgoing or until - after > _SEEN_EVENTS:
            await self._ledgers.runtime.write(ledger.queue, name=name, outgoing=outgoing, seq=until)

    async def _is_quiet(self, name: str) -> bool:
        if name not in self._settings:
            return False
        state = await self._ledgers.runtime.read(ledger.state, name=name)
        chosen = kinds.apply_state(self._settings[name], state)
        hours = when.parse_hours(chosen.quiet_hours, chosen.zone or self._zone)
        return hours is not None and hours.hold(self._now())

    async def _wait_for_more(self, channel: _Channel, *, is_quiet: bool) -> None:
        next_at = await self._ledgers.runtime.read(ledger.next_at, channel=channel.name, quiet=is_quiet)
        wait_s = _LOOK_S
        if next_at is not None:
            wait_s = min(wait_s, max(0.01, (next_at - self._now()).total_seconds()))
        await wait_at_most(channel.has_more.wait(), wait_s)

    async def _deliver(self, channel: _Channel, waiting: ledger.Delivery) -> None:
        if self._let_pass is not None:
            await self._let_pass()
        delivery, attached, replaced = await self._ledgers.events.read(
            _load_delivery, event_id=waiting.event_id
        )
        if delivery is None:
            await self._ledgers.runtime.write(
                ledger.record_failed,
                event_id=waiting.event_id,
                error="the message was forgotten",
                next_at=None,
            )
            return
        edits = None
        if replaced is not None and "edits" in channel.adapter.capabilities:
            edits = await self._ledgers.runtime.read(ledger.find_sent_id, event_id=replaced)
        try:
            files = await asyncio.to_thread(self._load_files, attached)
            async with asyncio.timeout(_DELIVERY_TIMEOUT_S):
                external_id = await channel.adapter.deliver(replace(delivery, files=files, edits=edits))
        except Exception as error:
            _log.warning(
                "a message was not sent: %s", _describe_error(error), extra={"channel": channel.name}
            )
            final = isinstance(error, DeliveryError) and error.final
            await self._schedule_retry(waiting, self._redact(_describe_error(error)), final=final)
        else:
            await self._ledgers.runtime.write(
                ledger.record_sent, event_id=waiting.event_id, external_id=external_id
            )

    def _load_files(self, attached: Iterable[Attachment]) -> tuple[File, ...]:
        """What leaves with a message, without what was forgotten meanwhile."""
        read = [(each, attachments.read(self._ledgers.home, each)) for each in attached]
        return tuple(
            File(name=each.name, media_type=each.media_type, data=data)
            for each, data in read
            if data is not None
        )

    async def _schedule_retry(self, waiting: ledger.Delivery, error: str, *, final: bool) -> None:
        pause_s = next_pause_s(waiting.attempts + 2, self._pause_s, _LONGEST_DELAY.total_seconds())
        is_last = final or waiting.attempts + 1 >= _DELIVERY_ATTEMPTS
        at = None if is_last else self._now() + timedelta(seconds=pause_s)
        await self._ledgers.runtime.write(
            ledger.record_failed, event_id=waiting.event_id, error=error, next_at=at
        )

    async def _is_paused(self, channel: _Channel) -> bool:
        channel.has_changed.clear()
        return (await self._ledgers.runtime.read(ledger.state, name=channel.name)).paused

    async def _until_paused(self, channel: _Channel) -> None:
        while not await self._is_paused(channel):
            await channel.has_changed.wait()

    async def _until_resumed(self, channel: _Channel) -> None:
        while await self._is_paused(channel):
            await channel.has_changed.wait()

    async def _set_status(self, channel: _Channel, status: Status, reason: str | None = None) -> None:
        channel.status = status
        self.changed(channel.name, status)
        try:
            await self._ledgers.runtime.write(
                ledger.note_status, name=channel.name, status=status, reason=reason
            )
        except LedgerError as error:
            # A full disk must not end the channel: the next change is noted.
            _log.warning("it was not noted that it is %s: %s", status, error, extra={"channel": channel.name})

    async def note_connected(self, channel: _Channel) -> None:
        """An adapter reached its service."""
        if not channel.is_connected.is_set():
            await self._set_status(channel, "connected")
            channel.is_connected.set()

    async def knows(self, name: str, sender: str) -> bool:
        """Whether a sender is the owner or was let in."""
        return self._knows is not None and await self._knows(name, sender)

    async def cursor(self, name: str) -> Any:
        """How far a channel was read."""
        return await self._ledgers.runtime.read(ledger.cursor, name=name)

    async def keep_cursor(self, name: str, cursor: Any) -> None:
        """Remember how far a channel was read."""
        await self._ledgers.runtime.write(ledger.keep_cursor, name=name, cursor=cursor)


class _Inbox:
    """One channel's way in."""

    def __init__(self, channels: Channels, channel: _Channel) -> None:
        self._channels = channels
        self._channel = channel

    async def receive(self, message: Message) -> None:
        await self._channels.receive(self._channel.name, message)

    async def accept(self, message: Message) -> None:
        await self._channels.accept(self._channel.name, message)

    async def set_aside(self, body: Mapping[str, Any], reason: str) -> None:
        await self._channels.set_aside(self._channel.name, body, reason)

    async def knows(self, sender: str) -> bool:
        return await self._channels.knows(self._channel.name, sender)

    async def connected(self) -> None:
        await self._channels.note_connected(self._channel)

    async def cursor(self) -> Any:
        return await self._channels.cursor(self._channel.name)

    async def keep_cursor(self, cursor: Any) -> None:
        await self._channels.keep_cursor(self._channel.name, cursor)


def _note_taken_in(connection: apsw.Connection, name: str, external_id: str) -> None:
    ledger.note_message(connection, name)
    ledger.end_received(connection, name, external_id)


def _set_aside(
    connection: apsw.Connection, name: str, message: Message, reason: str, *, is_whole: bool
) -> None:
    body = message.body()
    ledger.set_aside(
        connection,
        channel=name,
        external_id=message.id[:MAX_ID_BYTES],
        sender=message.sender[:MAX_ID_BYTES],
        body=body if is_whole else _cut_texts(body),
        reason=reason,
    )


def _cut_texts(body: dict[str, Any]) -> dict[str, Any]:
    """What is too large to be a message is not kept whole either."""
    return {name: value[:4_000] if isinstance(value, str) else value for name, value in body.items()}


async def _remove_left_notes(channel: _Channel) -> None:
    """Remove the notes and marks of a process that died, or of a connection that was lost."""
    for sent, thread in [*channel.notes.threads.items()]:
        if sent.startswith(_MARKED):
            if isinstance(channel.adapter, ShowsWork):
                await _attempt(channel.adapter.show_work(thread, sent.removeprefix(_MARKED), ended=True))
        elif isinstance(channel.adapter, Removes):
            await _attempt(channel.adapter.remove(thread, sent))
        channel.notes.discard(sent)


async def _attempt(work: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(_DELIVERY_TIMEOUT_S):
            await work
    except Exception as error:  # Whatever a service has against it.
        _log.info("work on a message can't be shown: %s", _describe_error(error))


async def _show_until_done(
    channel: _Channel, message: Message, progress: Progress, note: "_ProgressNote", *, again: bool
) -> None:
    """Show that a message is worked on, while it is. If that fails, the answer comes all the same.

    `again`: the sign goes by itself, unless it is shown again. Otherwise it is a mark that stays.
    """
    id_ = message.edits or message.id

    async def show(*, ended: bool) -> None:
        assert isinstance(channel.adapter, ShowsWork)  # noqa: S101 - an invariant, for the reader and the type checker
        await _attempt(channel.adapter.show_work(message.thread, id_, ended=ended))

    if not again:
        channel.notes.add(f"{_MARKED}{id_}", message.thread)
    await show(ended=False)
    # A ledger that can't be read has said so elsewhere.
    with suppress(NexusError):
        for _ in range(_SHOWN_TIMES):
            await asyncio.sleep(_SHOWN_S)
            if (doing := await progress()) is None:
                break
            if again:
                await show(ended=False)
            await _attempt(note.update(doing))
    await _attempt(note.remove())
    await show(ended=True)
    channel.notes.discard(f"{_MARKED}{id_}")


class _ProgressNote:
    """What is being done for somebody who has waited long, as a message that goes when the work has ended.

    Only where the service lets it be changed and removed, and not where others read along.
    """

    def __init__(self, adapter: object, message: Message, notes: _SentNotes) -> None:
        self._adapter = adapter
        self._notes = notes
        self._message = message
        self._next_at = time.monotonic() + _NOTE_AFTER_S
        self._sent: str | None = None

    async def update(self, doing: str) -> None:
        if not doing or not isinstance(self._adapter, Removes) or self._message.is_group:
            return
        if (now := time.monotonic()) < self._next_at:
            return
        self._next_at = now + _NOTE_EVERY_S
        note = Delivery(
            key=f"progress:{self._message.id}:{now:.0f}",
            thread=self._message.thread,
            text=f"{doing[0].upper()}{doing[1:]}…",
            edits=self._sent,
        )
        self._sent = await self._adapter.deliver(note) or self._sent
        if self._sent is not None:
            self._notes.add(self._sent, self._message.thread)

    async def remove(self) -> None:
        if self._sent is not None and isinstance(self._adapter, Removes):
            await self._adapter.remove(self._message.thread, self._sent)
            self._notes.discard(self._sent)


def _load_delivery(
    connection: apsw.Connection, event_id: str
) -> tuple[Delivery | None, tuple[Attachment, ...], str | None]:
    """A message to send, its files, and the event of an earlier answer that it can take the place of."""
    event = events.get(connection, event_id)
    if event is None or event.thread_id is None:
        return None, (), None
    thread, title = events.thread_name(connection, event.thread_id)
    asked = None if event.reply_to_event_id is None else events.get(connection, event.reply_to_event_id)
    delivery = Delivery(
        key=event_id,
        thread=thread or "",
        title=title,
        text=event.content,
        reply_to=None if asked is None or asked.metadata.get("scheduled") else _name_in_channel(asked),
        to=None if asked is None else asked.sender,
    )
    attached = events.attachments_of(connection, event_id)
    replaced = None if asked is None or attached else _find_replaced(connection, asked, event)
    return delivery, attached, replaced


def _name_in_channel(asked: events.Event) -> str | None:
    """What the channel calls a message; one that was edited is still called as it was."""
    return asked.metadata.get("edits") or asked.external_id


def _find_replaced(connection: apsw.Connection, asked: events.Event, answer: events.Event) -> str | None:
    """The earlier answer to a message that was edited, if both answers are short."""
    run = asked.metadata.get("replaces")
    old = (
        None
        if run is None
        else events.find_by_external_id(connection, channel=answer.channel, external_id=run)
    )
    if old is None or max(len(old.content), len(answer.content)) > _EDITABLE_CHARACTERS:
        return None
    return None if events.attachments_of(connection, old.id) else old.id


def _describe_error(error: BaseException) -> str:
    """An error in one line: a service's own words may be long."""
    text = str(error) or type(error).__name__
    if isinstance(error, NexusError) and error.hint:
        text = f"{error.message.rstrip('.')}. {error.hint}"
    return join_lines(text)[:500]
