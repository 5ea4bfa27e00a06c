"""One of each: an automation, a tool, a channel and the memory, in one package."""

import asyncio
import re
import sys
from uuid import uuid4

from nexus import Adapter, Answer, Context, Memory, automation, channel, tool
from nexus.channels import Capability, Delivery, DeliveryError, Inbox, Message

PHONE = re.compile(r"\+?\d[\d ()-]{6,}\d")


@automation("before:deliverResponse")
async def redact(context: Context) -> Answer | None:
    """Hide phone numbers in answers."""
    return Answer(PHONE.sub("[phone]", context.answer.text))  # or Answer.withhold("why")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@channel("tcp-chat")
class TcpChat(Adapter):
    """A chat of lines on this machine: `nc localhost 7000`."""

    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, port: int = 7000) -> None:
        self._port = port
        self._people: dict[str, asyncio.StreamWriter] = {}

    async def run(self, inbox: Inbox) -> None:
        """Take lines in until this is cancelled."""

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            thread = uuid4().hex
            self._people[thread] = writer
            try:
                while line := await reader.readline():
                    text = line.decode(errors="replace").strip()
                    if text:
                        await inbox.receive(Message(id=uuid4().hex, thread=thread, sender="here", text=text))
            finally:
                del self._people[thread]
                writer.close()

        async with await asyncio.start_server(talk, "127.0.0.1", self._port) as server:
            await inbox.connected()
            await server.serve_forever()

    async def deliver(self, delivery: Delivery) -> str | None:
        """Send an answer to whoever wrote, if they are still there."""
        writer = self._people.get(delivery.thread)
        if writer is None:
            raise DeliveryError("They hung up", final=True)
        writer.write(f"{delivery.text}\n".encode())
        await writer.drain()
        return None


def try_memory(home: str) -> None:
    """Use the memory alone: no agent, no engine, no server."""
    with Memory(home, create=True) as memory:  # AsyncMemory beside it
        made = memory.add("Clara keeps bees", about="Clara", scope="user:7")
        memory.add_messages([{"role": "user", "content": "The key is behind the fuse box"}])
        for hit in memory.search("What does Clara keep?", scope="user:7", limit=3):
            print(hit.text, hit.strength, hit.source)
        memory.correct(made, "Clara sold her bees")
        memory.forget(made)


if __name__ == "__main__":
    try_memory(sys.argv[1])
