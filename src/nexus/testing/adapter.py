"""A test kit for adapters of channels: an inbox that keeps what it is given, and checks of the contract.

Subclass `AdapterContract` in a test file, tell it how to reach your service, and pytest runs the checks:

    class TestPigeon(AdapterContract):
        def adapter(self):
            return Pigeon(url=self.loft.url)

        async def write(self, text):
            return await self.loft.release(text)

        async def sent(self):
            return self.loft.arrived

The checks are coroutines: run them with pytest-asyncio (`asyncio_mode = "auto"`).
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, ClassVar, Final, get_args

from nexus.channels.adapter import Adapter, Capability, Delivery, File, Message, ShowsWork

PATIENCE_S: Final = 60.0
"""How long a service may take on a loaded machine."""


class RecordingInbox:
    """An inbox that keeps messages, what was set aside, and the cursor."""

    def __init__(self, *known: str) -> None:
        self.known = set(known)
        """Senders that were let in."""
        self.messages: list[Message] = []
        self.put_aside: list[str] = []
        """Why something was set aside."""
        self.kept: Any = None
        """The cursor."""
        self.ready = asyncio.Event()
        self.noted = 0
        """How many messages had come when the cursor was last kept."""
        self.loses_cursor = False
        """After the next message, fail instead of keeping the cursor, as if the program ended just then."""
        self._is_ended = False

    async def receive(self, message: Message) -> None:
        self.messages.append(message.validate())
        self._is_ended = self.loses_cursor

    async def accept(self, message: Message) -> None:
        await self.receive(message)

    async def set_aside(self, body: Mapping[str, Any], reason: str) -> None:
        self.put_aside.append(reason)

    async def knows(self, sender: str) -> bool:
        return sender in self.known

    async def connected(self) -> None:
        self.ready.set()

    async def cursor(self) -> Any:
        return self.kept

    async def keep_cursor(self, cursor: Any) -> None:
        if self._is_ended and self.loses_cursor:
            raise ConnectionError("ended before it was kept")
        self.kept, self.noted = cursor, len(self.messages)

    def texts(self) -> list[str]:
        """What was said, in order."""
        return [message.text for message in self.messages]


@asynccontextmanager
async def running(adapter: Adapter, inbox: RecordingInbox) -> AsyncGenerator[None]:
    """Run an adapter, connected, while the context lasts."""
    inbox.ready.clear()
    task = asyncio.create_task(adapter.run(inbox))
    ready = asyncio.create_task(inbox.ready.wait())
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
    ready.cancel()
    try:
        if task.done():
            await task
        if not inbox.ready.is_set():
            raise TimeoutError("The adapter didn't connect")
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE_S)


async def until(done: Callable[[], Any | Awaitable[Any]]) -> None:
    """Wait for a condition, which may be a coroutine."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = done()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.02)


