"""See a change before you make it: which recorded prompts would have been different.

The change is made in a private copy of the ledgers, by the code that makes it for good. Before and after it,
the copy is asked for the memories of every recorded request, by the injection that runs before a prompt, and
both are compared. No model is called, and the home stays byte for byte as it is.
"""

import re
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

import apsw

from nexus import clock
from nexus.broker.agent.prices import estimate_microusd
from nexus.config import Config
from nexus.context import history
from nexus.errors import ModelFileError
from nexus.home import Home
from nexus.ledgers import Ledgers, forgetting, sql
from nexus.ledgers.agents import turns
from nexus.ledgers.agents.history import History, Turn
from nexus.ledgers.forgetting import Target
from nexus.ledgers.memory import find_fact
from nexus.ledgers.memory.reviews import Decision
from nexus.ledgers.runtime import requests
from nexus.ledgers.sql import load_statements
from nexus.memory import succession
from nexus.memory.embedding import Vectors, embed_new, open_vectors
from nexus.memory.operations import Memory
from nexus.memory.profile import OwnerProfile
from nexus.memory.recall.item import KIND_NAMES
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.words import token_count
from nexus.memory.writing import Provenance
from nexus.request import Request, Visibility
from nexus.roles.memory_injection import injection, triage
from nexus.runs import money
from nexus.text import pluralize

SQL: Final = load_statements(Path(__file__).with_name("preview.sql"))

DAYS: Final = 30
_LEAST_MICROUSD: Final = 100
"""Less a day is told in tokens."""
_DEADLINE_MS: Final = 60_000
"""What is found must not depend on what else the machine does."""
_KINDS: Final = frozenset(KIND_NAMES.values())
_ID: Final = re.compile(r", [a-z]+_[0-9A-Za-z_-]+\)$")

OpenVectors = Callable[[Ledgers], Awaitable[Vectors | None]]
"""Opens the vectors of a copy, up to date; None where the memory is searched by words alone."""
Progress = Callable[[int, int], None]
"""Hears how many requests of how many were asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Something that may be done to the memory."""

    make: Callable[[Ledgers], Awaitable[object]]
    find_fact: Callable[[Ledgers], Awaitable[str | None]] | None = None
    """Finds the one fact that it is about, if any: prompts from before that was known stay as they are."""
    config: Config | None = None
    """The settings that apply with it, if they differ."""


def correct(fact_id: str, statement: str, by: Provenance, *, how: str | None = None) -> Change:
    """Replace a fact, as `nexus memory correct` does."""
    return Change(
        make=lambda ledgers: Memory(ledgers).correct(fact_id, statement, by, how=how),
        find_fact=lambda ledgers: ledgers.memory.read(find_fact, fact_id),
    )


def decide(fact_id: str, decision: Decision, by: Provenance) -> Change:
    """Accept, reject or pin a fact, or take that back."""
    return Change(
        make=lambda ledgers: Memory(ledgers).decide(fact_id, decision, by),
        find_fact=lambda ledgers: ledgers.memory.read(find_fact, fact_id),
    )


def operate(operation: str, arguments: Mapping[str, Any], by: Provenance) -> Change:
    """Carry out an operation on the memory, such as a merge."""
    return Change(make=lambda ledgers: Memory(ledgers).run(operation, arguments, by))


def change_settings(config: Config) -> Change:
    """Search with another embedding model."""

    async def make(_: Ledgers) -> None:
        """Nothing is written: the vectors are made when the model is opened."""

    return Change(make=make, config=config)


def forget(resolve: Callable[[apsw.Connection], Target]) -> Change:
    """Delete what `nexus forget` would delete."""

    async def find(ledgers: Ledgers) -> str | None:
        target = await forgetting.find(ledgers, resolve)
        return target.value if target.kind == "fact" else None

    async def make(ledgers: Ledgers) -> None:
        target = await forgetting.find(ledgers, resolve)
        await forgetting.forget(ledgers, target, actor="preview")

    return Change(make=make, find_fact=find)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """What a recorded request was told of the memory and of its session, asked for again."""

    request_id: str
    execution_id: str
    at: str
    text: str
    model: str | None
    memories: tuple[str, ...]
    """The lines that are injected, without their ids, which are new with every correction."""
    seen: str
    """A hash of the session's history."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A prompt that would have been different."""

    request_id: str
    execution_id: str
    at: str
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    kept: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    has_other_history: bool
    """Whether messages before it would be missing or different."""


