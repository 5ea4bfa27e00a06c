"""Channels are kept running, and what waits for them is sent once, in order."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from new_homes import new_home
from nexus.channels import Delivery, DeliveryError, Inbox, Message, supervisor
from nexus.channels.adapter import Capability
from nexus.channels.supervisor import Channels
from nexus.config import ChannelConfig, LedgersConfig
from nexus.errors import AccessError, LedgerFullError
from nexus.ledgers import Ledgers, events
from nexus.ledgers.events import NewEvent
from nexus.ledgers.runtime import channels as ledger

_NAME = "post"
_HELLO = Message(id="1", thread="t", sender="hana", text="Hello")


class _Adapter:
    """Connects, hands over what it is given, and sends as it is told."""

    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, *messages: Message, fail: Callable[[Delivery], None] = lambda _: None) -> None:
        self.messages = messages
        self.fail = fail
        self.sent: list[Delivery] = []
        self.starts = 0
        self.broken = 0

    async def run(self, inbox: Inbox) -> None:
        self.starts += 1
        if self.broken:
            self.broken -= 1
            raise ConnectionError("the service is away")
        await inbox.connected()
        for message in self.messages:
            await inbox.receive(message)
        await inbox.keep_cursor({"read": len(self.messages)})
        await asyncio.Event().wait()

    async def deliver(self, delivery: Delivery) -> str | None:
        self.fail(delivery)
        self.sent.append(delivery)
        return f"out-{len(self.sent)}"


@pytest.fixture
async def ledgers(tmp_path: Path) -> AsyncIterator[Ledgers]:
    home = new_home(tmp_path / "home")
    async with Ledgers(home, LedgersConfig()) as opened:
        yield opened


@asynccontextmanager
async def _running(ledgers: Ledgers, adapter: _Adapter, receive: Any = None) -> AsyncGenerator[Channels]:
    async def nothing(name: str, message: Message) -> None: ...

    channels = Channels(ledgers, {_NAME: adapter}, receive or nothing, pause_s=0.01)
    await channels.start()
    try:
        yield channels
    finally:
        await channels.stop()


async def _until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not done():
            await asyncio.sleep(0.01)


async def _status(ledgers: Ledgers) -> ledger.ChannelState:
    return await ledgers.runtime.read(ledger.state, name=_NAME)


async def _say(
    ledgers: Ledgers,
    text: str,
    thread: str = "t",
    *,
    request_id: str | None = "req_1",
    reply_to: str | None = None,
) -> None:
    def record(connection: Any) -> None:
        thread_id = events.ensure_thread(connection, channel=_NAME, external_id=thread)
        events.append(
            connection,
            [
                NewEvent(
                    channel=_NAME,
                    content=text,
                    direction="outbound",
                    thread_id=thread_id,
                    request_id=request_id,
                    reply_to_event_id=reply_to,
                )
            ],
        )

    await ledgers.events.write(record)


async def _connected(ledgers: Ledgers) -> None:
    async with asyncio.timeout(60):
        while (await _status(ledgers)).status != "connected":
            await asyncio.sleep(0.01)
        while await ledgers.runtime.read(ledger.queued_seq, name=_NAME) is None:
            await asyncio.sleep(0.01)


async def test_what_comes_in_is_handed_over_and_the_cursor_kept(ledgers: Ledgers) -> None:
    heard: list[tuple[str, Message]] = []

    async def receive(name: str, message: Message) -> None:
        heard.append((name, message))

    async with _running(ledgers, _Adapter(_HELLO), receive) as channels:
        await _until(lambda: heard)
        await _connected(ledgers)
        async with asyncio.timeout(60):
            while await channels.cursor(_NAME) is None:
                await asyncio.sleep(0.01)
        assert await channels.cursor(_NAME) == {"read": 1}
    assert heard == [(_NAME, _HELLO)]
    assert (await _status(ledgers)).status == "stopped"


async def test_an_adapter_that_fails_is_started_again(ledgers: Ledgers) -> None:
    adapter = _Adapter()
    adapter.broken = 3
    async with _running(ledgers, adapter):
        await _connected(ledgers)
        assert adapter.starts == 4
        assert (await _status(ledgers)).restarts == 0


async def test_messages_of_a_thread_leave_in_order_and_others_do_not_wait(ledgers: Ledgers) -> None:
    def fail(delivery: Delivery) -> None:
        # Until the other one was sent, and at least once.
        others = [each for each in adapter.sent if each.text == "other"]
        if delivery.text == "one" and not (failed and others):
            failed.append(delivery)
            raise DeliveryError("busy")

    failed: list[Delivery] = []
    adapter = _Adapter(fail=fail)
    async with _running(ledgers, adapter) as channels:
        await _connected(ledgers)
        for text, thread in [("one", "t"), ("two", "t"), ("other", "u")]:
            await _say(ledgers, text, thread)
        channels.wake(_NAME)
        await _until(lambda: len(adapter.sent) == 3)
    texts = [each.text for each in adapter.sent]
    assert texts.index("one") < texts.index("two")
    assert texts[0] == "other"
    assert failed[0].key == next(each.key for each in adapter.sent if each.text == "one")


async def test_what_was_recorded_while_nobody_served_is_sent_once(ledgers: Ledgers) -> None:
    first = _Adapter()
    async with _running(ledgers, first):
        await _connected(ledgers)
    await _say(ledgers, "later")
    await _say(ledgers, "imported", request_id=None)
    for adapter in (second := _Adapter(), third := _Adapter()):
        async with _running(ledgers, adapter):
            await _connected(ledgers)
            async with asyncio.timeout(60):
                while (await ledgers.runtime.read(ledger.counts, name=_NAME)).waiting or not second.sent:
                    await asyncio.sleep(0.01)
    assert [each.text for each in second.sent] == ["later"]
    assert first.sent == third.sent == []


async def test_what_cannot_be_sent_fails_visibly_and_can_be_retried(ledgers: Ledgers) -> None:
    def fail(delivery: Delivery) -> None:
        if refusing:
            raise DeliveryError("no such address", final=True)

    refusing = [True]
    adapter = _Adapter(fail=fail)
    async with _running(ledgers, adapter) as channels:
        await _connected(ledgers)
        await _say(ledgers, "Hello")
        channels.wake(_NAME)
        async with asyncio.timeout(60):
            while (await ledgers.runtime.read(ledger.counts, name=_NAME)).failed != 1:
                await asyncio.sleep(0.01)
        [failed] = await ledgers.runtime.read(ledger.deliveries, channel=_NAME, status="failed")
        assert failed.error == "no such address"
        refusing.clear()
        assert await ledgers.runtime.write(ledger.retry, channel=_NAME) == 1
        channels.wake(_NAME)
        await _until(lambda: adapter.sent)


async def test_what_was_recorded_before_the_clock_was_set_back_is_sent(ledgers: Ledgers) -> None:
    async with _running(ledgers, _Adapter()):
        await _connected(ledgers)
    await _say(ledgers, "Hello")
    outgoing, seq = await ledgers.events.read(events.list_outgoing, channel=_NAME, after=0)
    await ledgers.runtime.write(ledger.queue, name=_NAME, outgoing=outgoing, seq=seq)
    await ledgers.runtime.write(
        lambda connection: connection.execute("UPDATE deliveries SET next_at = '2126-01-01T00:00:00.000Z'")
    )
    adapter = _Adapter()
    async with _running(ledgers, adapter):
        await _until(lambda: adapter.sent)


async def test_a_poisonous_message_is_set_aside_and_can_be_retried(ledgers: Ledgers) -> None:
    heard: list[str] = []

    async def receive(name: str, message: Message) -> None:
        if message.id == "bad" and not heard:
            raise ValueError("it cannot be read")
        heard.append(message.id)

    bad = Message(id="bad", thread="t", sender="hana", text="Hello")
    empty = Message(id="empty", thread="t", sender="hana", text=" ")
    async with _running(ledgers, _Adapter(bad, empty, _HELLO), receive) as channels:
        await _until(lambda: heard)
        assert heard == ["1"]
        kept = await ledgers.runtime.read(ledger.list_set_aside)
        assert [(each.external_id, each.reason) for each in kept] == [
            ("bad", "it cannot be read"),
            ("empty", "The message is empty"),
        ]
        assert await channels.retry(kept[0].id)
        assert heard == ["1", "bad"]
    assert [each.external_id for each in await ledgers.runtime.read(ledger.list_set_aside)] == ["empty"]


class _Hasty(_Adapter):
    """Hands messages over to be taken in later."""

    is_done = False

    async def run(self, inbox: Inbox) -> None:
        await inbox.connected()
        for message in self.messages:
            await inbox.accept(message)
        self.is_done = True
        await asyncio.Event().wait()


def _said(number: int, thread: str = "t") -> Message:
    return Message(id=str(number), thread=thread, sender="hana", text=f"Hello {number}")


async def test_accepted_messages_are_taken_in_once_in_the_order_of_their_threads(
    ledgers: Ledgers,
) -> None:
    heard: list[tuple[str, int]] = []

    async def receive(name: str, message: Message) -> None:
        await asyncio.sleep(0 if int(message.id) % 3 else 0.001)
        heard.append((message.thread, int(message.id)))

    said = [_said(number, thread=f"t{number % 4}") for number in range(60)]
    async with _running(ledgers, _Hasty(*said), receive):
        await _until(lambda: len(heard) >= 60)
        async with asyncio.timeout(60):
            while await ledgers.runtime.read(ledger.list_received, channel=_NAME, limit=1):
                await asyncio.sleep(0.01)
    assert sorted(heard) == sorted((f"t{number % 4}", number) for number in range(60))
    for thread in {thread for thread, _ in heard}:
        own = [number for each, number in heard if each == thread]
        assert own == sorted(own)


async def test_accepted_messages_wait_in_the_ledger_and_survive_a_restart(ledgers: Ledgers) -> None:
    begun: list[str] = []

    async def never(name: str, message: Message) -> None:
        begun.append(message.id)
        await asyncio.Event().wait()

    said = [_said(number) for number in range(100)]
    adapter = _Hasty(*said)
    async with _running(ledgers, adapter, never):
        await _until(lambda: adapter.is_done)
        # They were all accepted, and one of their thread is being taken in.
        await _until(lambda: begun)
    assert begun == ["0"]
    assert await ledgers.runtime.read(ledger.list_set_aside) == []
    heard: list[str] = []

    async def receive(name: str, message: Message) -> None:
        heard.append(message.id)

    async with _running(ledgers, _Adapter(), receive):
        await _until(lambda: len(heard) == 100)
    assert heard == [str(number) for number in range(100)]


async def test_an_accepted_message_that_cannot_be_taken_in_is_set_aside(ledgers: Ledgers) -> None:
    async def receive(name: str, message: Message) -> None:
        raise ValueError("it cannot be read")

    empty = Message(id="empty", thread="t", sender="hana", text=" ")
    async with _running(ledgers, _Hasty(_HELLO, empty), receive):
        async with asyncio.timeout(60):
            while len(await ledgers.runtime.read(ledger.list_set_aside)) < 2:
                await asyncio.sleep(0.01)
    kept = await ledgers.runtime.read(ledger.list_set_aside)
    assert {each.external_id: each.reason for each in kept} == {
        "1": "it cannot be read",
        "empty": "The message is empty",
    }
    assert await ledgers.runtime.read(ledger.list_received, channel=_NAME, limit=1) == []


async def test_a_message_waits_while_the_disk_is_full_and_is_no_poison(ledgers: Ledgers) -> None:
    tried: list[str] = []

    async def receive(name: str, message: Message) -> None:
        tried.append(message.id)
        if len(tried) < 3:
            raise LedgerFullError("The disk is full")

    async with _running(ledgers, _Adapter(_HELLO), receive):
        await _until(lambda: len(tried) == 3)
    assert await ledgers.runtime.read(ledger.list_set_aside) == []


async def test_a_channel_goes_on_though_nothing_can_be_noted_for_a_while(tmp_path: Path) -> None:
    adapter = _Adapter()
    ledgers = Ledgers(new_home(tmp_path / "home"), LedgersConfig(busy_timeout_ms=10))
    async with ledgers, _running(ledgers, adapter) as channels:
        await _connected(ledgers)
        with closing(apsw.Connection(str(ledgers.runtime.path))) as other:
            other.execute("BEGIN IMMEDIATE")
            # What waits can't be put into the queue, and the adapter is started again.
            await _say(ledgers, "Hello")
            channels.wake(_NAME)
            await _until(lambda: adapter.starts > 1)
        await _until(lambda: adapter.sent)


async def test_a_denied_message_is_settled(ledgers: Ledgers) -> None:
    async def receive(name: str, message: Message) -> None:
        raise AccessError("an unknown sender")

    async with _running(ledgers, _Adapter(_HELLO), receive) as channels:
        async with asyncio.timeout(60):
            while await channels.cursor(_NAME) is None:
                await asyncio.sleep(0.01)
    assert await ledgers.runtime.read(ledger.list_set_aside) == []


async def test_a_paused_channel_rests(ledgers: Ledgers) -> None:
    await ledgers.runtime.write(ledger.pause, name=_NAME, paused=True)
    adapter = _Adapter()
    async with _running(ledgers, adapter):
        async with asyncio.timeout(60):
            while (await _status(ledgers)).status != "paused":
                await asyncio.sleep(0.01)
        assert adapter.starts == 0
        await ledgers.runtime.write(ledger.pause, name=_NAME, paused=False)
        await _connected(ledgers)


async def test_in_quiet_hours_only_answers_are_sent_and_the_rest_when_they_end(ledgers: Ledgers) -> None:
    adapter = _Adapter()
    at = [datetime(2026, 11, 16, 22, 30, tzinfo=UTC)]
    settings = {_NAME: ChannelConfig(quiet_hours="22:00-07:00", zone="Europe/London")}

    async def nothing(name: str, message: Message) -> None: ...

    def channels() -> Channels:
        return Channels(
            ledgers, {_NAME: adapter}, nothing, pause_s=0.01, settings=settings, now=lambda: at[0]
        )

    running = channels()
    await running.start()
    await _connected(ledgers)
    asked = await _ask(ledgers, "What is the time?")
    await _say(ledgers, "A reminder")
    await _say(ledgers, "It is late", reply_to=asked)
    await _say(ledgers, "A worker found this", reply_to=asked)
    running.wake(_NAME)
    await _until(lambda: adapter.sent)
    await _waiting(ledgers, 2)
    await running.stop()
    assert [each.text for each in adapter.sent] == ["It is late"], "an answer doesn't wait behind a reminder"
    # Restarted, with the clock set back by three days: it is quiet hours still, and no longer than these.
    at[0] = datetime(2026, 11, 14, 6, 59, tzinfo=UTC)
    running = channels()
    await running.start()
    await _connected(ledgers)
    await _say(ledgers, "Another answer", "other", reply_to=await _ask(ledgers, "And now?", "other"))
    running.wake(_NAME)
    await _until(lambda: len(adapter.sent) == 2)
    await _waiting(ledgers, 2)
    at[0] = datetime(2026, 11, 14, 7, 0, tzinfo=UTC)
    running.wake(_NAME)
    await _until(lambda: len(adapter.sent) == 4)
    await running.stop()
    texts = [each.text for each in adapter.sent]
    assert texts == ["It is late", "Another answer", "A reminder", "A worker found this"]


async def test_quiet_hours_that_are_turned_off_release_what_waits(ledgers: Ledgers) -> None:
    adapter = _Adapter()
    settings = {_NAME: ChannelConfig(quiet_hours="00:00-23:59", zone="UTC")}

    async def nothing(name: str, message: Message) -> None: ...

    noon = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
    running = Channels(ledgers, {_NAME: adapter}, nothing, pause_s=0.01, settings=settings, now=lambda: noon)
    await running.start()
    await _connected(ledgers)
    await _say(ledgers, "A reminder")
    await _say(ledgers, "Hello", "other", reply_to=await _ask(ledgers, "Hi", "other"))
    running.wake(_NAME)
    await _until(lambda: adapter.sent)
    assert [each.text for each in adapter.sent] == ["Hello"]
    await ledgers.runtime.write(ledger.set_, name=_NAME, answer=None, quiet_hours="", zone=None)
    running.wake(_NAME)
    await _until(lambda: len(adapter.sent) == 2)
    await running.stop()


async def _waiting(ledgers: Ledgers, number: int) -> None:
    async with asyncio.timeout(60):
        while (await ledgers.runtime.read(ledger.counts, name=_NAME)).waiting != number:
            await asyncio.sleep(0.01)


async def _ask(ledgers: Ledgers, text: str, thread: str = "t") -> str:
    def record(connection: Any) -> str:
        thread_id = events.ensure_thread(connection, channel=_NAME, external_id=thread)
        (id_,) = events.append(connection, [NewEvent(channel=_NAME, content=text, thread_id=thread_id)])
        return id_

    return await ledgers.events.write(record)


class _Typing(_Adapter):
    """Shows that a message is worked on."""

    capabilities: frozenset[Capability] = frozenset({"typing"})

    def __init__(self, *messages: Message, broken: bool = False) -> None:
        super().__init__(*messages)
        self.shown: list[tuple[str, str, bool]] = []
        self.is_refused = broken

    async def show_work(self, thread: str, message_id: str, *, ended: bool) -> None:
        self.shown.append((thread, message_id, ended))
        if self.is_refused:
            raise ConnectionError("not now")


@pytest.mark.parametrize("broken", [False, True])
async def test_work_on_a_message_is_shown_until_it_ends(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch, *, broken: bool
) -> None:
    monkeypatch.setattr(supervisor, "_SHOWN_S", 0.01)
    adapter, is_working = _Typing(_HELLO, broken=broken), True

    async def working() -> str | None:
        return "" if is_working else None

    async def receive(name: str, message: Message) -> Any:
        return working

    async with _running(ledgers, adapter, receive):
        await _until(lambda: len(adapter.shown) >= 3)
        is_working = False
        await _until(lambda: adapter.shown[-1] == ("t", "1", True))
        assert set(adapter.shown[:-1]) == {("t", "1", False)}


class _Noting(_Typing):
    """Shows what is done, too."""

    def __init__(self, *messages: Message) -> None:
        super().__init__(*messages)
        self.notes: list[tuple[str, str | None]] = []
        self.removed: list[tuple[str, str]] = []

    async def deliver(self, delivery: Delivery) -> str | None:
        self.notes.append((delivery.text, delivery.edits))
        return "note"

    async def remove(self, thread: str, sent: str) -> None:
        self.removed.append((thread, sent))


@pytest.mark.parametrize("is_group", [False, True])
async def test_who_waits_long_is_told_what_is_done_and_the_note_goes_with_the_answer(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch, *, is_group: bool
) -> None:
    for name in ("_SHOWN_S", "_NOTE_AFTER_S", "_NOTE_EVERY_S"):
        monkeypatch.setattr(supervisor, name, 0.01)
    adapter = _Noting(replace(_HELLO, is_group=is_group))
    waits = ["waiting for the model (memory writer, 12 s)", "reading 1,100 tokens"]

    async def progress() -> str | None:
        return waits.pop(0) if waits else None

    async def receive(name: str, message: Message) -> Any:
        return progress

    async with _running(ledgers, adapter, receive):
        await _until(lambda: adapter.shown and adapter.shown[-1] == ("t", "1", True))
    notes = [("Waiting for the model (memory writer, 12 s)…", None), ("Reading 1,100 tokens…", "note")]
    assert adapter.notes == ([] if is_group else notes)
    assert adapter.removed == ([] if is_group else [("t", "note")])


async def test_a_note_that_a_dead_process_left_is_removed_by_the_next_one(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_SHOWN_S", "_NOTE_AFTER_S", "_NOTE_EVERY_S"):
        monkeypatch.setattr(supervisor, name, 0.01)
    first, second, third = _Noting(_HELLO), _Noting(), _Noting()

    async def working() -> str | None:
        return "reading 1,100 tokens"

    async def receive(name: str, message: Message) -> Any:
        return working

    async with _running(ledgers, first, receive):
        await _until(lambda: len(first.notes) > 1)
    assert first.removed == []
    async with _running(ledgers, second):
        await _until(lambda: second.removed)
    async with _running(ledgers, third):
        await _connected(ledgers)
    assert (second.removed, third.removed) == ([("t", "note")], [])


class _Marking(_Typing):
    """Marks a message that is worked on; the mark stays until it is taken off."""

    capabilities: frozenset[Capability] = frozenset({"reactions"})


async def test_a_mark_that_a_dead_process_left_is_taken_off_by_the_next_one(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_SHOWN_S", 0.01)
    first, second, third = _Marking(_HELLO), _Marking(), _Marking()

    async def working() -> str | None:
        return "reading 1,100 tokens"

    async def receive(name: str, message: Message) -> Any:
        return working

    async with _running(ledgers, first, receive):
        await _until(lambda: first.shown)
    assert first.shown == [("t", "1", False)]
    async with _running(ledgers, second):
        await _until(lambda: second.shown)
    async with _running(ledgers, third):
        await _connected(ledgers)
    assert (second.shown, third.shown) == ([("t", "1", True)], [])


async def test_what_takes_too_long_is_no_longer_shown(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_SHOWN_S", 0.01)
    monkeypatch.setattr(supervisor, "_SHOWN_TIMES", 3)
    adapter = _Typing(_HELLO)

    async def working() -> str | None:
        return ""

    async def receive(name: str, message: Message) -> Any:
        return working

    async with _running(ledgers, adapter, receive):
        await _until(lambda: adapter.shown and adapter.shown[-1] == ("t", "1", True))
    assert len(adapter.shown) == 5
