"""A home with something in it: a conversation, what was learned from it, and what it cost."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nexus.automations import registration
from nexus.ledgers import Ledgers, events
from nexus.ledgers.agents import messages, turns
from nexus.ledgers.agents.messages import NewMessage
from nexus.ledgers.events import NewEvent
from nexus.ledgers.runtime import requests
from nexus.ledgers.runtime.automations import Automation, NewAutomation
from nexus.memory.operations import Memory
from nexus.memory.writing import Provenance
from nexus.request import Agent, Event, Request
from unit.ledgers.runtime.lineage import ROOT, Lineage

SCRIPT = "def run(ctx):\n    return {}\n"


@dataclass(kw_only=True)
class Scene:
    """Writes into the ledgers of a home."""

    ledgers: Ledgers

    async def lineage(self) -> str:
        """A request with a worker; its id."""
        await self.ledgers.runtime.write(lambda c: Lineage(c).write())
        return ROOT

    async def requests(self, count: int, channel: str = "cli") -> None:
        """Requests of one millisecond after another, the last one the newest."""

        def work(connection: Any) -> None:
            for number in range(count):
                request = Request(
                    request_id=f"req_{channel}_{number:04}",
                    event=Event(content="", channel=channel),
                    agent=Agent(session_label="main"),
                    created_at=f"2026-05-02T10:00:00.{number:03}Z",
                )
                requests.create(connection, request)

        await self.ledgers.runtime.write(work)

    async def say(
        self, *texts: str, thread: str = "main", channel: str = "cli", sender: str = "owner", **of: Any
    ) -> list[str]:
        """Messages into a thread; their ids."""

        def work(connection: Any) -> list[str]:
            thread_id = events.ensure_thread(connection, channel=channel, external_id=thread)
            said = [
                NewEvent(channel=channel, content=text, sender=sender, thread_id=thread_id, **of)
                for text in texts
            ]
            return events.append(connection, said)

        return await self.ledgers.events.write(work)

    async def remember(self, operation: str, *, event_id: str | None = None, **arguments: Any) -> Any:
        """Write to the memory; what is answered."""
        provenance = Provenance(actor="test", kind="owner", event_id=event_id)
        return await Memory(self.ledgers).run(operation, arguments, provenance)

    async def converse(self, *texts: str, label: str = "main") -> None:
        """Turns of a session, each a question and its answer."""

        def work(connection: Any) -> None:
            for number, text in enumerate(texts):
                turn = turns.begin(
                    connection,
                    session_label=label,
                    execution_id=f"exe_{label}_{number}",
                    request_id=f"req_{number}",
                    role="manager",
                )
                said = [
                    NewMessage(role="user", content=text, parts_json=None),
                    NewMessage(role="assistant", content=f"Answer to: {text}", parts_json=None),
                ]
                messages.append(connection, turn, 0, said)
                turns.end(connection, turn.id, "done")

        await self.ledgers.agents.write(work)

    async def automation(self, folder: Path, name: str, source: str = SCRIPT, **settings: Any) -> Automation:
        """A registered script."""
        file = folder / f"{name}.py"
        file.write_text(source)
        home, write = self.ledgers.home, registration.writer(self.ledgers)
        found = await asyncio.to_thread(registration.bring_in, home, name, file)
        new = NewAutomation(name=name, script_path=str(found.path), script_hash=found.hash, **settings)
        registered = await asyncio.to_thread(registration.register, home, write, new)
        return registered.automation
