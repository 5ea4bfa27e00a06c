"""What a backfill would read, in which order, and what that would take: counted and estimated beforehand."""

import asyncio
import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from nexus.ledgers import sql
from nexus.ledgers.memory import backfills
from nexus.memory import grouping
from nexus.roles.backfill.reading import Reader, past
from nexus.roles.memory_writer import extraction, names, transcript
from nexus.roles.memory_writer.extractor import ROLE
from nexus.runs import Totals

if TYPE_CHECKING:
    import apsw

    from nexus.ledgers import Ledgers
    from nexus.ledgers.memory.backfills import Limits, Sort
    from nexus.roles.backfill.reading import Past
    from nexus.roles.services import Services

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


async def unread(ledgers: "Ledgers", import_id: str | None) -> list[Chosen]:
    """The episodes of an import, or of all, that the writer has not read. Makes those that are missing."""
    await grouping.group_events(ledgers)
    starts: dict[str, str] = {}
    counts: Counter[str] = Counter()
    own: Counter[str] = Counter()
    after = 0
    while True:
        page = await ledgers.events.read(_imported, import_id=import_id, after=after)
        if not page:
            break
        after, owners = page[-1][0], {id_ for _, id_, is_own in page if is_own}
        unread = await ledgers.memory.read(backfills.list_unread, event_ids=[id_ for _, id_, _ in page])
        for episode_id, event_id, start, _ in unread:
            starts[episode_id] = start
            counts[episode_id] += 1
            own[episode_id] += event_id in owners
    return [Chosen(id=id_, start=at, events=counts[id_], own=own[id_]) for id_, at in starts.items()]


def ordered(chosen: Sequence[Chosen], sort: "Sort") -> list[Chosen]:
    """The episodes in the order in which they are read. Most relevant is where the owner says most."""
    newest = sorted(chosen, key=lambda each: (each.start, each.id), reverse=True)
    if sort == "relevant":
        return sorted(newest, key=lambda each: -each.own)
    return newest if sort == "newest" else newest[::-1]


def sampled(chosen: Sequence[Chosen], count: int) -> list[Chosen]:
    """Some of the episodes, at random but always the same ones as long as nothing else is read."""
    shuffled = sorted(chosen, key=lambda each: random.Random(each.id).random())  # noqa: S311 - no secret
    return shuffled[:count]


async def estimated(
    parts: "Services", chosen: Sequence[Chosen], limits: "Limits", reader: Reader | None = None
) -> Estimate:
    """What reading these episodes will take. No model is called."""
    reader = reader or await Reader.of(parts)
    prepared = [
        await _prepared(reader, episode)
        for each in sampled(chosen, _PREPARED)
        if (episode := await past(parts.ledgers, each.id)) is not None
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


async def _prepared(reader: Reader, episode: "Past") -> _Call:
    """The prompts of an episode, made as if they were to be sent."""
    extractor, _ = reader.extractor(episode)
    chunks, _, due = await extractor.chunks()
    if not chunks:
        return _Call(episode_id=episode.episode_id)
    said = await asyncio.to_thread(names.found, "\n".join(each.text for each in due))
    shown = await extractor.known(said, {})
    per_token = reader.model.bytes_per_token or _BYTES_PER_TOKEN
    prompt = cached = output = 0.0
    for number, chunk in enumerate(chunks, start=1):
        task = transcript.task(chunk, shown)
        assembled = await extractor.assembled(f"estimate:{number}", task)
        schema = json.dumps(extraction.schema(with_notes=False))
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


def parallel(reader: Reader) -> int:
    """How many episodes are read at the same time."""
    return max(1, min(PARALLEL, reader.model.slots or PARALLEL))


def _seconds(reader: Reader, limits: "Limits", episodes: int, fresh: float, output: float) -> int | None:
    model, paced = reader.model, 0.0
    if limits.episodes_an_hour:
        paced = episodes / limits.episodes_an_hour * 3600
    if not model.prompt_tokens_per_s or not model.output_tokens_per_s:
        return math.ceil(paced) or None
    asking = fresh / model.prompt_tokens_per_s + output / model.output_tokens_per_s
    return math.ceil(max(paced, asking / parallel(reader)))


def _imported(
    connection: "apsw.Connection", *, import_id: str | None, after: int
) -> list[tuple[int, str, int]]:
    values = {"import": import_id, "after": after, "limit": _EVENTS_A_READ}
    rows = connection.execute(sql.queries("events")["imported_after"], values).fetchall()
    return cast("list[tuple[int, str, int]]", rows)
