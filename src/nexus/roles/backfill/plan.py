"""What a backfill would read, in which order, and what that would take: counted and estimated beforehand."""

import asyncio
import json
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from nexus import clock, ids
from nexus.automations.workspace import Workspace, bootstrap
from nexus.errors import NexusError
from nexus.ledgers import events, sql
from nexus.ledgers.identity.senders import Sender
from nexus.ledgers.memory import backfills, processing
from nexus.ledgers.memory.backfills import Outcome
from nexus.ledgers.runtime import requests, usage
from nexus.memory import grouping
from nexus.memory.merging import root
from nexus.memory.writing import Provenance
from nexus.request import Agent, Event, Request
from nexus.roles import runs
from nexus.roles.memory_writer import NAME, PEER, extraction, names
from nexus.roles.memory_writer.evidence import Evidence, Heard
from nexus.roles.memory_writer.extractor import ROLE, Extractor, estimate_limit_ms
from nexus.roles.memory_writer.gate import Gate
from nexus.roles.memory_writer.turns import Message
from nexus.roles.services import role_text
from nexus.runs import Totals

if TYPE_CHECKING:
    import apsw

    from nexus.context import AssembledContext
    from nexus.ledgers import Ledgers
    from nexus.ledgers.memory.backfills import Limits, Sort
    from nexus.ledgers.runtime.models import Capabilities
    from nexus.roles.services import Services

MOST_CALLS: Final = 40
"""Of one episode. A document as long as a book is read as far as that."""
_TIMEOUT_MS: Final = 180_000
_LONGEST_TEXT: Final = 200_000


Write = Callable[[list[dict[str, Any]]], Awaitable[object]]


class FailedError(NexusError):
    """A call gave no answer."""

    def __init__(self, failed: runs.FailedRun) -> None:
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
        """Find the names that are said in what the writer has not read yet."""
        return await asyncio.to_thread(names.find_names, "\n".join(each.text for each in self.due))

    @property
    def request_id(self) -> str:
        """Of the request that pays for it, which follows from the episode."""
        return _derive_request_id(self.episode_id)


async def load_past(ledgers: "Ledgers", episode_id: str) -> Past | None:
    """Load an episode with what was said in it; None if it was forgotten."""
    event_ids = await ledgers.memory.read(backfills.events_of, episode_id=episode_id)
    found = await ledgers.events.read(_load_events, event_ids=event_ids)
    if not found:
        return None
    said_by = await ledgers.events.read(_load_senders_by_entity, event_ids=event_ids)
    senders, called = await ledgers.identity.read(_load_senders, entity_ids=sorted(set(said_by.values())))
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
        """Open a reader with the instructions that the owner may have edited."""
        return cls(
            parts,
            await parts.broker.capabilities(ROLE),
            await asyncio.to_thread(_open_workspace, parts.home.meeseeks),
        )

    def make_extractor(
        self, episode: Past, attempt: int = 0, write: Write | None = None
    ) -> tuple[Extractor, Gate]:
        """Make what asks the model about an episode, and the rules for what it answers."""
        request = _make_request(episode)
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
            result = await runs.run_once(self.parts, request, assembled, execution_id)
            if isinstance(result, runs.FailedRun):
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
            time_limit_ms=lambda calls: estimate_limit_ms(self.model, calls) or _TIMEOUT_MS,
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
        episode = await load_past(ledgers, episode_id)
        if episode is None or not episode.due:
            return Outcome(
                episode_id=episode_id,
                status="skipped",
                event_ids=episode.event_ids if episode else (),
                detail="nobody says anything in it" if episode else None,
            )
        attempt = await ledgers.memory.read(backfills.attempts, episode_id=episode_id)
        extractor, gate = self.make_extractor(episode, attempt)
        status: backfills.EpisodeStatus = "done"
        try:
            told = await extractor.run(await episode.names())
        except FailedError as error:
            await self._end(episode, "failed", error.message)
            if error.failed.kind != "refused" or error.failed.error == "BudgetError":
                await ledgers.memory.write(backfills.log, outcome=_make_failure(episode, error.message))
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

        extractor, gate = self.make_extractor(episode, attempt, keep)
        try:
            await extractor.run(await episode.names())
        except FailedError as error:
            await self._end(episode, "failed", error.message)
            await self.parts.ledgers.memory.write(
                backfills.log, outcome=_make_failure(episode, error.message)
            )
            raise
        await self._end(episode, "done")
        return drafted, gate.refusals

    async def used(self, episode_ids: Sequence[str]) -> "dict[str, Totals]":
        """Sum what reading each of some episodes has used so far; without those that used nothing."""
        episode_of = {_derive_request_id(episode_id): episode_id for episode_id in episode_ids}
        found = await self.parts.ledgers.runtime.read(usage.of_roots, root_request_ids=list(episode_of))
        return {episode_of[root_id]: totals for root_id, totals in found.items()}

    async def _end(self, episode: Past, status: Literal["done", "failed"], error: str | None = None) -> None:
        await self.parts.ledgers.runtime.write(
            requests.end, request_id=episode.request_id, status=status, error=error
        )


