"""The way of a message: eight stages in order, with hook points between them, and a trace of it all.

`receive` takes it through `receiveEvent`, `resolveIdentity`, `resolveAccess` and `runAutomations`, up to the
queued run of an agent. `before_run` is `assembleContext`, the run itself `runAgent`, and `after_run`
`deliverResponse` and `finalize`: these may be in another process, and after a crash. `runs.py` defines
request, run, execution and turn.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, Literal, TypeVar

import apsw

from nexus import clock, ids
from nexus.attachments import Attachment
from nexus.automations.hook_points import BEFORE_DELIVERY
from nexus.automations.returned import Returned, collect_contexts
from nexus.automations.runner import Runner
from nexus.broker import pace
from nexus.broker.agent_run import Failure
from nexus.broker.attached import mark_recording
from nexus.broker.broker import Broker
from nexus.broker.tools.files import SEND_FILE, list_chosen
from nexus.config import Config
from nexus.context import AssembledContext
from nexus.context.assemble import describe_situation
from nexus.context.wrapping import wrapped
from nexus.errors import AccessError, NexusError, UsageError
from nexus.ledgers import Ledgers, events
from nexus.ledgers.agents import tool_calls
from nexus.ledgers.database import without_yielding
from nexus.ledgers.events import NewEvent, Participant
from nexus.ledgers.identity import access as grants
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.senders import Seen, Sender
from nexus.ledgers.runtime import executions, requests, trace
from nexus.ledgers.runtime.approvals import Approval
from nexus.ledgers.runtime.executions import Execution
from nexus.ledgers.runtime.trace import Span
from nexus.memory import candidates
from nexus.pipeline import incoming
from nexus.pipeline.delivery import AGENT_SENDER, Delivery
from nexus.pipeline.incoming import Incoming, Journey
from nexus.request import Agent, Event, Request, Stage
from nexus.runs import Response, Result
from nexus.watch import finish

UNREAD: Final = "unread_files"
"""The enrichment of a request that came with files which could not be read."""
_APOLOGY: Final = "Sorry, I could not answer this."
_log = logging.getLogger(__name__)
T = TypeVar("T")
Tell = Callable[[str], None]
"""Is told what is being done."""
Transcribe = Callable[[Attachment, Tell], Awaitable[str]]
"""Turns a recording into words. UsageError where it can't."""