class AdapterContract:
    """Checks that every adapter passes. Say in a subclass how to reach the service."""

    repeats_deliveries: ClassVar[bool] = True
    """Whether a delivery that is asked for twice may arrive twice. Set to False if the service takes keys."""
    known: ClassVar[tuple[str, ...]] = ()
    """Senders whom the adapter should find among those that were let in."""

    def adapter(self) -> Adapter:
        """Make an adapter for the service."""
        raise NotImplementedError

    async def write(self, text: str) -> None:
        """Let somebody write to the agent, always in the same conversation."""
        raise NotImplementedError

    async def sent(self) -> list[str]:
        """Return the texts that arrived at the service from the adapter."""
        raise NotImplementedError

    async def sent_files(self) -> list[bytes]:
        """Return the files that arrived. Needed if the adapter is capable of attachments."""
        raise NotImplementedError

    def inbox(self) -> RecordingInbox:
        return RecordingInbox(*self.known)

    async def test_capabilities_are_known(self) -> None:
        assert self.adapter().capabilities <= set(get_args(Capability))  # noqa: S101 - a test

    async def test_messages_come_once_and_in_order_across_restarts(self) -> None:
        inbox = self.inbox()
        async with running(self.adapter(), inbox):
            await self.write("one")
            await until(lambda: "one" in inbox.texts())
            await self.write("two")
            await until(lambda: "two" in inbox.texts())
            await until(lambda: inbox.kept is None or inbox.noted == len(inbox.messages))
        await self.write("three")
        async with running(self.adapter(), inbox):
            await until(lambda: "three" in inbox.texts())
        assert inbox.texts() == ["one", "two", "three"]  # noqa: S101 - a test
        assert len({message.id for message in inbox.messages}) == 3  # noqa: S101 - a test
        assert len({message.thread for message in inbox.messages}) == 1  # noqa: S101 - a test

    async def test_what_was_not_noted_as_read_comes_again_with_the_same_id(self) -> None:
        inbox = self.inbox()
        async with running(self.adapter(), inbox):
            await self.write("first")
            await until(lambda: "first" in inbox.texts())
            await until(lambda: inbox.kept is None or inbox.noted == len(inbox.messages))
        inbox.loses_cursor = True
        await self.write("again")
        with suppress(ConnectionError):
            async with running(self.adapter(), inbox):
                await until(lambda: "again" in inbox.texts())
        inbox.loses_cursor = False
        async with running(self.adapter(), inbox):
            await until(lambda: inbox.texts().count("again") == 2)
        found = [message for message in inbox.messages if message.text == "again"]
        assert found[0] == found[1]  # noqa: S101 - a test

    async def test_an_answer_reaches_the_conversation(self) -> None:
        inbox, adapter = self.inbox(), self.adapter()
        async with running(adapter, inbox):
            await self.write("question")
            await until(lambda: "question" in inbox.texts())
            delivery = self._answer(inbox)
            first = await adapter.deliver(delivery)
            await until(self._has_answer)
            again = await adapter.deliver(delivery)
            last = replace(delivery, key="evt_kit_2", text="last answer")
            await adapter.deliver(last)
            await until(lambda: self._has("last answer"))
            if not self.repeats_deliveries:
                arrived = [text for text in await self.sent() if "an answer" in text]
                assert (first, len(arrived)) == (again, 1)  # noqa: S101 - a test

    async def test_files_leave_with_an_answer(self) -> None:
        inbox, adapter = self.inbox(), self.adapter()
        if "attachments" not in adapter.capabilities:
            return
        file = File(name="note.txt", media_type="text/plain", data=b"a file of the kit")
        async with running(adapter, inbox):
            await self.write("send me a file")
            await until(lambda: inbox.messages)
            await adapter.deliver(replace(self._answer(inbox), key="evt_kit_3", files=(file,)))
            await until(self._has_file)

    async def test_work_on_a_message_is_shown(self) -> None:
        inbox, adapter = self.inbox(), self.adapter()
        if not adapter.capabilities & {"typing", "reactions"}:
            return
        assert isinstance(adapter, ShowsWork)  # noqa: S101 - a test
        async with running(adapter, inbox):
            await self.write("are you there?")
            await until(lambda: inbox.messages)
            asked = inbox.messages[-1]
            for ended in (False, True):
                await adapter.show_work(asked.thread, asked.id, ended=ended)

    async def test_an_answer_is_changed(self) -> None:
        inbox, adapter = self.inbox(), self.adapter()
        if "edits" not in adapter.capabilities:
            return
        async with running(adapter, inbox):
            await self.write("question")
            await until(lambda: inbox.messages)
            first = await adapter.deliver(self._answer(inbox))
            await until(self._has_answer)
            changed = replace(self._answer(inbox), key="evt_kit_4", text="Another one", edits=first)
            assert await adapter.deliver(changed) == first  # noqa: S101 - a test
            await until(lambda: self._has("Another one"))

    async def _has_answer(self) -> bool:
        return await self._has("an answer")

    async def _has(self, text: str) -> bool:
        return any(text in each for each in await self.sent())

    async def _has_file(self) -> bool:
        return any(data.strip() == b"a file of the kit" for data in await self.sent_files())

    def _answer(self, inbox: RecordingInbox) -> Delivery:
        asked = inbox.messages[-1]
        return Delivery(
            key="evt_kit_1",
            thread=asked.thread,
            text="This is an answer",
            reply_to=asked.id,
            to=asked.sender,
            title=asked.title,
        )
