"""The runner: what happens at a hook point.

Blocking automations run in order, each seeing what those before it added, each under its own time-out and
all under the hook point's budget. Then async ones are written down, to run on the engine, and nobody waits
for them. Nothing that an automation does fails the request.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

from nexus import clock, ids
from nexus.automations import hook_points, improvement
from nexus.automations.context import Occasion
from nexus.automations.hook_points import BEFORE_DELIVERY, SCHEDULE, HookPoint
from nexus.automations.invoker import Ended, Invoker
from nexus.automations.queue import InvocationQueue
from nexus.automations.registry import Entry, Registry
from nexus.automations.returned import Reply, Returned, apply, as_context
from nexus.config import AutomationsConfig
from nexus.context.wrapping import wrapped
from nexus.errors import LedgerError, NexusError
from nexus.ledgers import Ledgers, events
from nexus.ledgers.database import without_yielding
from nexus.ledgers.runtime import invocations, requests
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.invocations import Invocation, Status
from nexus.request import Request
from nexus.runs import Response, Result

_NOTHING = Returned()
_TAG = "memory_context"
ON_FAILURE = "on_failure"
"""The setting of an automation that guards answers: `deliver` lets them pass where it fails."""
# Between the attempts at a failed async invocation: 10 s, 1 min, 6 min, …
_FIRST_PAUSE_S = 10.0
_LONGER = 6
_LONGEST_PAUSE_S = 3_600.0


class Destinations(Protocol):
    """Where what automations return goes, beside the request. Implemented by `pipeline.delivery.Delivery`."""

    async def reply(self, request: Request, reply: Reply, message_id: str) -> None:
        """Send a message. The same id again sends nothing."""
        ...

    async def remember(self, automation: str, request: Request, statement: dict[str, Any]) -> None:
        """Write to the memory, through its gate; what is there already is not written again."""
        ...

    async def deliver_answer(
        self, request: Request, response: Response, review: Returned, answer_id: str
    ) -> Response:
        """Deliver an answer as it was reviewed. The same id again delivers nothing."""
        ...


@dataclass(kw_only=True)
class Runner:
    """Fires the hook points of one home."""

    ledgers: Ledgers
    registry: Registry
    invoker: Invoker
    settings: AutomationsConfig
    queue: InvocationQueue | None = None
    """Where async automations wait for their turn; without it they are written down and wait."""
    now: clock.Clock = clock.now
    destinations: Destinations | None = None

    def __post_init__(self) -> None:
        self._recording: set[asyncio.Task[None]] = set()

    async def fire(self, hook_point: str, occasion: Occasion) -> Returned:
        """Run what is registered at a hook point; returns what its blocking automations returned together."""
        point = hook_points.get(hook_point)
        entries = self.registry.at(point.name)
        if entries is None:
            entries = await self.registry.load(point.name)
        if not entries:
            return _NOTHING
        merged, ended = Returned(), list[Invocation]()
        deadline = time.monotonic() + point.budget_ms(self.settings) / 1000
        due = [entry for entry in entries if hook_points.are_met(entry.automation.triggers, occasion.request)]
        for entry in due:
            if entry.automation.blocking and not merged.ends:
                invocation, returned = await self._run(entry, point, occasion, deadline)
                ended.append(invocation)
                if point.guards and invocation.status not in {"done", "flagged"}:
                    returned = _withhold(entry.automation, invocation)
                if returned.answer is not None or returned.withhold is not None:
                    returned.changed_by = entry.automation.name
                    occasion.change_answer(returned.answer)
                merged.add(returned)
                apply(occasion.request, returned, entry.automation.name)
                if occasion.assembled is not None and returned.context is not None:
                    occasion.assembled.prepend(as_context(returned.context, entry.automation.name))
        if occasion.assembled is not None and merged.enrich.get("memories"):
            occasion.assembled.prepend(wrap_memories(str(merged.enrich["memories"])))
        self._record(ended)
        await self._enqueue([entry for entry in due if not entry.automation.blocking], point, occasion)
        return merged

    async def may_block(self, hook_point: str, request: Request) -> bool:
        """Whether a blocking automation will run there for a request, as far as that can be known before."""
        entries = self.registry.at(hook_point)
        if entries is None:
            entries = await self.registry.load(hook_point)
        return any(
            entry.automation.blocking
            and hook_points.are_met(entry.automation.triggers, request, ignoring={"enriched"})
            for entry in entries
        )

    async def review_answer(self, occasion: Occasion, answer_id: str) -> Returned:
        """Let automations change or withhold an answer, unless it is on record and was decided about."""
        request = occasion.request
        if request.event.channel is None or (
            await self.may_block(BEFORE_DELIVERY, request)
            and await self.ledgers.events.read(
                events.find_by_external_id, channel=request.event.channel, external_id=answer_id
            )
        ):
            return Returned()
        return await self.fire(BEFORE_DELIVERY, occasion)

    async def run_now(self, entry: Entry, occasion: Occasion) -> Invocation:
        """Run one automation by hand, whatever its conditions and its circuit say."""
        point = hook_points.get(entry.automation.hook_point)
        begun = replace(self._build_invocation(entry, point, occasion, "running"), blocking=True)
        timeout_ms = entry.automation.timeout_ms or self.settings.async_timeout_ms
        ended = await self.invoker.invoke(entry, point, occasion, begun.id, timeout_ms)
        ended = await self._send_returned(entry, occasion.request, begun.id, ended)
        final = _end_invocation(begun, ended, begun.created_at, self.now)
        await self._write([final])
        return final

    async def rerun(self, entry: Entry, hook_point: str, occasion: Occasion) -> Invocation:
        """Queue one automation by hand on an occasion that is over, whatever its circuit says."""
        point = hook_points.get(hook_point)
        asked = self._build_invocation(
            entry, point, replace(occasion, key=None), "queued", occasion.to_json()
        )
        asked = replace(asked, blocking=False)
        await self.ledgers.runtime.write(invocations.add, invocations=[asked])
        if self.queue is not None:
            self.queue.add(asked.id, entry.automation.name, occasion.request.agent.session_label)
        return asked

    async def find_active(self, automation: str, hook_point: str) -> Entry | None:
        """The automation of that name, where it is active."""
        found = self.registry.at(hook_point)
        entries = await self.registry.load(hook_point) if found is None else found
        return next((each for each in entries if each.automation.name == automation), None)

    async def enqueue_again(self, entry: Entry, hook_point: str, occasion: Occasion) -> bool:
        """Let an async automation work on an occasion that is over; False where its circuit is open."""
        if not entry.may_run(self.now, self.settings.circuit_cooldown_ms):
            return False
        await self._enqueue([entry], hook_points.get(hook_point), occasion)
        return True

    async def skip(self, entry: Entry, hook_point: str, occasion: Occasion, reason: str) -> None:
        """Record that an automation does not run, and why."""
        skipped = self._build_invocation(entry, hook_points.get(hook_point), occasion, "skipped")
        ended = replace(skipped, error=reason, ended_at=skipped.created_at)
        await self.ledgers.runtime.write(invocations.add, invocations=[ended])

    async def wait_until_settled(self) -> None:
        """When this returns, every invocation that had ended is recorded."""
        await asyncio.gather(*self._recording)

    async def run_queued(self, invocation_id: str, require: Callable[[], None] = lambda: None) -> None:
        """Run an async invocation whose turn has come.

        `require` raises where another process has it by now: what came of it is then not recorded.
        """
        begun = await self.ledgers.runtime.write(invocations.begin, invocation_id=invocation_id)
        if begun is None or begun.status in invocations.FINAL or begun.input is None:
            return
        entry = await self.registry.version(begun.automation_id)
        point = hook_points.get(begun.hook_point)
        occasion = Occasion.from_json(begun.input)
        if entry is None:
            ended = Ended(status="skipped", returned=_NOTHING, error="it was removed or disabled meanwhile")
        else:
            timeout_ms = entry.automation.timeout_ms or self.settings.async_timeout_ms
            ended = await self.invoker.invoke(
                entry, point, occasion, invocation_id, timeout_ms, begun.attempts, require
            )
            ended = await self._send_returned(entry, occasion.request, invocation_id, ended)
        if begun.retries_left and ended.status in {"failed", "timeout"} and entry is not None:
            await self._postpone(entry, begun, ended, occasion)
            return
        if point.name == SCHEDULE and self.destinations is not None:
            await self._answer_scheduled(self.destinations, occasion.request, ended)
        final = _end_invocation(begun, ended, begun.started_at or begun.created_at, self.now)
        limit = self.settings.circuit_errors
        self.registry.heed(await self.ledgers.runtime.write(invocations.end, ended=final, error_limit=limit))
        self._improve([final])

    async def _postpone(self, entry: Entry, begun: Invocation, ended: Ended, occasion: Occasion) -> None:
        """Written down first: what a crash cuts off here is handed over when the home is next served."""
        failed = _end_invocation(begun, ended, begun.started_at or begun.created_at, self.now)
        tried = max(0, entry.automation.retries - begun.retries_left)
        pause_s = min(_FIRST_PAUSE_S * _LONGER**tried, _LONGEST_PAUSE_S)
        at = clock.timestamp(self.now() + timedelta(seconds=pause_s))
        limit = self.settings.circuit_errors
        self.registry.heed(
            await self.ledgers.runtime.write(
                invocations.postpone, failed=failed, retry_at=at, error_limit=limit
            )
        )
        if self.queue is not None:
            label = occasion.request.agent.session_label
            self.queue.add(begun.id, entry.automation.name, label, attempts=begun.attempts + 1, at=at)

    async def run_improvement(self, invocation_id: str) -> None:
        """Let an automation reflect on an invocation that worked for the owner.

        What went wrong goes first: where the day's limit put it off, it takes the place of the next run.
        """
        done = await self.ledgers.runtime.read(invocations.get, invocation_id=invocation_id)
        entry = done and await self.registry.version(done.automation_id)
        if done is None or entry is None or done.input is None or not entry.automation.workspace_dir:
            return
        if not await improvement.is_allowed(self.ledgers, entry.automation, self.now()):
            return
        done = await improvement.choose_invocation(self.ledgers, entry.automation, done, self.now())
        if done is None:
            return
        occasion = Occasion.from_json(done.input)
        if improvement.is_owners(occasion):
            others = await improvement.find_foreign_content(self.ledgers, occasion, entry.automation, done)
            await self.invoker.improve(self.ledgers, entry.automation, occasion, done, others)

    async def _run(
        self, entry: Entry, point: HookPoint, occasion: Occasion, deadline: float
    ) -> tuple[Invocation, Returned]:
        given = occasion.to_json() if entry.automation.self_improvement else None
        invocation = self._build_invocation(entry, point, occasion, "running", given)
        left_ms = (deadline - time.monotonic()) * 1000
        timeout_ms = min(entry.automation.timeout_ms or self.settings.timeout_ms, left_ms)
        if not entry.may_run(self.now, self.settings.circuit_cooldown_ms):
            ended = Ended(status="skipped", returned=_NOTHING, error="its circuit is open")
        elif timeout_ms <= 0:
            why = f"{point.name} had no time left of its {point.budget_ms(self.settings)} ms"
            ended = Ended(status="skipped", returned=_NOTHING, error=why)
        else:
            entry.trying = entry.automation.circuit_state != "closed"
            with without_yielding():
                ended = await self.invoker.invoke(entry, point, occasion, invocation.id, timeout_ms)
            ended = await self._send_returned(entry, occasion.request, invocation.id, ended)
        return _end_invocation(invocation, ended, invocation.created_at, self.now), ended.returned

    async def _send_returned(self, entry: Entry, request: Request, invocation_id: str, ended: Ended) -> Ended:
        """Send what it returned for people and for the memory. What was refused flags the invocation.

        Before the end is written: what a crash cuts off here is done again, and arrives once.
        """
        returned, problems = ended.returned, list[str]()
        if not (returned.reply or returned.remember):
            return ended
        if self.destinations is None:
            problems.append("nothing here delivers `reply` or `remember`")
        else:
            for number, reply in enumerate(returned.reply):
                try:
                    message_id = ids.derived("evt", invocation_id, f"reply:{number}")
                    await self.destinations.reply(request, reply, message_id)
                except NexusError as error:
                    problems.append(f"`reply` was not sent: {error.message}")
            for statement in returned.remember:
                try:
                    await self.destinations.remember(entry.automation.name, request, statement)
                except NexusError as error:
                    problems.append(f"`remember` was refused: {error.message}")
        if not problems:
            return ended
        return replace(ended, status="flagged", error="; ".join(filter(None, (ended.error, *problems))))

    async def _answer_scheduled(self, destinations: Destinations, request: Request, ended: Ended) -> None:
        """Deliver the answer of an automation that ran by the clock, and end its request.

        Before the invocation's end is written: what a crash cuts off here is done again, and arrives once.
        """
        if text := (ended.returned.response or "").strip():
            answer_id = ids.derived("evt", request.request_id, "answer")
            result = Result(execution_id="", request_id=request.request_id, response=Response(content=text))
            occasion = Occasion(request=request, result=result, key=answer_id)
            review = await self.review_answer(occasion, answer_id)
            await destinations.deliver_answer(request, result.response, review, answer_id)
        error = None if ended.status == "flagged" else ended.error
        status = "done" if error is None else "failed"
        await self.ledgers.runtime.write(
            requests.end, request_id=request.request_id, status=status, error=error
        )

    async def _enqueue(self, entries: list[Entry], point: HookPoint, occasion: Occasion) -> None:
        """Durable when this returns; the engine is told in the background."""
        if not entries:
            return
        given = occasion.to_json()
        asked: list[tuple[Entry, Invocation]] = []
        for entry in entries:
            open_ = not entry.may_run(self.now, self.settings.circuit_cooldown_ms)
            entry.trying = not open_ and entry.automation.circuit_state != "closed"
            status: Status = "skipped" if open_ else "queued"
            asked.append((entry, self._build_invocation(entry, point, occasion, status, given)))
        await self.ledgers.runtime.write(invocations.add, invocations=[each for _, each in asked])
        if self.queue is not None:
            for entry, invocation in asked:
                if invocation.status == "queued":
                    self.queue.add(invocation.id, entry.automation.name, occasion.request.agent.session_label)

    def _build_invocation(
        self, entry: Entry, point: HookPoint, occasion: Occasion, status: Status, given: object = None
    ) -> Invocation:
        request = occasion.request
        return Invocation(
            id=_invocation_id(entry, point, occasion),
            automation_id=entry.automation.id,
            automation_version=entry.automation.version,
            hook_point=point.name,
            request_id=request.request_id,
            root_request_id=request.root_request_id,
            blocking=entry.automation.blocking,
            status=status,
            created_at=clock.timestamp(self.now()),
            input=None if status == "skipped" else given,
            error="its circuit is open" if status == "skipped" else None,
            retries_left=0 if entry.automation.blocking else entry.automation.retries,
        )

    def _record(self, ended: list[Invocation]) -> None:
        """Written in the background, in one transaction; `wait_until_settled` waits for it."""
        if ended:
            with without_yielding():
                task = asyncio.create_task(self._write(ended))
            self._recording.add(task)
            task.add_done_callback(self._recording.discard)

    async def _write(self, ended: list[Invocation]) -> None:
        limit = self.settings.circuit_errors
        try:
            circuits = await self.ledgers.runtime.write(invocations.record, ended=ended, error_limit=limit)
        except LedgerError:
            return  # a full disk must not fail the request that is being answered
        self.registry.heed(circuits)
        self._improve(ended)

    def _improve(self, ended: list[Invocation]) -> None:
        """Chain a reflection to each that there may be something to learn from."""
        for each in ended:
            entry = self.registry.get(each.automation_id)
            if self.queue and entry and improvement.is_due(entry.automation, each):
                self.queue.improve(each.id, entry.automation.name)


def _withhold(automation: Automation, invocation: Invocation) -> Returned:
    """What follows where an automation that guards answers did not do its work."""
    if automation.config.get(ON_FAILURE) == "deliver":
        return Returned()
    return Returned(withhold=f"{automation.name} did not review it: {invocation.error or invocation.status}")


def wrap_memories(text: str) -> str:
    """What was remembered, wrapped as data, also where it comes wrapped already."""
    return wrapped(_TAG, text.strip().removeprefix(f"<{_TAG}>").removesuffix(f"</{_TAG}>").strip())


def _invocation_id(entry: Entry, point: HookPoint, occasion: Occasion) -> str:
    if occasion.key is None:
        return ids.new("inv")
    return ids.derived("inv", occasion.key, f"{point.name}:{entry.automation.id}")


def _end_invocation(begun: Invocation, ended: Ended, started_at: str, now: clock.Clock) -> Invocation:
    return replace(
        begun,
        status=ended.status,
        result=ended.value if ended.status in {"done", "flagged"} else None,
        error=ended.error,
        duration_ms=round(ended.duration_ms, 3),
        started_at=started_at,
        ended_at=clock.timestamp(now()),
        output=ended.output or None,
    )
