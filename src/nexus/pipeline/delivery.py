"""What the home says: recorded, once, and handed to its channel; or handed to the memory."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import apsw

from nexus.attachments import Attachment
from nexus.automations.returned import Reply, Returned
from nexus.ledgers import Ledgers, events, memory
from nexus.ledgers.events import NewEvent
from nexus.memory.operations import Memory
from nexus.memory.references import find_meant
from nexus.memory.writing import Provenance
from nexus.request import Event, Request
from nexus.runs import Response

AGENT_SENDER: Final = "nexus"
"""How the home's own agent is named in events."""

WITHHELD: Final = "Sorry, I can't answer this."
"""What others than the owner get in place of an answer that was withheld."""

CHANNEL: Final = "cli"
SESSION: Final = "main"
"""Where messages go if nothing else is said."""


class Delivery:
    """Delivers answers, and what automations send and remember."""

    def __init__(self, ledgers: Ledgers, memory: Memory, wake_channel: Callable[[str], None]) -> None:
        self._ledgers = ledgers
        self._memory = memory
        self._wake_channel = wake_channel

    async def deliver_response(
        self,
        request: Request,
        text: str,
        answer_id: str,
        files: tuple[Attachment, ...] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> events.Event | None:
        """Record a message once, and wake its channel, which sends it. Returns what is on record.

        `answer_id` is its key: after a crash the event is found, not made again. An answer's is its run's id.
        """
        if request.event.channel is None:
            return None
        answer = NewEvent(
            channel=request.event.channel,
            content=text,
            direction="outbound",
            thread_id=request.event.thread_id,
            external_id=answer_id,
            sender=AGENT_SENDER,
            reply_to_event_id=request.event.id,
            request_id=request.request_id,
            metadata=dict(metadata or {}),
        )

        def record(connection: apsw.Connection) -> events.Event | None:
            asked = events.get(connection, request.event.id) if request.event.id else None
            kind = "command" if asked and asked.kind == "command" else "message"
            (event_id,) = events.append(connection, [replace(answer, kind=kind)])
            events.attach(connection, event_id, files)
            return events.get(connection, event_id)

        recorded = await self._ledgers.events.write(record)
        self._wake_channel(request.event.channel)
        return recorded

    async def deliver_answer(
        self,
        request: Request,
        response: Response,
        review: Returned,
        answer_id: str,
        files: tuple[Attachment, ...] = (),
    ) -> Response:
        """Record an answer and deliver it as automations have left it; what was recorded first stands."""
        original = response.content
        if review.withhold is not None:
            is_owner = request.access.level == "owner"
            text = f"This answer was withheld: {review.withhold}" if is_owner else WITHHELD
            response = replace(response, content=text, withheld=review.withhold)
            files = ()
        elif review.answer is not None:
            response = replace(response, content=review.answer)
        response = replace(response, changed_by=review.changed_by)
        metadata: dict[str, Any] = {}
        if response.changed_by:
            metadata = {
                "original": original,
                "changed_by": response.changed_by,
                "withheld": response.withheld,
            }
        recorded = await self.deliver_response(request, response.content, answer_id, files, metadata)
        if recorded is None:
            return response
        return replace(
            response,
            content=recorded.content,
            changed_by=recorded.metadata.get("changed_by", ""),
            withheld=recorded.metadata.get("withheld", ""),
        )

    async def reply(self, request: Request, reply: Reply, message_id: str) -> None:
        """Deliver a message of an automation, to the session and channel that it names."""
        if reply.session is not None or reply.channel is not None or request.event.channel is None:
            channel = reply.channel or request.event.channel or CHANNEL
            thread_id = await self._ledgers.events.write(
                events.ensure_thread, channel=channel, external_id=reply.session or SESSION
            )
            event = Event(content=request.event.content, channel=channel, thread_id=thread_id)
            request = replace(request, event=event)
        await self.deliver_response(request, reply.text, message_id)

    async def remember(self, automation: str, request: Request, statement: dict[str, Any]) -> None:
        """Write a statement as the automation's word, linked to the message that it works for."""
        provenance = Provenance(
            actor=automation,
            kind="automation",
            request_id=request.request_id,
            event_id=request.event.id,
        )
        if not await self._ledgers.memory.read(
            memory.is_known,
            request_id=request.request_id,
            since=request.created_at,
            fact=str(statement["fact"]),
        ):
            named = [str(statement[key]) for key in ("about", "target") if statement.get(key)]
            new = await self._ledgers.identity.read(_unknown, names=named)
            made = [{"operation": "entity", "name": name} for name in new]
            await self._memory.run("batch", [*made, {"operation": "fact", **statement}], provenance)


def _unknown(connection: apsw.Connection, names: list[str]) -> list[str]:
    """The names that nobody goes by yet."""
    return [name for name in dict.fromkeys(names) if find_meant(connection, name) is None]
