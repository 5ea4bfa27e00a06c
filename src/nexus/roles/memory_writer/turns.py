"""The turns of a conversation that have not been written to the memory yet, and what was said in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from nexus.ledgers import events, sql
from nexus.ledgers.agents import tool_calls, turns
from nexus.ledgers.identity import senders
from nexus.ledgers.memory import processing
from nexus.ledgers.runtime import requests

if TYPE_CHECKING:
    import apsw

    from nexus.ledgers import Ledgers
    from nexus.ledgers.agents.tool_calls import Given
    from nexus.ledgers.events import Event
    from nexus.ledgers.identity.senders import Sender

PROCESSOR = "memory-writer"
_MOST_RESULTS = 200
# Commands that look into the memory: what they print is remembered, not found out.
_READS_MEMORY = ("memory-search", "cortex-search", "sqlite3")


@dataclass(frozen=True, kw_only=True)
class Message:
    """Something that somebody said, with who that is by the ledgers."""

    event: "Event"
    sender: "Sender | None"

    @property
    def is_owners(self) -> bool:
        return self.sender is not None and self.sender.is_owner


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of an agent."""

    execution_id: str
    request_ids: tuple[str, ...]
    root_request_ids: tuple[str, ...]
    messages: tuple[Message, ...] = ()
    """What people said; nothing in a worker's turn, which was given its task by an agent."""
    answer_ids: tuple[str, ...] = ()
    """The events of what the agent said to people."""


async def due(ledgers: "Ledgers", session_label: str, execution_id: str, *, limit: int) -> list[Turn]:
    """The latest turns of a session, up to that of a run, that were not worked on yet; the oldest first."""
    found = await ledgers.agents.read(
        partial(turns.through, session_label=session_label, execution_id=execution_id, limit=limit)
    )
    settled = await ledgers.memory.read(
        partial(
            processing.settled,
            processor=PROCESSOR,
            target_type="request",
            target_ids=[request_id for _, request_id in found],
        )
    )
    open_: list[Turn] = []
    for run, request_id in found:
        if request_id in settled:
            break
        open_.append(await _turn(ledgers, run))
    return open_[::-1]


async def remembered(ledgers: "Ledgers", found: Sequence[Turn]) -> tuple[list[str], list["Given"]]:
    """What was put into these turns from the memory, and what else tools gave to the agents in them."""
    roots = list(dict.fromkeys(root for turn in found for root in turn.root_request_ids))
    enriched = await ledgers.runtime.read(partial(requests.enriched, root_request_ids=roots))
    given = await ledgers.agents.read(
        partial(tool_calls.results, request_ids=list(enriched), limit=_MOST_RESULTS)
    )
    injected = [str(added["memories"]) for added in enriched.values() if added.get("memories")]
    recalled = [each.result for each in given if _is_memory(each)]
    # What workers say is made of what they were given, memories among it.
    others = [each for each in given if not _is_memory(each) and each.tool != "agent_send"]
    return [*injected, *recalled], others


async def asked_by(ledgers: "Ledgers", found: Sequence[Turn]) -> list[str]:
    """What people said at the root of these turns."""
    said = [message.event.content for turn in found for message in turn.messages]
    if said:
        return said
    roots = list(dict.fromkeys(root for turn in found for root in turn.root_request_ids))
    for root in roots:
        stored = await ledgers.runtime.read(partial(requests.get, request_id=root))
        event_id = stored and stored.event_id
        event = event_id and await ledgers.events.read(partial(events.get, event_id=event_id))
        said += [event.content] if event else []
    return said


async def mark(
    ledgers: "Ledgers",
    found: Sequence[Turn],
    status: processing.Status,
    *,
    detail: str | None,
    request_id: str,
) -> None:
    """Record what came of working on these turns and on the events in them."""
    targets = [("request", id_) for turn in found for id_ in turn.request_ids]
    targets += [("event", message.event.id) for turn in found for message in turn.messages]
    targets += [("event", id_) for turn in found for id_ in turn.answer_ids]
    marks = [
        processing.Mark(target_type=kind, target_id=id_, status=status, detail=detail, request_id=request_id)
        for kind, id_ in dict.fromkeys(targets)
    ]
    await ledgers.memory.write(partial(processing.mark, processor=PROCESSOR, marks=marks))


async def _turn(ledgers: "Ledgers", execution_id: str) -> Turn:
    answered = await ledgers.runtime.read(partial(requests.of_run, execution_id=execution_id))
    messages: list[Message] = []
    for request in answered:
        event = request.event_id and await ledgers.events.read(partial(events.get, event_id=request.event_id))
        if event:
            messages.append(Message(event=event, sender=await _sender(ledgers, event)))
    channel = messages[0].event.channel if messages else None
    return Turn(
        execution_id=execution_id,
        request_ids=tuple(request.id for request in answered),
        root_request_ids=tuple(dict.fromkeys(request.root_request_id for request in answered)),
        messages=tuple(messages),
        answer_ids=await _answers(ledgers, channel, execution_id) if channel else (),
    )


async def _sender(ledgers: "Ledgers", event: "Event") -> "Sender | None":
    find = partial(senders.find, channel=event.channel, identifier=event.sender or "")
    return await ledgers.identity.read(find)


async def _answers(ledgers: "Ledgers", channel: str, execution_id: str) -> tuple[str, ...]:
    """The answer of a run carries its id."""

    def read(connection: "apsw.Connection") -> object:
        return connection.execute(sql.queries("events")["recorded"], (channel, execution_id)).get

    found = await ledgers.events.read(read)
    return (str(found),) if found else ()


def _is_memory(given: "Given") -> bool:
    reads = given.tool == "bash" and any(word in given.arguments for word in _READS_MEMORY)
    return reads or given.tool == "recall"
