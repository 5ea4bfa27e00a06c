"""Read one episode of the past: what people said in it goes through the memory writer's structured mode.

The runs of an episode have ids that follow from the episode's. So a process that is killed after the model
has answered finds the answer again, and what a sample has asked is not paid for a second time.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from nexus import clock, ids
from nexus.automations.workspace import Workspace
from nexus.automations.workspace.workspace import bootstrap
from nexus.errors import NexusError
from nexus.ledgers import events, sql
from nexus.ledgers.identity.senders import Sender
from nexus.ledgers.memory import backfills, processing
from nexus.ledgers.memory.backfills import Outcome
from nexus.ledgers.runtime import requests, usage
from nexus.memory.merging import root
from nexus.memory.writing import Provenance
from nexus.request import Agent, Event, Request
from nexus.roles import runs
from nexus.roles.instructions import role_text
from nexus.roles.memory_writer import NAME, PEER, known, names, time_limit
from nexus.roles.memory_writer.evidence import Evidence, Heard
from nexus.roles.memory_writer.extractor import ROLE, Extractor
from nexus.roles.memory_writer.gate import Gate
from nexus.roles.memory_writer.turns import Message
from nexus.runs import Totals

if TYPE_CHECKING:
    import apsw

    from nexus.context import AssembledContext
    from nexus.ledgers import Ledgers
    from nexus.ledgers.runtime.models import Capabilities
    from nexus.roles.services import Services

MOST_CALLS: Final = 40
"""Of one episode. A document as long as a book is read as far as that."""
_TIMEOUT_MS: Final = 180_000
_LONGEST_TEXT: Final = 200_000


Write = Callable[[list[dict[str, Any]]], Awaitable[object]]


class FailedError(NexusError):
    """A call gave no answer."""

    def __init__(self, failed: runs.Failed) -> None:
        super().__init__(failed.reason)
        self.failed = failed


@dataclass(frozen=True, kw_only=True)
class Past:
    """An episode as the writer reads it."""

    episode_id: str
    thread_id: str | None
    channel: str
    event_ids: tuple[str, ...]
    """All of its events."""
    heard: tuple[Heard, ...]
    """What people said in it, the oldest first."""
    due: tuple[Heard, ...]
    """What of that the writer has not read yet."""

    @property
    def messages(self) -> list[Message]:
        return [each.message for each in self.heard if each.message is not None]

    @property
    def due_messages(self) -> list[Message]:
        return [each.message for each in self.due if each.message is not None]

    async def names(self) -> list[str]:
        """The names that are said in what the writer has not read yet."""
        return await asyncio.to_thread(names.found, "\n".join(each.text for each in self.due))

    @property
    def request_id(self) -> str:
        """Of the request that pays for it, which follows from the episode."""
        return _request_id(self.episode_id)


async def past(ledgers: "Ledgers", episode_id: str) -> Past | None:
    """An episode with what was said in it; None where it was forgotten."""
    event_ids = await ledgers.memory.read(backfills.events_of, episode_id=episode_id)
    found = await ledgers.events.read(_events, event_ids=event_ids)
    if not found:
        return None
    said_by = await ledgers.events.read(_said_by, event_ids=event_ids)
    senders, called = await ledgers.identity.read(_senders, entity_ids=sorted(set(said_by.values())))
    known_ = await ledgers.memory.read(
        processing.find_settled, processor=NAME, target_type="event", target_ids=event_ids
    )
    heard: list[Heard] = []
    before = ""
    for event in found:
        if event.direction == "outbound":
            before = event.content
        sender = senders.get(said_by.get(event.id, ""))
        # Newsletters and bots have no entity: nobody says what they say.
        if event.direction == "inbound" and sender is not None and event.content.strip():
            message, name = Message(event=event, sender=sender), called.get(sender.entity_id, "")
            heard += Heard.of(message, event.content[:_LONGEST_TEXT], answers=before, name=name)
    return Past(
        episode_id=episode_id,
        thread_id=found[0].thread_id,
        channel=found[0].channel,
        event_ids=tuple(event.id for event in found),
        heard=tuple(heard),
        due=tuple(each for each in heard if each.source and each.source.event.id not in known_),
    )


@dataclass
class Reader:
    """The memory writer, reading episodes of one home."""

    parts: "Services"
    model: "Capabilities"
    """What is known of the writer's."""
    workspace: Workspace
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    async def of(cls, parts: "Services") -> "Reader":
        """A reader with the instructions that the owner may have edited."""
        return cls(
            parts,
            await parts.broker.capabilities(ROLE),
            await asyncio.to_thread(_workspace, parts.home.meeseeks),
        )

    def extractor(
        self, episode: Past, attempt: int = 0, write: Write | None = None
    ) -> tuple[Extractor, Gate]:
        """What asks the model about an episode, and the rules for what comes of it."""
        request = _request(episode)
        gate = Gate(
            ledgers=self.parts.ledgers,
            messages=episode.due_messages,
            conversation=episode.messages,
            # Nothing that is remembered was shown, so nothing can be an echo, and what differs from a newer
            # memory must not be taken for what replaces it.
            evidence=Evidence(heard=list(episode.heard), due=list(episode.due)),
            is_owners=all(message.is_owners for message in episode.messages),
            phone_region=self.parts.config.memory.phone_region,
        )

        async def ask(assembled: "AssembledContext", number: int) -> str:
            salt = f"{assembled.session_label}:{attempt}:{number}"
            execution_id = ids.derived("exe", episode.episode_id, salt)
            result = await runs.answered(self.parts, request, assembled, execution_id)
            if isinstance(result, runs.Failed):
                raise FailedError(result)
            return result.response.content

        last = episode.due_messages[-1].event.id if episode.due else None
        extractor = Extractor(
            services=self.parts,
            request=request,
            workspace=self.workspace,
            label=f"backfill:{episode.episode_id}:{attempt}",
            ask=ask,
            gate=gate,
            provenance=Provenance(actor=NAME, kind="writer", request_id=request.request_id, event_id=last),
            time_limit_ms=lambda calls: time_limit.limit_ms(self.model, calls) or _TIMEOUT_MS,
            most_calls=MOST_CALLS,
            # What is known now is mostly newer than what an old conversation says.
            shows_notes=False,
            write=write,
            writing=self._writing,
        )
        return extractor, gate

    async def read(self, episode_id: str) -> Outcome:
        """Write what an episode teaches. A `FailedError` says why no model could be asked."""
        ledgers = self.parts.ledgers
        episode = await past(ledgers, episode_id)
        if episode is None or not episode.due:
            return Outcome(
                episode_id=episode_id,
                status="skipped",
                event_ids=episode.event_ids if episode else (),
                detail="nobody says anything in it" if episode else None,
            )
        attempt = await ledgers.memory.read(backfills.attempts, episode_id=episode_id)
        extractor, gate = self.extractor(episode, attempt)
        status: backfills.EpisodeStatus = "done"
        try:
            told = await extractor.run(await episode.names())
        except FailedError as error:
            await self._end(episode, "failed", error.message)
            if error.failed.kind != "refused" or error.failed.error == "BudgetError":
                await ledgers.memory.write(backfills.log, outcome=_failed(episode, error.message))
                raise
            status, told = "failed", error.message
        else:
            await self._end(episode, "done")
        used = (await self.used([episode_id])).get(episode_id, Totals())
        return Outcome(
            episode_id=episode_id,
            status=status,
            event_ids=episode.event_ids,
            detail=told[:400],
            request_id=episode.request_id if used.calls else None,
            refused=len(gate.refusals),
            input_tokens=used.input_tokens + used.cache_read_tokens + used.cache_write_tokens,
            output_tokens=used.output_tokens,
            cost_microusd=used.cost_microusd,
        )

    async def rehearse(self, episode: Past) -> tuple[list[dict[str, Any]], list[str]]:
        """Ask the model about an episode: what would be written from it, and what would be refused."""
        drafted: list[dict[str, Any]] = []
        attempt = await self.parts.ledgers.memory.read(backfills.attempts, episode_id=episode.episode_id)

        async def keep(operations: list[dict[str, Any]]) -> None:
            drafted.extend(await self.parts.memory.rehearse(operations, extractor.provenance, gate))

        extractor, gate = self.extractor(episode, attempt, keep)
        try:
            await extractor.run(await episode.names())
        except FailedError as error:
            await self._end(episode, "failed", error.message)
            await self.parts.ledgers.memory.write(backfills.log, outcome=_failed(episode, error.message))
            raise
        await self._end(episode, "done")
        return drafted, gate.refusals

    async def used(self, episode_ids: Sequence[str]) -> "dict[str, Totals]":
        """What reading each of some episodes has used so far; without those that used nothing."""
        episode_of = {_request_id(episode_id): episode_id for episode_id in episode_ids}
        found = await self.parts.ledgers.runtime.read(usage.of_roots, root_request_ids=list(episode_of))
        return {episode_of[root_id]: totals for root_id, totals in found.items()}

    async def _end(self, episode: Past, status: Literal["done", "failed"], error: str | None = None) -> None:
        await self.parts.ledgers.runtime.write(
            requests.end, request_id=episode.request_id, status=status, error=error
        )


