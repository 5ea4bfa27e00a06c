"""The way of a message: eight stages in order, a hook point behind each, and a trace of it all.

The first half runs where the message comes in, up to the queued run of an agent; the second half runs with
that run, at its beginning and its end, which may be in another process and after a crash.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar

import apsw

from nexus import clock, ids
from nexus.attachments import Attachment
from nexus.automations.context import Occasion
from nexus.automations.hook_points import BEFORE_DELIVERY
from nexus.automations.returned import Returned
from nexus.context import AssembledContext
from nexus.errors import AccessError, NexusError
from nexus.ledgers.runtime import executions, requests, spans
from nexus.ledgers.runtime.approvals import Approval
from nexus.ledgers.runtime.executions import Execution
from nexus.ledgers.runtime.spans import Span
from nexus.pipeline.incoming import Incoming, Journey
from nexus.pipeline.stages import Stages
from nexus.request import Request, Stage
from nexus.runs import Response, Result

_log = logging.getLogger(__name__)
T = TypeVar("T")


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
                # It ends in whatever process serves the home, which takes the journey further.
                journey.run = await stages.broker.start_execution(
                    journey.request,
                    stages.new_context(journey),
                    mode=incoming.mode,
                    record=partial(_write_request, journey),
                )
                return journey
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

    async def before_run(self, request: Request, context: AssembledContext, execution: Execution) -> None:
        """Put together what an agent is shown, and record it with the run that begins.

        After a crash before that it is done again, under the same ids: nothing is asked for or sent twice.
        """
        stages, runtime = self._stages, self._stages.ledgers.runtime
        is_message = request.depth == 0
        # An automation may have changed what was said; the ledger keeps the original.
        said = context.current_message if is_message else request.event.content
        journey = _journey(replace(request, event=replace(request.event, content=said)))
        journey.key = execution.id
        if not is_message:
            journey.assembled = context
        if await runtime.read_now(executions.is_first, execution=execution):
            await self._fire("agent:bootstrap", journey)
        if is_message:
            await self._stage(journey, "assembleContext", stages.assemble_context(journey.request, context))
            journey.assembled = context
            await self._fire("after:assembleContext", journey)
        else:
            await self._fire("worker:pre_execution", journey)
        request.enrichment, context.is_prepared = journey.request.enrichment, True
        if is_message and execution.taken_by is None:
            self._note(journey, "runAgent", _Started(), None)

        def record(connection: apsw.Connection) -> None:
            executions.prepare(connection, execution.id, context.to_json())
            _write_request(journey, connection)

        await runtime.write(record)

    async def after_run(self, request: Request, context: AssembledContext, result: Result) -> Result:
        """The second half; returns the result with the answer that was delivered.

        A worker's result goes to whoever dispatched it, not to a channel.
        """
        if context.session_label != request.agent.session_label:
            return result
        stages, journey = self._stages, _journey(request)
        journey.assembled, journey.key = context, result.execution_id
        journey.result = replace(result, session_label=context.session_label)
        journey.agent_ended = clock.timestamp(clock.now()), "ok"
        await self._fire("after:runAgent", journey)
        if request.depth == 0:
            text = stages.with_unread(request, result.response.content)
            if text != result.response.content:
                journey.result = replace(journey.result, response=replace(result.response, content=text))
            files = await stages.chosen_files(request)
            await self._deliver(journey, journey.result, result.execution_id, files)
            await self._fire("after:deliverResponse", journey)
            await self._stage(journey, "finalize", stages.finalize(journey))
        await stages.runner.wait_until_settled()
        stages.ledgers.runtime.write_along(_write_trace, journey)
        _tell_end(request, "done", result.execution_id)
        return replace(result, response=journey.result.response)

    async def after_failure(self, request: Request, context: AssembledContext, error: str) -> None:
        """The end of a message that an agent could not answer."""
        if request.depth == 0 and context.session_label == request.agent.session_label:
            journey = _journey(request)
            journey.agent_ended = clock.timestamp(clock.now()), "error"
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
        answer_id = ids.derived("evt", request.request_id, "answer")
        if journey.response is not None and journey.denied is not None:
            delivery = stages.deliver_response(request, journey.response, answer_id)
            await self._stage(journey, "deliverResponse", delivery)
        elif journey.response is not None:
            answer = Response(content=journey.response)
            result = Result(execution_id="", request_id=request.request_id, response=answer)
            journey.key = answer_id
            await self._deliver(journey, result, answer_id)
        if journey.denied is None:
            await self._fire("after:deliverResponse", journey)
            await self._stage(journey, "finalize", stages.finalize(journey))

        def end(connection: apsw.Connection) -> None:
            requests.update(connection, request)
            status = "done" if journey.denied is None else "denied"
            requests.end(connection, request.request_id, status, error=journey.denied)

        await stages.ledgers.runtime.write(end)
        _tell_end(request, "done" if journey.denied is None else "denied")

    async def _deliver(
        self, journey: Journey, result: Result, answer_id: str, files: tuple[Attachment, ...] = ()
    ) -> None:
        """Hand an answer to its channel as automations have left it, which the journey's result then says."""
        stages, request, started = self._stages, journey.request, _Started()
        occasion = Occasion(request=request, assembled=journey.assembled, result=result, key=journey.key)
        decided = await stages.review_answer(occasion, answer_id)
        if stages.runner.registry.at(BEFORE_DELIVERY):
            is_changed = "changed" if decided.answer is not None else "ok"
            outcome = is_changed if decided.withhold is None else "withheld"
            self._note(journey, BEFORE_DELIVERY, started, outcome, kind="hook")
        delivery = stages.deliver_answer(request, result.response, decided, answer_id, files)
        response = await self._stage(journey, "deliverResponse", delivery)
        journey.result, journey.response = replace(result, response=response), response.content

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

    async def _stage(self, journey: Journey, name: str, work: Awaitable[T]) -> T:
        started = _Started()
        try:
            result = await work
        except BaseException:
            self._note(journey, name, started, "error")
            raise
        self._note(journey, name, started, "ok")
        return result

    def _note(
        self, journey: Journey, name: str, started: "_Started", outcome: str | None, kind: str = "stage"
    ) -> None:
        """Note what has ended; without an outcome it only begins."""
        request, duration_ms = journey.request, None if outcome is None else started.elapsed_ms()
        if kind == "stage" and duration_ms is not None and outcome is not None:
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
        await self._stages.ledgers.runtime.write(_write_trace, journey)


class _Started:
    """When something began. The id is made then, so that ids sort as things happened."""

    def __init__(self) -> None:
        self.id = ids.new("spn")
        self.at = clock.timestamp(clock.now())
        self._begun = time.perf_counter()

    def elapsed_ms(self) -> float:
        return round((time.perf_counter() - self._begun) * 1000, 3)


def _write_request(journey: Journey, connection: apsw.Connection) -> None:
    """Record what became known of a request, and its trace."""
    requests.update(connection, journey.request)
    _write_trace(connection, journey)


def _write_trace(connection: apsw.Connection, journey: Journey) -> None:
    id_ = journey.request.request_id
    if journey.agent_ended is not None:
        ended_at, outcome = journey.agent_ended
        spans.end_stage(connection, id_, "runAgent", ended_at=ended_at, outcome=outcome)
    for span in journey.spans:
        spans.record(connection, span)
    last = next((span.name for span in reversed(journey.spans) if span.kind == "stage"), None)
    if last is not None:
        requests.enter_stage(connection, id_, last)


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


def refusal(journey: Journey) -> AccessError:
    """The error for whoever said something that was denied."""
    return AccessError(f"This was denied: {journey.denied}", hint=journey.response or "")