class Pipeline:
    """Takes messages through the stages."""

    def __init__(
        self,
        ledgers: Ledgers,
        config: Config,
        broker: Broker,
        runner: Runner,
        delivery: Delivery,
        *,
        run_command: Callable[[Request], Awaitable[str | None]],
        sends_files: Callable[[str], bool],
        transcribe: Transcribe,
    ) -> None:
        """`run_command` answers what is a command; `sends_files` says whether a channel can send files."""
        self._ledgers = ledgers
        self._config = config
        self._broker = broker
        self._runner = runner
        self._delivery = delivery
        self._run_command = run_command
        self._sends_files = sends_files
        self._transcribe = transcribe

    async def receive(self, incoming: Incoming) -> Journey:
        """The first half, up to the queued run; or the whole way, where no agent is to answer."""
        started = _Started()
        journey = await self._receive_event(incoming)
        self._note(journey, "receiveEvent", started, "ok")
        try:
            await self._fire("after:receiveEvent", journey)
            await self._stage(journey, "resolveIdentity", self._resolve_identity(journey))
            await self._fire("after:resolveIdentity", journey)
            # What is said in a group and wants no answer is recorded, whoever said it, and goes no further.
            journey.needs_no_agent = incoming.is_group and incoming.is_verified and not incoming.wants_answer
            if not journey.is_over:
                await self._stage(journey, "resolveAccess", self._resolve_access(journey))
                await self._let_automations_deny(journey)
                journey.needs_no_agent = not incoming.wants_answer
            if not journey.is_over:
                await self._stage(journey, "runAutomations", self._run_automations(journey))
            if not journey.is_over:
                # It ends in whatever process serves the home, which takes the journey further.
                journey.run = await self._broker.start_execution(
                    journey.request,
                    self._make_context(journey),
                    mode=incoming.mode,
                    record=partial(_write_request, journey),
                )
                return journey
            await self._answer_without_agent(journey)
        except Exception as error:
            await self._fail(journey, "failed", str(error))
            raise
        except BaseException:
            # The program stops. A run that is on record goes on; without one the request is over.
            with suppress(NexusError):
                await finish(self._fail(journey, "cancelled", "Cancelled before its run began."))
            raise
        await self._record(journey)
        return journey

    async def before_run(
        self, request: Request, context: AssembledContext, execution: Execution, tell: Tell
    ) -> None:
        """Fill `context` with what an agent is shown, and record it with the run that begins.

        After a crash before that it is done again, under the same ids: nothing is asked for or sent twice.
        """
        is_message, started = request.depth == 0, _Started()
        is_spoken = is_message and await self._write_down_recordings(request, context, tell)
        # An automation may have changed what was said; the ledger keeps the original.
        said = context.current_message if is_message else request.event.content
        journey = _journey(replace(request, event=replace(request.event, content=said)))
        journey.idempotency_key = execution.id
        if is_spoken:
            self._note(journey, "transcribe", started, "ok")
        if not is_message:
            journey.assembled = context
        if await self._ledgers.runtime.read_now(executions.is_first, execution=execution):
            await self._fire("agent:bootstrap", journey)
        if is_message:
            await self._stage(journey, "assembleContext", self._assemble_context(journey.request, context))
            journey.assembled = context
            # Memories are added here: `roles/memory_injection` is an automation at this hook point.
            await self._fire("after:assembleContext", journey)
        else:
            await self._fire("worker:pre_execution", journey)
        request.enrichment, context.is_prepared = journey.request.enrichment, True
        if is_message and execution.taken_by is None:
            self._note(journey, "runAgent", _Started(), None)

        def record(connection: apsw.Connection) -> None:
            executions.prepare(connection, execution.id, context.to_json())
            _write_request(journey, connection)

        await self._ledgers.runtime.write(record)

    async def may_change_answer(self, request: Request, session_label: str) -> bool:
        """Whether an automation may change what a run answers: until then nobody is shown it."""
        is_answer = request.depth == 0 and session_label == request.agent.session_label
        return (
            is_answer
            and request.event.channel is not None
            and await self._runner.may_block(BEFORE_DELIVERY, request)
        )

    async def after_run(self, request: Request, context: AssembledContext, result: Result) -> Result:
        """The second half; returns the result with the answer that was delivered.

        A worker's result goes to whoever dispatched it, not to a channel.
        """
        if context.session_label != request.agent.session_label:
            return result
        journey = _journey(request)
        journey.assembled, journey.idempotency_key = context, result.execution_id
        journey.result = replace(result, session_label=context.session_label)
        journey.agent_ended = clock.timestamp(clock.now()), "ok"
        await self._fire("after:runAgent", journey)
        if request.depth == 0:
            if unread := request.enrichment.get(UNREAD):
                # A model may not mention the files that could not be read.
                text = "\n\n".join(
                    filter(None, [result.response.content, *(f"I couldn't read {each}." for each in unread)])
                )
                journey.result = replace(journey.result, response=replace(result.response, content=text))
            files = await self._list_chosen_files(request)
            await self._deliver(journey, journey.result, result.execution_id, files)
            await self._fire("after:deliverResponse", journey)
            await self._stage(journey, "finalize", self._finalize(journey))
        await self._runner.wait_until_settled()
        self._ledgers.runtime.write_along(_write_trace, journey)
        _log_end(request, "done", result.execution_id)
        return replace(result, response=journey.result.response)

    async def after_failure(self, request: Request, execution: Execution, status: Failure) -> None:
        """The end of a message that an agent could not answer, or was stopped at."""
        if request.depth == 0 and execution.session_label == request.agent.session_label:
            journey = _journey(request)
            journey.agent_ended = clock.timestamp(clock.now()), "error"
            # Whoever cancels a run knows, such as a sender who has changed the message.
            if status != "cancelled":
                await self._apologize(request, execution)
            if status != "lost":  # what took the process down may be an automation
                await self._stage(journey, "finalize", self._finalize(journey))
            await self._record(journey)
            _log_end(request, "cancelled" if status == "cancelled" else "failed", execution.id)

    async def ask_owner(self, request: Request, approval: Approval) -> None:
        """Ask the owner about a call that waits, in the conversation that it works for.

        Only on a channel: on screens the run itself asks.
        """
        root = await requests.restore(self._ledgers, request.root_request_id)
        if root is not None and root.access.level == "owner" and self._is_on_channel(root):
            text = self._broker.approvals.question(approval, in_company=_is_in_company(root))
            await self._delivery.deliver_response(root, text, ids.derived("evt", approval.id, "asked"))

    async def _write_down_recordings(self, request: Request, context: AssembledContext, tell: Tell) -> bool:
        """Put what was said in the recordings of a message in their place. False where it has none.

        It is recorded as an event of its own, once, and the request goes by that from then on: the ledger
        keeps the message as it came.
        """
        recordings = [
            (each, mark)
            for each in context.attachments
            if each.is_audio and (mark := mark_recording(each)) in request.event.content
        ]
        heard = await self._ledgers.events.read(events.get, event_id=request.event.id or "")
        if not recordings or heard is None:
            return False
        said = await self._ledgers.events.read(events.find_transcript, heard)
        message = context.current_message if said is None else said.content
        content, is_any_heard = heard.content, False
        for each, mark in recordings if said is None else ():
            try:
                with pace.waiting(), without_yielding():
                    words = await self._transcribe(each, tell)
                is_any_heard = True
            except UsageError as error:
                # How to install what is missing is the owner's business.
                hint = f". {error.hint}" if error.hint and request.access.level == "owner" else ""
                reason = f"{each.name}: {error.message}{hint}".rstrip(".")
                request.enrichment.setdefault(UNREAD, []).append(reason)
                words = f"[Voice note not transcribed: {reason}]"
            content, message = content.replace(mark, words, 1), message.replace(mark, words, 1)
        if said is None and is_any_heard:
            await self._ledgers.events.write(events.transcribe, heard, content)
            said = await self._ledgers.events.read(events.find_transcript, heard)
        context.current_message = message
        if said is not None:
            request.event.id, request.event.content, context.event_id = said.id, said.content, said.id
            known = {"content": said.content, "external_id": said.external_id}
            context.message = {**(context.message or {}), **known}
        return True

    async def _apologize(self, request: Request, execution: Execution) -> None:
        """Tell whoever wrote on a channel that there is no answer. Why is in the trace, for the owner."""
        if not self._is_on_channel(request):
            return
        answered = await self._ledgers.events.read(
            events.find_by_external_id, channel=request.event.channel or "", external_id=execution.id
        )
        if answered is None:
            # Of several runs that fail for a message, one says so.
            failure_id = ids.derived("evt", request.request_id, "failure")
            await self._delivery.deliver_response(request, _APOLOGY, failure_id)

    async def _receive_event(self, incoming: Incoming) -> Journey:
        """Record what was said, and make it a request. What was delivered before is the same event."""

        def record(connection: apsw.Connection) -> tuple[str, str]:
            channel, thread = incoming.channel, incoming.thread
            thread_id = events.ensure_thread(
                connection, channel=channel, external_id=thread, title=incoming.title
            )
            sender = Participant(
                role="sender", identifier=incoming.sender, display_name=incoming.display_name
            )
            new = NewEvent(
                channel=channel,
                content=incoming.content,
                kind="command" if incoming.is_command else "message",
                thread_id=thread_id,
                sender=incoming.sender,
                external_id=incoming.external_id,
                participants=(sender,),
                metadata=incoming.metadata(),
            )
            (event_id,) = [incoming.event_id] if incoming.event_id else events.append(connection, [new])
            events.attach(connection, event_id, incoming.attachments)
            return thread_id, event_id

        thread_id, event_id = await self._ledgers.events.write(record)
        event = Event(
            id=event_id,
            content=incoming.content,
            thread_id=thread_id,
            channel=incoming.channel,
            sender_id=incoming.sender,
        )
        agent = Agent(role=incoming.role, session_label=incoming.session_label or incoming.own_session)
        request = Request(event=event, agent=agent)
        if incoming.unread_files:
            request.enrichment[UNREAD] = list(incoming.unread_files)
        # Written in the same transaction as the next write to this ledger: the run's, or an automation's.
        self._ledgers.runtime.write_along(requests.create, request=request)
        return Journey(incoming=incoming, request=request)

    async def _resolve_identity(self, journey: Journey) -> None:
        """Find the sender among the contacts; an unknown one gets an entity and a contact."""
        incoming = journey.incoming
        journey.sender = await self._ledgers.identity.read_now(
            senders.find, channel=incoming.channel, identifier=incoming.sender
        )
        # An address may become the owner's after it was first seen.
        if journey.sender is None or (incoming.is_owner and not journey.sender.is_owner):
            seen = Seen(
                channel=incoming.channel,
                identifier=incoming.sender,
                display_name=incoming.display_name,
                event_id=journey.request.event.id,
                is_owner=incoming.is_owner,
            )
            journey.sender = await self._ledgers.identity.write(_resolve_sender, seen)
        journey.request.principal_id = journey.sender.entity_id

    async def _resolve_access(self, journey: Journey) -> None:
        """Decide what the sender may reach. A sender without a grant is sent a code, once.

        A program that wrote by itself is told nothing: two of them could go on for ever.
        """
        sender, request = journey.sender, journey.request
        assert sender is not None  # noqa: S101 - an invariant, for the reader and the type checker
        if not journey.incoming.is_verified:
            journey.denied = "the channel does not vouch for the sender"
            return
        # On a channel the settings say who is the owner: what the memory knows of a person gives no rights.
        if sender.is_owner and (
            journey.incoming.is_owner or request.event.channel not in self._config.channels
        ):
            held = incoming.owner(self._config.tools, self._ledgers.home)
            # What the owner is told in a group, everybody there reads.
            request.access = replace(held, memory="own") if journey.incoming.is_group else held
            return
        granted = await self._ledgers.identity.read(grants.find_grant, entity_id=sender.entity_id)
        if granted is None and not journey.incoming.wants_answer:
            journey.denied = "an unknown sender that wants no answer"
            return
        if granted is None:
            code, is_new = await self._ledgers.identity.write(grants.ask, contact_id=sender.contact_id)
            journey.denied = "an unknown sender"
            # Not again while it is valid: what answers could be a program that isn't recognized as one.
            if is_new:
                journey.response = (
                    f"I don't know you yet. The owner of this agent can approve you with the code {code}."
                )
            return
        request.access = incoming.of_contact(granted, self._ledgers.home)
        if not incoming.may_use(request.access, request.agent.session_label, journey.incoming.own_session):
            journey.denied = f"the session {request.agent.session_label} was not granted"

    async def _run_automations(self, journey: Journey) -> None:
        """Let automations answer by themselves, or say who answers.

        A command and an approval need no agent either.
        """
        request = journey.request
        if journey.incoming.is_command:
            journey.response = await self._run_command(request)
        if journey.response is not None:
            journey.needs_no_agent, journey.reason = True, "a command was carried out"
            return
        if request.access.level == "owner":
            decided = await self._broker.approvals.reply(
                request.agent.session_label, request.event.content, in_company=_is_in_company(request)
            )
            if decided is not None:
                journey.needs_no_agent, journey.response = True, decided
                journey.reason = "an approval was decided"
                return
        returned = await self._runner.fire("runAutomations", journey.occasion)
        journey.needs_no_agent = returned.handled
        if returned.handled:
            journey.response, journey.reason = returned.response or "", "an automation answered"

    def _make_context(self, journey: Journey) -> AssembledContext:
        """What a message's run begins with. The rest of its context is put together then."""
        request, incoming = journey.request, journey.incoming
        return AssembledContext(
            session_label=request.agent.session_label,
            role=request.agent.role,
            system_prompt="",
            tools=(),
            current_message=request.event.content,
            situation=describe_situation(request),
            event_id=request.event.id,
            message={
                "content": request.event.content,
                "sender": incoming.sender,
                "thread": incoming.thread,
                "external_id": incoming.external_id,
            },
            fork_of=incoming.fork_of and incoming.fork_of[0],
            fork_through=incoming.fork_of and incoming.fork_of[1],
            replaces=incoming.replaces,
            attachments=incoming.attachments,
            model=incoming.model,
            has_tools=incoming.has_tools,
            is_prepared=False,
        )

    async def _assemble_context(self, request: Request, context: AssembledContext) -> None:
        """Put together what the agent is shown that answers a message."""
        label, channel = context.session_label, request.event.channel or ""
        assembled = await self._broker.assemble_context(
            request, session_label=label, task=request.event.content
        )
        context.system_prompt, context.current_message = assembled.system_prompt, assembled.current_message
        files = {SEND_FILE} if self._sends_files(channel) else set[str]()
        context.tools = tuple(sorted({*assembled.tools, *files})) if context.has_tools else ()
        for text in collect_contexts(request):
            context.prepend(text)
        # Reminders that came since the person last wrote: an answer to one must be understood.
        thread, event_id = (context.message or {}).get("thread") or "", request.event.id or ""
        sent = await self._ledgers.events.read_now(
            events.list_unasked_before, channel=channel, external_id=thread, event_id=event_id
        )
        for each in reversed(sent):
            context.prepend(wrapped("message", each.content, sender=AGENT_SENDER, sent_at=each.occurred_at))

    async def _list_chosen_files(self, request: Request) -> tuple[Attachment, ...]:
        """The files that the agent sends along."""
        if request.event.channel not in self._config.channels:
            return ()
        return list_chosen(
            await self._ledgers.agents.read(
                tool_calls.results_of, request_id=request.request_id, tool=SEND_FILE
            ),
            self._config.attachments.max_files,
        )

    async def _finalize(self, journey: Journey) -> None:
        """Let automations tidy up, and see to it that all they did is recorded."""
        await self._runner.fire("finalize", journey.occasion)
        await self._runner.wait_until_settled()

    def _is_on_channel(self, request: Request) -> bool:
        """Whether it came by a channel of the settings, and not by a screen of the home."""
        return self._config.channels.get(request.event.channel or "") is not None

    async def _let_automations_deny(self, journey: Journey) -> None:
        """Automations may deny what was allowed, never allow what was denied."""
        if journey.denied is None:
            returned = await self._fire("after:resolveAccess", journey)
            journey.denied = returned.deny
        if journey.denied is not None:
            journey.spans[-1] = replace(journey.spans[-1], outcome="denied")

    async def _answer_without_agent(self, journey: Journey) -> None:
        request = journey.request
        answer_id = ids.derived("evt", request.request_id, "answer")
        if journey.response is not None and journey.denied is not None:
            delivery = self._delivery.deliver_response(request, journey.response, answer_id)
            await self._stage(journey, "deliverResponse", delivery)
        elif journey.response is not None:
            answer = Response(content=journey.response)
            result = Result(execution_id="", request_id=request.request_id, response=answer)
            journey.idempotency_key = answer_id
            await self._deliver(journey, result, answer_id)
        if journey.denied is None:
            await self._fire("after:deliverResponse", journey)
            await self._stage(journey, "finalize", self._finalize(journey))

        def end(connection: apsw.Connection) -> None:
            requests.update(connection, request)
            status = "done" if journey.denied is None else "denied"
            requests.end(connection, request.request_id, status, error=journey.denied)

        await self._ledgers.runtime.write(end)
        _log_end(request, "done" if journey.denied is None else "denied")

    async def _deliver(
        self, journey: Journey, result: Result, answer_id: str, files: tuple[Attachment, ...] = ()
    ) -> None:
        """Hand an answer to its channel as automations have left it, which the journey's result then says."""
        request, started = journey.request, _Started()
        occasion = replace(journey.occasion, result=result)
        review = await self._runner.review_answer(occasion, answer_id)
        if self._runner.registry.at(BEFORE_DELIVERY):
            is_changed = "changed" if review.answer is not None else "ok"
            outcome = is_changed if review.withhold is None else "withheld"
            self._note(journey, BEFORE_DELIVERY, started, outcome, kind="hook")
        delivery = self._delivery.deliver_answer(request, result.response, review, answer_id, files)
        response = await self._stage(journey, "deliverResponse", delivery)
        journey.result, journey.response = replace(result, response=response), response.content

    async def _fail(self, journey: Journey, status: Literal["failed", "cancelled"], error: str) -> None:
        id_ = journey.request.request_id
        if await self._ledgers.runtime.write(
            requests.end_without_run, request_id=id_, status=status, error=error
        ):
            await self._finalize(journey)
            await self._record(journey)
            _log_end(journey.request, status)

    async def _fire(self, hook_point: str, journey: Journey) -> Returned:
        started = _Started()
        returned = await self._runner.fire(hook_point, journey.occasion)
        if self._runner.registry.at(hook_point):
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
        await self._ledgers.runtime.write(_write_trace, journey)


