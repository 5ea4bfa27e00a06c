"""Where what automations return goes: a message to a session or a channel, a statement to the memory."""

from dataclasses import dataclass, replace
from typing import Any, Final

import apsw

from nexus.automations.returned import Reply
from nexus.ledgers import events, memory
from nexus.memory.operations import Memory
from nexus.memory.references import find_meant
from nexus.memory.writing import Provenance
from nexus.pipeline.stages import Stages
from nexus.request import Event, Request

CHANNEL: Final = "cli"
SESSION: Final = "main"
"""Where messages go if nothing else is said."""


@dataclass(frozen=True, kw_only=True)
class Destinations:
    """Those of one home."""

    stages: Stages
    memory: Memory

    async def reply(self, request: Request, reply: Reply, message_id: str) -> None:
        """Record a message, once, and hand it to its channel."""
        if reply.session is not None or reply.channel is not None or request.event.channel is None:
            request = replace(request, event=await self._elsewhere(request, reply))
        await self.stages.deliver_response(request, reply.text, message_id)

    async def remember(self, automation: str, request: Request, statement: dict[str, Any]) -> None:
        """Write a statement as the automation's word, linked to the message that it works for."""
        provenance = Provenance(
            actor=automation,
            kind="automation",
            request_id=request.request_id,
            event_id=request.event.id,
        )
        if not await self.stages.ledgers.memory.read(
            memory.is_known,
            request_id=request.request_id,
            since=request.created_at,
            fact=str(statement["fact"]),
        ):
            named = [str(statement[key]) for key in ("about", "target") if statement.get(key)]
            new = await self.stages.ledgers.identity.read(_unknown, names=named)
            made = [{"operation": "entity", "name": name} for name in new]
            await self.memory.run("batch", [*made, {"operation": "fact", **statement}], provenance)

    async def _elsewhere(self, request: Request, reply: Reply) -> Event:
        channel = reply.channel or request.event.channel or CHANNEL
        session = reply.session or SESSION
        thread_id = await self.stages.ledgers.events.write(
            events.ensure_thread, channel=channel, external_id=session
        )
        return Event(content=request.event.content, channel=channel, thread_id=thread_id)


def _unknown(connection: apsw.Connection, names: list[str]) -> list[str]:
    """The names that nobody goes by yet."""
    return [name for name in dict.fromkeys(names) if find_meant(connection, name) is None]
