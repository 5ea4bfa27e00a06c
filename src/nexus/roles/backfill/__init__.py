"""Backfill: the memory writer reads imported conversations, at the pace and price that the owner chooses."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from nexus import clock, ids
from nexus.broker.agent.roles import models_of
from nexus.broker.run_handle import OUTAGE
from nexus.engine import WorkContext
from nexus.errors import TEMPORARY_LEDGER_ERRORS, ConfigError, NexusError, UsageError
from nexus.ledgers import sql
from nexus.ledgers.events import imports
from nexus.ledgers.memory import backfills
from nexus.ledgers.memory.backfills import Limits, Outcome, Sort
from nexus.roles.backfill import plan
from nexus.roles.backfill.plan import Estimate, FailedError, Reader, load_past
from nexus.roles.memory_writer.extractor import ROLE
from nexus.runs import money

if TYPE_CHECKING:
    from nexus.roles.services import Services


WORK: Final = "memory.backfill"
# Apart from the background, where the runs are that this waits for.
_LANE: Final = "automations"
_EPISODES_A_ROUND: Final = 200
# A pause that is shorter is waited for here; a longer one by the engine.
_SHORT: Final = timedelta(seconds=10)
_OUTAGE: Final = timedelta(minutes=5)
# After a run that was stopped or took too long, and while a database is busy.
_HICCUP: Final = timedelta(seconds=15)
_PASSES: Final = (*TEMPORARY_LEDGER_ERRORS, *OUTAGE)
_MOST_ATTEMPTS: Final = 12
# A run that took too long on a busy machine is asked for again; one that never ends is not.
_MOST_STOPPED: Final = 4
# So many refused in a row are not the episodes' fault.
_MOST_REFUSED: Final = 8
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """An episode that the model was asked about, with what would be written from it."""

    episode_id: str
    start: str
    channel: str
    title: str | None
    messages: list[dict[str, Any]]
    facts: list[dict[str, Any]]
    refused: list[str]


class Backfilling:
    """Backfills of one home. Make it before the engine opens; `recover` when the home is served."""

    def __init__(self, parts: "Services", now: clock.Clock = clock.now) -> None:
        self._parts = parts
        self._ledgers = parts.ledgers
        self._now = now
        parts.engine.register(WORK, self._work)

    async def estimate(self, import_id: str | None = None, limits: Limits | None = None) -> Estimate:
        """Estimate what reading everything unread of an import, or of all imports, would take."""
        await self._check(import_id)
        chosen = await plan.find_unread(self._ledgers, import_id)
        return await plan.estimate(self._parts, chosen, limits or Limits())

    async def sample(self, import_id: str | None = None, count: int = plan.SAMPLE) -> list[Sampled]:
        """Ask the model about some episodes, and write nothing. What it says is used when they are read."""
        await self._check(import_id)
        reader = await Reader.of(self._parts)
        chosen = plan.choose_sample(await plan.find_unread(self._ledgers, import_id), count)
        width, found = plan.count_parallel(reader), list[Sampled | BaseException | None]()
        # The first alone: what it leaves in the provider's cache, the others find there.
        groups = [chosen[:1], *(chosen[first : first + width] for first in range(1, len(chosen), width))]
        for group in groups:
            asked = (self._sample_one(reader, each) for each in group)
            found += await asyncio.gather(*asked, return_exceptions=True)
            for each in found:
                if isinstance(each, BaseException):
                    raise each
        return [each for each in found if isinstance(each, Sampled)]

    async def start(
        self, import_id: str | None = None, *, sort: Sort = "newest", limits: Limits | None = None
    ) -> backfills.Backfill:
        """Read everything unread of an import, or of all imports."""
        await self._check(import_id)
        limits = limits or Limits()
        if await self._ledgers.memory.read(backfills.active):
            raise UsageError(
                "A backfill is already active", hint="Wait for it, or run `nexus backfill cancel` first."
            )
        chosen = plan.order_episodes(await plan.find_unread(self._ledgers, import_id), sort)
        if not chosen:
            raise UsageError("Nothing to read", hint="Import a history first: `nexus import SOURCE`.")
        estimate = await plan.estimate(self._parts, chosen, limits)
        id_ = await self._ledgers.memory.write(
            backfills.add,
            import_id=import_id,
            sort=sort,
            limits=limits,
            estimate=estimate.to_json(),
            episode_ids=[each.id for each in chosen],
        )
        await self._begin(id_, 0)
        return await self.get(id_)

    async def pause(self) -> backfills.Backfill:
        """Stop after the episodes that are being read."""
        id_ = await self._find_active()
        await self._ledgers.memory.write(
            backfills.set_status, backfill_id=id_, status="paused", reason="paused by the owner"
        )
        return await self.get(id_)

    async def resume(self, limits: Limits | None = None) -> backfills.Backfill:
        """Go on with a paused backfill, and try again what failed; `limits` replace the earlier ones."""
        await self._check(None)
        id_ = await self._find_active()

        def work(connection: Any) -> None:
            if limits is not None:
                backfills.limit(connection, id_, limits)
            backfills.retry(connection, id_)
            backfills.set_status(connection, id_, "running")
            [found] = backfills.list_backfills(connection, backfill_id=id_)
            backfills.next_round(connection, id_, found.round)

        await self._ledgers.memory.write(work)
        await self._begin(id_, (await self.get(id_)).round)
        return await self.get(id_)

    async def cancel(self) -> backfills.Backfill:
        """End a backfill. What was learned stays; what wasn't read can be started again."""
        id_ = await self._find_active()
        await self._ledgers.memory.write(backfills.set_status, backfill_id=id_, status="canceled")
        return await self.get(id_)

    async def get(self, backfill_id: str) -> backfills.Backfill:
        """Load one backfill."""
        return (await self._ledgers.memory.read(backfills.list_backfills, backfill_id=backfill_id))[0]

    async def latest(self) -> backfills.Backfill | None:
        """Load the backfill that was started last."""
        found = await self._ledgers.memory.read(backfills.list_backfills)
        return found[-1] if found else None

    async def recover(self) -> None:
        """See to it that a running backfill has its work on the engine."""
        id_ = await self._ledgers.memory.read(backfills.active)
        if id_ is not None and (found := await self.get(id_)).status == "running":
            await self._begin(id_, found.round)

    async def _check(self, import_id: str | None) -> None:
        models_of(self._parts.config.models, ROLE)
        if import_id is None:
            return
        if not await self._ledgers.events.read(imports.list_imports, import_id=import_id):
            raise UsageError(f"There is no import {import_id!r}", hint="See `nexus import --list`.")

    async def _find_active(self) -> str:
        id_ = await self._ledgers.memory.read(backfills.active)
        if id_ is None:
            raise UsageError("No backfill is active", hint="Start one with `nexus backfill start`.")
        return id_

    async def _begin(self, backfill_id: str, round_: int, wait: timedelta = timedelta()) -> None:
        """Hand a round to the engine; it is there once, however often this is called."""
        await self._parts.engine.start(
            WORK,
            {"id": backfill_id, "round": round_},
            key=WORK,
            lane=_LANE,
            execution_id=ids.derived("exe", backfill_id, str(round_)),
            delay_until_ms=time.time_ns() // 1_000_000 + round(wait.total_seconds() * 1000) if wait else None,
        )

    async def _hand_over(self, backfill_id: str, round_: int, wait: timedelta = timedelta()) -> None:
        """Begin the next round, however long the engine's database is busy: nobody else would."""
        while True:
            try:
                return await self._begin(backfill_id, round_, wait)
            except OUTAGE as error:
                _LOG.warning("a backfill waits for the engine: %s", error.message)
                await asyncio.sleep(_SHORT.total_seconds())

    async def _work(self, context: WorkContext, payload: Any) -> dict[str, Any]:
        id_, round_ = str(payload["id"]), int(payload["round"])
        listed = await self._ledgers.memory.read(backfills.list_backfills, backfill_id=id_)
        if not listed or listed[0].round > round_ + 1:
            return {"episodes": 0}  # forgotten, or another execution goes on with it
        if listed[0].round == round_ + 1:
            # It handed over, and may have been killed before the engine knew.
            await self._hand_over(id_, round_ + 1)
            return {"episodes": 0}
        try:
            read, wait = await _Round(self._parts, id_, self._now)()
        except _PASSES as error:
            _LOG.warning("a backfill waits: %s", error.message)
            read, wait = 0, _HICCUP
        except NexusError as error:
            await self._pause(id_, error.message)
            return {"episodes": 0}
        except Exception as error:
            _LOG.exception("a backfill is paused")
            await self._pause(id_, f"{type(error).__name__}: {error}")
            return {"episodes": 0}
        if wait is not None and await self._ledgers.memory.write(
            backfills.next_round, backfill_id=id_, round_=round_
        ):
            await self._hand_over(id_, round_ + 1, wait)
        return {"episodes": read}

    async def _pause(self, backfill_id: str, reason: str) -> None:
        await self._ledgers.memory.write(
            backfills.set_status, backfill_id=backfill_id, status="paused", reason=reason
        )

    async def _sample_one(self, reader: Reader, chosen: plan.Chosen) -> Sampled | None:
        """Ask what the model would write from one episode; None if it was forgotten."""
        episode = await load_past(self._ledgers, chosen.id)
        if episode is None:
            return None
        operations, refused = await reader.rehearse(episode) if episode.due else ([], [])
        query = sql.queries("events")["thread_title"]
        title = await self._ledgers.events.read(sql.value, query, (episode.thread_id,))
        return Sampled(
            episode_id=episode.episode_id,
            start=chosen.start,
            channel=episode.channel,
            title=None if title is None else str(title),
            messages=[
                {"id": message.event.id, "sender": message.event.sender, "text": message.event.content}
                for message in episode.messages
            ],
            facts=[
                {"fact": each.get("fact") or each.get("value"), "event": each.get("event")}
                for each in operations
                if each["operation"] in {"fact", "relationship", "person-fact"}
            ],
            refused=refused,
        )