@dataclass(kw_only=True)
class Preview:
    """What a change would have done to the prompts of some days."""

    days: int
    known_since: str
    """Prompts from before this moment stay as they are."""
    until: str
    prompts: int
    differences: list[Difference] = field(default_factory=list[Difference])
    forgotten: int = 0
    """Requests that would be deleted themselves."""
    profile_before: str = ""
    profile_after: str = ""
    tokens: int = 0
    """How many more tokens all prompts together would have had."""
    cost_microusd: int = 0
    """How much more they would have cost, at the price of fresh input."""
    unpriced_tokens: int = 0
    """Tokens that come or go for models whose price is unknown; the cost leaves them out."""

    @property
    def summary(self) -> str:
        """What it found, in a sentence."""
        days, prompts = f"the last {self.days} days", pluralize(self.prompts, "prompt")
        if not self.prompts:
            return f"Nothing to compare: no prompts in {days}."
        if not self.differences:
            return f"None of {days}' {prompts} would have had other memories."
        cost, tokens = round(self.cost_microusd / self.days), round(self.tokens / self.days)
        end = ""
        if abs(cost) >= _LEAST_MICROUSD and not self.unpriced_tokens:
            end = f", at about {money(abs(cost))} a day {'more' if cost > 0 else 'less'}"
        elif tokens:
            end = f", with about {pluralize(abs(tokens), 'token')} a day {'more' if tokens > 0 else 'less'}"
        alone = sum(not (each.added or each.removed) for each in self.differences)
        history = f" ({alone:,} of them only by the earlier messages in them)" if alone else ""
        return f"{len(self.differences):,} of {days}' {prompts} would have been different{history}{end}."

    def to_json(self) -> dict[str, Any]:
        """Turn it into JSON's types."""
        return {
            **asdict(self),
            "summary": self.summary,
            "different": len(self.differences),
            "tokens_per_day": round(self.tokens / self.days, 1),
            "cost_microusd_per_day": round(self.cost_microusd / self.days, 1),
        }


async def preview(
    copy: Home,
    config: Config,
    change: Change,
    *,
    days: int = DAYS,
    progress: Progress | None = None,
    open_: OpenVectors | None = None,
) -> Preview:
    """Make a change in a copy of a home, and compare the prompts of some days before and after it."""
    now = clock.now()
    since, until = clock.timestamp(now - timedelta(days=days)), clock.timestamp(now)
    async with Ledgers(copy, config.ledgers) as ledgers:
        vectors = await (open_(ledgers) if open_ else _open_vectors(ledgers, config))
        id_ = await change.find_fact(ledgers) if change.find_fact else None
        recorded_at = id_ and await ledgers.memory.read(sql.value, SQL["fact_created_at"], (id_,))
        known_since = max(since, str(recorded_at)) if recorded_at else since
        everything = await ledgers.runtime.read(sql.rows, SQL["prompts"], {"since": since, "until": until})
        bounds = {"since": known_since, "until": until}
        count = len(await ledgers.runtime.read(sql.rows, SQL["prompts"], bounds))

        def report(done: int) -> None:
            if progress is not None:
                progress(done, 2 * count)

        profile_before = await OwnerProfile(ledgers).text()
        before = await Replay(ledgers, vectors, **bounds).run(report)
        await change.make(ledgers)
        if change.config is not None:
            vectors = await (open_(ledgers) if open_ else _open_vectors(ledgers, change.config))
        elif vectors is not None:
            # An open mirror keeps the places of vectors that were deleted.
            vectors = Vectors(ledgers.embeddings, vectors.embedder)
        await update(ledgers, vectors)
        profile_after = await OwnerProfile(ledgers).text()
        after = await Replay(ledgers, vectors, **bounds).run(lambda done: report(count + done))

    in_profile = token_count(profile_after) - token_count(profile_before)
    tokens: dict[str | None, int] = {}
    for _, _, _, model, is_owner in everything:
        tokens[model] = tokens.get(model, 0) + in_profile * is_owner
    for id_, prompt in before.items():
        if id_ in after:
            added = _count_tokens(after[id_]) - _count_tokens(prompt)
            tokens[prompt.model] = tokens.get(prompt.model, 0) + added
    cost_microusd, unpriced_tokens = _price(config, tokens)
    return Preview(
        days=days,
        known_since=known_since,
        until=until,
        prompts=len(everything),
        differences=compare(before, after),
        forgotten=len(before.keys() - after.keys()),
        profile_before=profile_before,
        profile_after=profile_after,
        tokens=sum(tokens.values()),
        cost_microusd=cost_microusd,
        unpriced_tokens=unpriced_tokens,
    )


async def _open_vectors(ledgers: Ledgers, config: Config) -> Vectors | None:
    """Open the vectors, with all that was written and replaced in them; None without an embedding model."""
    vectors: Vectors | None = None
    with suppress(ModelFileError):
        vectors = await open_vectors(ledgers, config.memory)
    await update(ledgers, vectors)
    return vectors


async def update(ledgers: Ledgers, vectors: Vectors | None) -> None:
    """Do at once what a served home does in the background after a change."""
    if vectors is not None:
        await embed_new(ledgers, vectors)
        await succession.derive(ledgers, vectors)
        await vectors.mirror.refresh()