class _Started:
    """When something began. The id is made then, so that ids sort as things happened."""

    def __init__(self) -> None:
        self.id = ids.new("spn")
        self.at = clock.timestamp(clock.now())
        self._begun = time.perf_counter()

    def elapsed_ms(self) -> float:
        return round((time.perf_counter() - self._begun) * 1000, 3)


def _is_in_company(request: Request) -> bool:
    """Whether others than the owner read the answer."""
    return request.access.memory != "all"


def _resolve_sender(connection: apsw.Connection, seen: Seen) -> Sender:
    """Whom a sender is. A new one who has somebody else's name becomes a merge suggestion, never a merge."""
    sender = senders.resolve(connection, seen)
    if sender.is_new and not sender.is_owner and seen.display_name:
        now = clock.timestamp(clock.now())
        candidates.note_sender(
            connection, sender.entity_id, channel=seen.channel, name=seen.display_name, now=now
        )
    return sender


def _write_request(journey: Journey, connection: apsw.Connection) -> None:
    """Record what became known of a request, and its trace."""
    requests.update(connection, journey.request)
    _write_trace(connection, journey)


def _write_trace(connection: apsw.Connection, journey: Journey) -> None:
    id_ = journey.request.request_id
    if journey.agent_ended is not None:
        ended_at, outcome = journey.agent_ended
        trace.end_stage(connection, id_, "runAgent", ended_at=ended_at, outcome=outcome)
    for span in journey.spans:
        trace.record_span(connection, span)
    last = next((span.name for span in reversed(journey.spans) if span.kind == "stage"), None)
    if last is not None:
        requests.enter_stage(connection, id_, last)


def _log_end(request: Request, status: str, execution_id: str | None = None) -> None:
    """A line of the log. It names and counts, and holds nothing of what was said."""
    known = {"request_id": request.request_id, "parent_request_id": request.parent_request_id}
    told = {"status": status, "channel": request.event.channel, "execution_id": execution_id, **known}
    _log.info("a request ended", extra={name: value for name, value in told.items() if value})


def _journey(request: Request) -> Journey:
    """A journey that goes on behind the queue, perhaps in another process.

    Of how the message came in, only what the request knows is left: the stages from here on read no more.
    """
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