def _derive_request_id(episode_id: str) -> str:
    return ids.derived("req", episode_id, "backfill")


def _make_failure(episode: Past, reason: str) -> Outcome:
    return Outcome(episode_id=episode.episode_id, status="failed", detail=reason[:400])


def _make_request(episode: Past) -> Request:
    last = episode.due_messages[-1].event.id if episode.due else None
    return Request(
        request_id=episode.request_id,
        # With its last message it is forgotten.
        event=Event(content="", id=last, thread_id=episode.thread_id, channel=episode.channel),
        agent=Agent(role=ROLE, session_label=f"meeseeks:{NAME}:backfill:{episode.episode_id}"),
    )


def _open_workspace(meeseeks: Path) -> Workspace:
    bootstrap(meeseeks / NAME, role_text("nexus.roles.memory_writer"))
    (meeseeks / PEER).mkdir(mode=0o700, exist_ok=True)
    return Workspace.at(meeseeks / NAME, {PEER: meeseeks / PEER})


def _load_events(connection: "apsw.Connection", event_ids: Sequence[str]) -> list[events.Event]:
    found = [event for id_ in event_ids if (event := events.get(connection, id_)) is not None]
    return sorted(found, key=lambda event: (clock.parse(event.occurred_at), event.seq))


def _load_senders_by_entity(connection: "apsw.Connection", event_ids: Sequence[str]) -> dict[str, str]:
    query = sql.queries("events")["senders_by_entity"]
    rows = connection.execute(query, (json.dumps(list(event_ids)),)).fetchall()
    return dict(cast("list[tuple[str, str]]", rows))


def _load_senders(
    connection: "apsw.Connection", entity_ids: Sequence[str]
) -> tuple[dict[str, Sender], dict[str, str]]:
    """Load who some entities are by now, and what they are called."""
    owner = connection.execute(sql.queries("identity")["owner"]).get
    owner_root = root(connection, cast("str", owner)) if owner else None
    roots = {id_: root(connection, id_) for id_ in entity_ids}
    senders = {
        id_: Sender(entity_id=found, contact_id="", is_owner=found == owner_root)
        for id_, found in roots.items()
    }
    return senders, names.load_names(connection, sorted(set(roots.values())))