def _request_id(episode_id: str) -> str:
    return ids.derived("req", episode_id, "backfill")


def _failed(episode: Past, reason: str) -> Outcome:
    return Outcome(episode_id=episode.episode_id, status="failed", detail=reason[:400])


def _request(episode: Past) -> Request:
    last = episode.due_messages[-1].event.id if episode.due else None
    return Request(
        request_id=episode.request_id,
        # With its last message it is forgotten.
        event=Event(content="", id=last, thread_id=episode.thread_id, channel=episode.channel),
        agent=Agent(role=ROLE, session_label=f"meeseeks:{NAME}:backfill:{episode.episode_id}"),
    )


def _workspace(meeseeks: Path) -> Workspace:
    bootstrap(meeseeks / NAME, role_text("nexus.roles.memory_writer"))
    (meeseeks / PEER).mkdir(mode=0o700, exist_ok=True)
    return Workspace.at(meeseeks / NAME, {PEER: meeseeks / PEER})


def _events(connection: "apsw.Connection", event_ids: Sequence[str]) -> list[events.Event]:
    found = [event for id_ in event_ids if (event := events.get(connection, id_)) is not None]
    return sorted(found, key=lambda event: (clock.parse(event.occurred_at), event.seq))


def _said_by(connection: "apsw.Connection", event_ids: Sequence[str]) -> dict[str, str]:
    query = sql.queries("events")["senders_by_entity"]
    rows = connection.execute(query, (json.dumps(list(event_ids)),)).fetchall()
    return dict(cast("list[tuple[str, str]]", rows))


def _senders(
    connection: "apsw.Connection", entity_ids: Sequence[str]
) -> tuple[dict[str, Sender], dict[str, str]]:
    """Who some entities are by now, and what they are called."""
    owner = connection.execute(sql.queries("identity")["owner"]).get
    owner_root = root(connection, cast("str", owner)) if owner else None
    roots = {id_: root(connection, id_) for id_ in entity_ids}
    senders = {
        id_: Sender(entity_id=found, contact_id="", is_owner=found == owner_root)
        for id_, found in roots.items()
    }
    return senders, known.called_by(connection, sorted(set(roots.values())))
