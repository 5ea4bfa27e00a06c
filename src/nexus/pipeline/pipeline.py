"""The way of a message: eight stages in order, a hook point behind each, and a trace of it all.

The first half runs where the message comes in, up to the queued run of an agent; the second half runs where
that run ends, which may be another process and after a crash.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from typing import Literal

import apsw

from nexus import clock, ids
from nexus.automations.returned import Returned
from nexus.context import AssembledContext
from nexus.errors import AccessError, NexusError
from nexus.ledgers.agents import sessions
from nexus.ledgers.runtime import requests, spans
from nexus.ledgers.runtime.approvals import Approval
from nexus.ledgers.runtime.spans import Span
from nexus.pipeline.incoming import Incoming, Journey
from nexus.pipeline.stages import Stages
from nexus.request import Request, Stage
from nexus.runs import Result

_log = logging.getLogger(__name__)


class Pipeline:
    """Takes messages through the stages."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    async def receive(self, incoming: Incoming) -> Journey:
        """The first half, up to the queued run; or the whole way, where no agent is to answer."""
        stages, started = self._stages, _Started()
        journey = await stages.receive_event(incoming)
        self._note(journey, "receiveEvent", started, "ok")
        try:
            await self._fire("after:receiveEvent", journey)
            await self._stage(journey, "resolveIdentity", stages.resolve_identity(journey))
            await self._fire("after:resolveIdentity", journey)
            stages.listen(journey)
            if not journey.is_over:
                await self._stage(journey, "resolveAccess", stages.resolve_access(journey))
                await self._decide(journey)
                journey.handled = not journey.incoming.wants_answer
            if not journey.is_over:
                await self._stage(journey, "runAutomations", stages.run_automations(journey))
            if not journey.is_over:
                await self._stage(journey, "assembleContext", stages.assemble_context(journey))
                await self._fire("after:assembleContext", journey)
                await self._stage(journey, "runAgent", stages.run_agent(journey))
            if journey.is_over:
                await self._answer_without_agent(journey)
        except Exception as error:
            await self._fail(journey, "failed", str(error))
            raise
        except BaseException:
            # Whoever sent it has left. A run that is on record goes on; without one the request is over.
            with suppress(NexusError):
                await asyncio.shield(self._fail(journey, "cancelled", "Cancelled before its run began."))
            raise
        await self._record(journey)
        return journey

    async def before_worker(self, request: Request, context: AssembledContext) -> None:
        """A worker's own run is about to begin; not that of an automation which works for it."""
        if context.session_label == request.agent.session_label:
            journey = _journey(request)
            journey.assembled = context
            if await self._stages.ledgers.agents.read(sessions.get, label=context.session_label) is None:
                await self._fire("agent:bootstrap", journey)
            await self._fire("worker:pre_execution", journey)
            await self._stages.ledgers.runtime.write(requests.update, request=request)
            await self._record(journey)

    async def after_run(self, request: Request, context: AssembledContext, result: Result) -> None:
        """The second half. A worker's result goes to whoever dispatched it, not to a channel."""
        if context.session_label != request.agent.session_label:
            return
        stages, journey = self._stages, _journey(request)
        journey.assembled = context
        journey.result = replace(result, session_label=context.session_label)
        await self._fire("after:runAgent", journey)
        if request.depth == 0:
            text, id_ = stages.with_unread(request, result.response.content), result.execution_id
            files = await stages.chosen_files(request)
            delivery = stages.deliver_response(request, text, id_, files)
            await self._stage(journey, "deliverResponse", delivery)
            await self._fire("after:deliverResponse", journey)
            await self._stage(journey, "finalize", stages.finalize(journey))
        await stages.runner.settled()
        await self._record(journey)
        _tell_end(request, "done", result.execution_id)

    async def after_failure(self, request: Request, context: AssembledContext, error: str) -> None:
        """The end of a message that an agent could not answer."""
        if request.depth == 0 and context.session_label == request.agent.session_label:
            journey = _journey(request)
            await self._stages.tell_failure(request)
            await self._stage(journey, "finalize", self._stages.finalize(journey))
            await self._record(journey)
            _tell_end(request, "failed")

    async def ask_owner(self, request: Request, approval: Approval) -> None:
        """Ask the owner about a call that waits, in the conversation that it works for."""
        root = await requests.restore(self._stages.ledgers, request.root_request_id)
        if root is not None and root.access.level == "owner":
            await self._stages.ask_owner(root, approval)

    async def _decide(self, journey: Journey) -> None:
        """Automations may deny what was allowed, never allow what was denied."""
        if journey.denied is None:
            returned = await self._fire("after:resolveAccess", journey)
            journey.denied = returned.deny
        if journey.denied is not None:
            journey.spans[-1] = replace(journey.spans[-1], outcome="denied")

    async def _answer_without_agent(self, journey: Journey) -> None:
        request, stages = journey.request, self._stages
        if journey.response is not None:
            answer_id = ids.derived("evt", request.request_id, "answer")
            await self._stage(
                journey, "deliverResponse", stages.deliver_response(request, journey.response, answer_id)
            )
        if journey.denied is None:
            await self._fire("after:deliverResponse", journey)
            await self._stage(journey, "finalize", stages.finalize(journey))

        def end(connection: apsw.Connection) -> None:
            requests.update(connection, request)
            status = "done" if journey.denied is None else "denied"
            requests.end(connection, request.request_id, status, error=journey.denied)

        await stages.ledgers.runtime.write(end)
        _tell_end(request, "done" if journey.denied is None else "denied")

    async def _fail(self, journey: Journey, status: Literal["failed", "cancelled"], error: str) -> None:
        id_ = journey.request.request_id
        if await self._stages.ledgers.runtime.write(
            requests.end_without_run, request_id=id_, status=status, error=error
        ):
            await self._stages.finalize(journey)
            await self._record(journey)
            _tell_end(journey.request, status)

    async def _fire(self, hook_point: str, journey: Journey) -> Returned:
        started = _Started()
        returned = await self._stages.fire(hook_point, journey)
        if self._stages.runner.registry.at(hook_point):
            self._note(journey, hook_point, started, "ok", kind="hook")
        return returned

    async def _stage(self, journey: Journey, name: str, work: Awaitable[None]) -> None:
        started = _Started()
        try:
            await work
        except BaseException:
            self._note(journey, name, started, "error")
            raise
        self._note(journey, name, started, "ok")

    def _note(
        self, journey: Journey, name: str, started: "_Started", outcome: str, kind: str = "stage"
    ) -> None:
        request, duration_ms = journey.request, started.elapsed_ms()
        if kind == "stage":
            request.trace.append(
                Stage(name=name, started_at=started.at, duration_ms=duration_ms, outcome=outcome)
            )
        span = Span(
            id=started.id,
            request_id=request.request_id,
            root_request_id=request.root_request_id,
            kind=kind,
            name=name,
            started_at=started.at,
            duration_ms=duration_ms,
            outcome=outcome,
        )
        journey.spans.append(span)

    async def _record(self, journey: Journey) -> None:
        """Write the trace, in one transaction."""
        noted, journey.spans = journey.spans, []
        last = next((span.name for span in reversed(noted) if span.kind == "stage"), None)

        def write(connection: apsw.Connection) -> None:
            for span in noted:
                spans.record(connection, span)
            if last is not None:
                requests.enter_stage(connection, journey.request.request_id, last)

        await self._stages.ledgers.runtime.write(write)


class _Started:
    """When something began. The id is made then, so that ids sort as things happened."""

    def __init__(self) -> None:
        self.id = ids.new("spn")
        self.at = clock.timestamp(clock.now())
        self._begun = time.perf_counter()

    def elapsed_ms(self) -> float:
        return round((time.perf_counter() - self._begun) * 1000, 3)


def _tell_end(request: Request, status: str, execution_id: str | None = None) -> None:
    """A line of the log. It names and counts, and holds nothing of what was said."""
    known = {"request_id": request.request_id, "parent_request_id": request.parent_request_id}
    told = {"status": status, "channel": request.event.channel, "execution_id": execution_id, **known}
    _log.info("a request ended", extra={name: value for name, value in told.items() if value})


def _journey(request: Request) -> Journey:
    """A journey that goes on where another process left it."""
    event = request.event
    incoming = Incoming(
        channel=event.channel or "",
        content=event.content,
        sender=event.sender_id or "",
        thread=request.agent.session_label,
    )
    return Journey(incoming=incoming, request=request)


def refused(journey: Journey) -> AccessError:
    """The error for whoever said something that was denied."""
    return AccessError(f"This was denied: {journey.denied}", hint=journey.response or "")