class Replay:
    """Asks for the memories of recorded requests again, as of the time of each.

    Left out is what was said or learned between a request and the moment `until`. What was learned after
    that belongs to the change.
    """

    def __init__(self, ledgers: Ledgers, vectors: Vectors | None, *, since: str, until: str) -> None:
        self._ledgers = ledgers
        self._vectors = vectors
        self._bounds = {"since": since, "until": until}

    async def run(self, progress: Callable[[int], None] = lambda _: None) -> dict[str, Prompt]:
        """Ask for every request, in their order; returns the prompts by request."""
        rows = await self._ledgers.memory.read(sql.rows, SQL["recorded"], self._bounds)
        learned = cast("list[tuple[str, str]]", rows)
        prompts: dict[str, Prompt] = {}
        listed = await self._ledgers.runtime.read(sql.rows, SQL["prompts"], self._bounds)
        for number, (id_, at, run, model, _) in enumerate(listed, start=1):
            request = await requests.restore(self._ledgers, id_)
            # What a deleted message said is gone, and so is its prompt.
            if request is not None and request.event.content:
                later = frozenset(each for _, each in learned[bisect_left(learned, (at, "")) :])
                prompts[id_] = await self._ask(request, run, model, later)
            progress(number)
        return prompts

    async def _ask(self, request: Request, run: str, model: str | None, later: frozenset[str]) -> Prompt:
        ledgers, moment = self._ledgers, clock.parse(request.created_at)

        async def open_recall(visible: Visibility, without: frozenset[str]) -> Recall:
            absent = later | without
            return Recall(ledgers, self._vectors, visible=visible, without=absent, now=lambda: moment)

        task = await injection.load_task(ledgers, request)
        candidates = await injection.recall_candidates(
            ledgers, open_recall, request, task, _KINDS, deadline_ms=_DEADLINE_MS
        )
        opened = await ledgers.agents.read(turns.find, execution_id=run)
        past = History()
        if opened is not None:
            past = await history.load(ledgers, request, request.agent.session_label, opened)
        block = ""
        if candidates is not None:
            verdicts = triage.judge(candidates, task=task.text, conversation=injection.find_seen(past))
            chosen = [each.result.item for each in verdicts if each.chosen]
            block = await injection.format_items(ledgers, chosen)
        return Prompt(
            request_id=request.request_id,
            execution_id=run,
            at=request.created_at,
            text=task.text,
            model=model,
            memories=strip_ids(block),
            seen=sha256("".join(each.derive(_hash_turn) for each in past.blocks).encode()).hexdigest(),
        )


def _hash_turn(turn: Turn) -> str:
    said = "\0".join(f"{each.role}\0{each.content}" for each in turn.messages)
    return sha256(said.encode()).hexdigest()


def strip_ids(block: str) -> tuple[str, ...]:
    """Return the lines of injected memories without their ids."""
    return tuple(_ID.sub(")", line) for line in block.splitlines())


def compare(before: Mapping[str, Prompt], after: Mapping[str, Prompt]) -> list[Difference]:
    """Compare the prompts of the requests that are in both."""
    pairs = [(each, after[id_]) for id_, each in before.items() if id_ in after]
    return [
        Difference(
            request_id=one.request_id,
            execution_id=one.execution_id,
            at=one.at,
            text=one.text,
            before=one.memories,
            after=other.memories,
            kept=tuple(line for line in one.memories if line in other.memories),
            removed=tuple(line for line in one.memories if line not in other.memories),
            added=tuple(line for line in other.memories if line not in one.memories),
            has_other_history=one.seen != other.seen,
        )
        for one, other in pairs
        # The same memories in another order are no difference to show.
        if (set(one.memories), one.seen) != (set(other.memories), other.seen)
    ]


def _count_tokens(prompt: Prompt) -> int:
    return sum(map(token_count, prompt.memories))


def _price(config: Config, tokens: Mapping[str | None, int]) -> tuple[int, int]:
    """Price tokens that come or go, by model; returns the cost, and the tokens whose price is unknown."""
    total = unpriced = 0
    for model, count in tokens.items():
        cost = estimate_microusd(config, model, input_tokens=abs(count), output_tokens=0) if model else None
        if cost is None:
            unpriced += abs(count)
        else:
            total += cost if count > 0 else -cost
    return total, unpriced


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What it would take to ask the model for some prompts, once as they were and once as they would be."""

    calls: int
    tokens: int
    cost_microusd: int | None
    """None if nobody knows the price."""


async def estimate_answers(
    ledgers: Ledgers, config: Config, model: str, wanted: Sequence[Difference]
) -> Estimate:
    """Estimate it by the last call that each of the recorded answers took."""
    tokens = (0, 0)
    for each in wanted:
        row = await ledgers.runtime.read(sql.row, SQL["last_call"], (each.execution_id,))
        read, written = cast("tuple[int, int]", row or (0, 0))
        tokens = (tokens[0] + 2 * read, tokens[1] + 2 * written)
    cost = estimate_microusd(config, model, input_tokens=tokens[0], output_tokens=tokens[1])
    return Estimate(calls=2 * len(wanted), tokens=sum(tokens), cost_microusd=cost)


def choose_examples(differences: Sequence[Difference], count: int) -> list[Difference]:
    """Choose differences to show: with other memories and newest first, those alike only after others."""
    seen: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    first: list[Difference] = []
    rest: list[Difference] = []
    for each in reversed(differences):
        key = each.removed, each.added
        (rest if key in seen or not any(key) else first).append(each)
        seen.add(key)
    return [*first, *sorted(rest, key=lambda each: not (each.removed or each.added))][:count]