_EVENTS_A_READ: Final = 5_000
# So many episodes, chosen at random, are prepared as if to be read; the rest is taken to be like them.
_PREPARED: Final = 300
SAMPLE: Final = 20
"""How many of these a sample asks the model about."""
_BYTES_PER_TOKEN: Final = 4.0
# What a call answers where nothing was measured: an object with a few facts, more for more messages.
_ANSWER_TOKENS: Final = 90
_ANSWER_SHARE: Final = 0.3
# Providers cache no shorter beginning of a prompt.
_LEAST_CACHED: Final = 1_024
PARALLEL: Final = 4
"""Episodes that are read at the same time, unless the model's server answers fewer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What reading some episodes is expected to take."""

    episodes: int
    messages: int
    calls: int
    input_tokens: int
    """Cached ones among them."""
    cached_tokens: int
    output_tokens: int
    cost_microusd: int | None
    """None where nobody knows the model's price."""
    seconds: int | None
    """None where neither the model's speed nor a pace is known."""
    model: str
    measured: int = 0
    """How many of these episodes the model was asked about already; the rest is projected from them."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "tokens": self.tokens}


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """An unread episode."""

    id: str
    start: str
    events: int
    own: int
    """How many of its messages the owner wrote."""


async def find_unread(ledgers: "Ledgers", import_id: str | None) -> list[Chosen]:
    """Find the episodes that the writer has not read, of an import or of all; makes missing episodes."""
    await grouping.group_events(ledgers)
    starts: dict[str, str] = {}
    counts: Counter[str] = Counter()
    own: Counter[str] = Counter()
    after = 0
    while True:
        page = await ledgers.events.read(_find_imported, import_id=import_id, after=after)
        if not page:
            break
        after, owners = page[-1][0], {id_ for _, id_, is_own in page if is_own}
        unread = await ledgers.memory.read(backfills.list_unread, event_ids=[id_ for _, id_, _ in page])
        for episode_id, event_id, start, _ in unread:
            starts[episode_id] = start
            counts[episode_id] += 1
            own[episode_id] += event_id in owners
    return [Chosen(id=id_, start=at, events=counts[id_], own=own[id_]) for id_, at in starts.items()]


def order_episodes(chosen: Sequence[Chosen], sort: "Sort") -> list[Chosen]:
    """Order the episodes for reading. The most relevant are those in which the owner says most."""
    newest = sorted(chosen, key=lambda each: (each.start, each.id), reverse=True)
    if sort == "relevant":
        return sorted(newest, key=lambda each: -each.own)
    return newest if sort == "newest" else newest[::-1]


def choose_sample(chosen: Sequence[Chosen], count: int) -> list[Chosen]:
    """Choose random episodes, but the same ones as long as nothing else is read."""
    shuffled = sorted(chosen, key=lambda each: random.Random(each.id).random())  # noqa: S311 - no secret
    return shuffled[:count]


async def estimate(
    parts: "Services", chosen: Sequence[Chosen], limits: "Limits", reader: Reader | None = None
) -> Estimate:
    """Estimate what reading these episodes will take, without calling a model."""
    reader = reader or await Reader.of(parts)
    prepared = [
        await _prepare(reader, episode)
        for each in choose_sample(chosen, _PREPARED)
        if (episode := await load_past(parts.ledgers, each.id)) is not None
    ]
    total = _Call.sum(prepared)
    asked = [each for each in prepared if each.calls]
    spent = await reader.used([each.episode_id for each in asked])
    measured = [each for each in asked if each.episode_id in spent and spent[each.episode_id].calls]
    # Most calls find the beginning of their prompt cached. The first ones, which don't, are no measure then.
    warm = [each for each in measured if spent[each.episode_id].cache_read_tokens]
    typical = warm if 2 * len(warm) > len(measured) else measured
    used = sum((spent[each.episode_id] for each in typical), Totals())
    model = next(iter(parts.config.models.writers), "")
    scale = len(chosen) / max(1, len(prepared))
    cost: float | None
    if len(measured) >= min(SAMPLE, len(asked)) // 2 and used.calls:
        beside = _Call.sum(typical)
        # What they really took, for each token that was expected of them.
        share = total.prompt_tokens / max(1, beside.prompt_tokens)
        prompt = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
        calls, prompt_tokens = used.calls * share, prompt * share
        cached, output = used.cache_read_tokens * share, used.output_tokens * share
        cost = None if used.unpriced_calls == used.calls else used.cost_microusd * share
    else:
        measured = []
        calls, prompt_tokens, cached = total.calls, total.prompt_tokens, total.cached_tokens
        output = total.output_tokens
        cost = await parts.broker.cost_microusd(
            ROLE, input_tokens=round(prompt_tokens), cached_tokens=round(cached), output_tokens=round(output)
        )
    return Estimate(
        episodes=len(chosen),
        messages=sum(each.events for each in chosen),
        calls=round(calls * scale),
        input_tokens=round(prompt_tokens * scale),
        cached_tokens=round(cached * scale),
        output_tokens=round(output * scale),
        cost_microusd=None if cost is None else round(cost * scale),
        seconds=_seconds(reader, limits, len(chosen), (prompt_tokens - cached) * scale, output * scale),
        model=model,
        measured=len(measured),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Call:
    """What the calls of an episode are expected to take."""

    episode_id: str = ""
    calls: int = 0
    prompt_tokens: float = 0.0
    cached_tokens: float = 0.0
    output_tokens: float = 0.0

    @classmethod
    def sum(cls, all_: Sequence["_Call"]) -> "_Call":
        return cls(
            calls=sum(each.calls for each in all_),
            prompt_tokens=sum(each.prompt_tokens for each in all_),
            cached_tokens=sum(each.cached_tokens for each in all_),
            output_tokens=sum(each.output_tokens for each in all_),
        )


async def _prepare(reader: Reader, episode: "Past") -> _Call:
    """Make the prompts of an episode as if they were to be sent."""
    extractor, _ = reader.make_extractor(episode)
    chunks, _, due = await extractor.cut_chunks()
    if not chunks:
        return _Call(episode_id=episode.episode_id)
    said = await asyncio.to_thread(names.find_names, "\n".join(each.text for each in due))
    shown = await extractor.describe_known(said, {})
    per_token = reader.model.bytes_per_token or _BYTES_PER_TOKEN
    prompt = cached = output = 0.0
    for number, chunk in enumerate(chunks, start=1):
        task = extraction.write_task(chunk, shown)
        assembled = await extractor.assemble(f"estimate:{number}", task)
        schema = json.dumps(extraction.make_schema(with_notes=False))
        fixed = len((assembled.system_prompt + schema).encode()) / per_token
        prompt += fixed + len(assembled.user_turn().encode()) / per_token
        cached += fixed if fixed >= _LEAST_CACHED else 0
        spoken = sum(len(source.text.encode()) for source in chunk.sources) / per_token
        output += _ANSWER_TOKENS + _ANSWER_SHARE * spoken
    return _Call(
        episode_id=episode.episode_id,
        calls=len(chunks),
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=output,
    )


def count_parallel(reader: Reader) -> int:
    """Count the episodes that are read at the same time."""
    return max(1, min(PARALLEL, reader.model.slots or PARALLEL))


def _seconds(reader: Reader, limits: "Limits", episodes: int, fresh: float, output: float) -> int | None:
    model, paced = reader.model, 0.0
    if limits.episodes_an_hour:
        paced = episodes / limits.episodes_an_hour * 3600
    if not model.prompt_tokens_per_s or not model.output_tokens_per_s:
        return math.ceil(paced) or None
    asking = fresh / model.prompt_tokens_per_s + output / model.output_tokens_per_s
    return math.ceil(max(paced, asking / count_parallel(reader)))


def _find_imported(
    connection: "apsw.Connection", *, import_id: str | None, after: int
) -> list[tuple[int, str, int]]:
    values = {"import": import_id, "after": after, "limit": _EVENTS_A_READ}
    rows = connection.execute(sql.queries("events")["imported_after"], values).fetchall()
    return cast("list[tuple[int, str, int]]", rows)