class _Round:
    """Some hundred episodes, or as many as pace and budget allow."""

    def __init__(self, parts: "Services", backfill_id: str, now: clock.Clock) -> None:
        self._parts = parts
        self._memory = parts.ledgers.memory
        self._id = backfill_id
        self._now = now
        self._refused = 0

    async def __call__(self) -> tuple[int, timedelta | None]:
        """Read a round; returns how many were read, and the pause before the next round, if there is one."""
        reader, read = await Reader.of(self._parts), 0
        while read < _EPISODES_A_ROUND:
            found = await self._load_running()
            if found is None:
                return read, None
            wait = await self._wait(found)
            if wait > _SHORT:
                return read, wait
            await asyncio.sleep(wait.total_seconds())
            if wait:
                continue  # it may have been paused meanwhile
            count = 1 if found.limits.episodes_an_hour else plan.count_parallel(reader)
            next_ = await self._memory.read(backfills.next_episodes, backfill_id=self._id, count=count)
            if not next_:
                await self._set("done")
                return read, None
            pause = await self._read(reader, next_)
            if pause is not None:
                return read, pause
            read += len(next_)
        return read, timedelta()

    async def _load_running(self) -> backfills.Backfill | None:
        """Load the backfill if it is to go on."""
        listed = await self._memory.read(backfills.list_backfills, backfill_id=self._id)
        if not listed or listed[0].status != "running":
            return None
        limits, progress = listed[0].limits, listed[0].progress
        if limits.budget_microusd is not None and progress.cost_microusd >= limits.budget_microusd:
            await self._set("paused", f"its budget of {money(limits.budget_microusd)} is used up")
            return None
        if limits.budget_tokens is not None and progress.tokens >= limits.budget_tokens:
            await self._set("paused", f"its budget of {limits.budget_tokens:,} tokens is used up")
            return None
        return listed[0]

    async def _wait(self, found: backfills.Backfill) -> timedelta:
        """Compute how long to wait until the pace allows the next episode."""
        if not found.limits.episodes_an_hour:
            return timedelta()
        now = self._now()
        last = await self._memory.read(backfills.last_read, backfill_id=self._id, now=now)
        if last is None:
            return timedelta()
        due = clock.parse(last) + timedelta(hours=1) / found.limits.episodes_an_hour
        return max(timedelta(), due - now)

    async def _read(self, reader: Reader, episode_ids: Sequence[str]) -> timedelta | None:
        """Read some episodes; a pause where no model answers."""
        done = await asyncio.gather(*(self._one(reader, id_) for id_ in episode_ids), return_exceptions=True)
        failed = [each for each in done if isinstance(each, FailedError)]
        for each in done:
            if isinstance(each, BaseException) and not isinstance(each, FailedError):
                raise each
        if failed:
            return await self._outage(failed[0], episode_ids)
        self._refused = 0 if any(done) else self._refused + len(done)
        if self._refused >= _MOST_REFUSED:
            raise NexusError(
                f"{self._refused} episodes in a row could not be read; see `nexus backfill status`"
            )
        return None

    async def _one(self, reader: Reader, episode_id: str) -> bool:
        """Read one episode and mark it: whether that went well."""
        outcome = await reader.read(episode_id)
        await self._mark(outcome)
        return outcome.status != "failed"

    async def _mark(self, outcome: Outcome) -> None:
        await self._memory.write(backfills.mark, backfill_id=self._id, outcome=outcome)

    async def _outage(self, error: FailedError, episode_ids: Sequence[str]) -> timedelta:
        tried = [await self._memory.read(backfills.attempts, episode_id=id_) for id_ in episode_ids]
        if error.failed.kind == "unreachable" and max(tried) < _MOST_ATTEMPTS:
            return _OUTAGE
        if error.failed.kind == "stopped" and max(tried) < _MOST_STOPPED:
            return _HICCUP
        if error.failed.error == "ConfigError":
            raise ConfigError(error.message)
        raise NexusError(error.message)

    async def _set(self, status: backfills.Status, reason: str | None = None) -> None:
        await self._memory.write(backfills.set_status, backfill_id=self._id, status=status, reason=reason)
