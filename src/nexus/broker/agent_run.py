"""One run of an agent, from its turn in the queue to its end: what the session queue runs as `agent`.

What goes on after a crash, by when it came:

    the process died …           on record              what goes on
    before the run's record      the event              nothing: `Broker.end_orphans` ends the request;
                                                        the channel or sender delivers the message again
    before the engine's record   the run                `SessionQueue.hand_over_missing` hands it over
    in `before_run`              the run                it is called again, with the same ids
    while a model answered       the question           `RecordedModel` asks again; the lost call is billed
    after an answer              question and answer    `RecordedModel` reads it from the journal
    in a tool call               the call's beginning   `RecordedTools` repeats it if the tool is repeatable;
                                                        otherwise the model is told of the interruption
    in `after_run`               the turn, as done      the run is replayed and `after_run` called again: the
                                                        answer has the run's id, and is recorded once
    while it failed or stopped   the step `end`         it ends the same way (`_end_as_before`)
    after `executions.end`       the run's end          the engine's execution ends as soon as it begins
    ten times, and no step       the engine's verdict   `SessionQueue` calls `AgentRuns.after_loss`, then
    more was recorded                                   records the end

The process that serves the home next takes the run over as it opens the engine (`engine.store.take_over`).
It begins it from the start: recorded steps return what they gave.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import apsw

from nexus import attachments, secrets
from nexus.attachments import Attachment
from nexus.broker import pace
from nexus.broker.agent import load_library
from nexus.broker.agent.records import Limits
from nexus.broker.agent.slots import BACKGROUND, PERSON, WORKER
from nexus.broker.approvals import Reason
from nexus.broker.attached import read_late
from nexus.broker.broker import Broker
from nexus.broker.budgets import Budgets, Spender
from nexus.broker.compaction import SHORT_OUTPUT_TOKENS, budget_tokens, compact
from nexus.broker.dispatch import Dispatcher
from nexus.broker.journal import LedgerJournal, key_of
from nexus.broker.questions import render
from nexus.broker.queue import ActiveRun
from nexus.broker.streams import Stream
from nexus.broker.taint import find_effects, find_source
from nexus.broker.tools import Call, Context, Preview, Sandbox, Tool, skill
from nexus.broker.tools import Grant as SandboxGrant
from nexus.broker.tools import Limits as SandboxLimits
from nexus.config import AgentsConfig, Config
from nexus.context import AssembledContext, compaction, history
from nexus.context.assemble import with_profile
from nexus.errors import RESTART_AFTER_UPGRADE, TEMPORARY_LEDGER_ERRORS, AgentError, NexusError, ToolError
from nexus.home import PRIVATE_DIRECTORY, Home
from nexus.ledgers import Ledgers, events
from nexus.ledgers.agents import messages, tool_calls, turns
from nexus.ledgers.agents.history import Turn as PastTurn
from nexus.ledgers.agents.messages import NewMessage
from nexus.ledgers.agents.turns import OpenTurn
from nexus.ledgers.database import without_yielding
from nexus.ledgers.runtime import requests, usage
from nexus.ledgers.runtime.approvals import Approval
from nexus.ledgers.runtime.executions import Execution
from nexus.request import Access, Request
from nexus.runs import Delta, Response, Result
from nexus.skills.catalog import Entry

# `load_library` imports it, when the first run begins.
if TYPE_CHECKING:
    from nexus.broker.agent import loop

# What a person or a task is answered with may be long; what the memory's own work gives is not.
_OUTPUT_TOKENS = {"manager": 8_192, "worker": 8_192}
_BRIEF_OUTPUT_TOKENS = 300

_OWN_SESSIONS = "meeseeks:"
"""How the label of an automation's own session begins; roles of the program are automations, too. The
specification's word for an agent that works in the background is stored, so it stays."""

Failure = Literal["failed", "cancelled", "lost"]
"""Why a run has no answer. `lost`: the engine gave up on it, as where it took its process down each time."""


class RunCallbacks(Protocol):
    """What the layer above does around runs. Implemented by `pipeline.Pipeline`."""

    async def before_run(
        self, request: Request, context: AssembledContext, execution: Execution, tell: Callable[[str], None]
    ) -> None:
        """Fill the context of a run that begins unprepared, and record it with the run.

        `tell` is told what takes long. Called again only if a crash came before it was recorded.
        """
        ...

    async def may_change_answer(self, request: Request, session_label: str) -> bool:
        """Say whether the answer of a request's run in a session may be changed before it is delivered."""
        ...

    async def after_run(self, request: Request, context: AssembledContext, result: Result) -> Result:
        """A run has its answer and has not ended; returns the result as it was delivered.

        After a crash it may be called again.
        """
        ...

    async def after_failure(self, request: Request, execution: Execution, status: Failure) -> None:
        """A run has no answer and has not ended. After a crash it may be called again."""
        ...

    async def ask_owner(self, request: Request, approval: Approval) -> None:
        """A call begins to wait for the owner. After a crash it may be called again."""
        ...


async def _nobody(recorded: int | None) -> list[str]:
    return []


async def _refuse(tool: Tool, arguments: Mapping[str, Any], call_id: str) -> str:
    raise ToolError(f"`{tool.name}` may not be called now", hint="Answer in text.")


class AgentRuns:
    """Runs the agents of a home, each in its turn: the code behind `AGENT_WORK` in the session queue."""

    def __init__(self, broker: Broker, callbacks: RunCallbacks) -> None:
        self._broker = broker
        self._callbacks = callbacks

    async def run(self, run: ActiveRun) -> dict[str, Any]:
        """Run one; what came of it, as JSON holds it."""
        broker = self._broker
        # As it was queued: the settings may name other channels by now.
        lane = run.execution.lane
        if lane == "channels":
            async with broker.pace.answer():
                return await AgentRun(broker, self._callbacks, run)()
        with broker.pace.ahead(run.execution.id) if lane == "chat" else nullcontext():
            return await AgentRun(broker, self._callbacks, run)()

    async def after_loss(self, execution: Execution, status: Literal["cancelled", "lost"]) -> None:
        """Let go of what a run waited for that ended while it did not run, and tell whoever waits for it.

        Whoever cancelled it knows.
        """
        ledgers, workers = self._broker.ledgers, self._broker.workers
        if status == "cancelled":
            await workers.abandon(execution.id)
            await workers.stop_reflections(execution.id)
            return
        request = await requests.restore(ledgers, execution.request_id)
        if request is None:
            return
        opened = await ledgers.agents.read_now(turns.find, execution_id=execution.id)
        await _let_go(workers, ledgers, request, execution.id, opened)
        await self._callbacks.after_failure(request, execution, status)


class AgentRun:
    """One run. Made again when the run is resumed after a crash."""

    def __init__(self, broker: Broker, callbacks: RunCallbacks, run: ActiveRun) -> None:
        self._broker = broker
        self._callbacks = callbacks
        self._run = run
        self._ledgers = run.ledgers
        self._opened: OpenTurn | None = None
        self._stream: Stream | None = None
        self._automation = ""
        self._profile = ""
        self._skills: list[Entry] = []
        """Offered in the prompt."""
        self._expected: dict[str, str] = {}
        """The state of the file that the owner was shown, by the key of the call."""

    async def __call__(self) -> dict[str, Any]:
        request = await requests.restore(self._ledgers, self._run.execution.request_id)
        if request is None:
            raise AgentError("The request of this run was deleted")
        stream = self._stream = self._broker.streams.open(self._run.execution.id)
        try:
            if self._run.steps.end is not None:
                await self._end_as_before(*self._run.steps.end)
            await load_library()
            context = AssembledContext.from_json(self._run.execution.input["context"])
            self._automation = await self._find_automation(request, context)
            await self._prepare(request, context, self._run.execution)
            self._skills = await self._offer_skills(request, context)
            stream.is_held = await self._callbacks.may_change_answer(request, context.session_label)
            for other in await self._load_said(self._run.collected):
                context.current_message = f"{context.current_message}\n\n{other.current_message}"
                context.attachments += other.attachments
            await compact(
                self._run,
                request,
                context,
                self._broker.streams,
                partial(self._job, request, context),
                budget_tokens=await self._budget_tokens(request, context),
                fixed_tokens=self._fixed_tokens(context),
            )
            # Read when the run begins, so that what is forgotten meanwhile is not in the queue.
            visible = request.access.visibility(request.event.thread_id)
            if context.knows_owner and request.access.level == "owner" and visible.everything:
                self._profile = await self._broker.profile.text()
            self._run.context.require()
            self._opened = await self._begin_turn(request, context)
            result = await self._answer(request, context, self._opened, stream)
            self._run.context.require()
            # What runs after a turn may fork the conversation with it: it is over when they begin. After a
            # crash the resumed run finds this turn and replays it.
            await self._ledgers.agents.write(turns.end, turn_id=self._opened.id, status="done", error=None)
            result = await self._deliver(request, context, result)
            if stream.is_held or result.response.changed_by:
                stream.replace(result.response.content)
        except asyncio.CancelledError:
            if self._run.context.entry.reason not in {"cancelled", "timeout"}:
                stream.close()  # the run goes on elsewhere, and everything stays open
                raise
            await self._run.steps.record_end("cancelled")
            await self._keep_partial(stream.partial)
            await self._end(request, "cancelled", "Canceled.")
            self._broker.streams.finish(self._run.execution.id, stream)
            raise
        except TEMPORARY_LEDGER_ERRORS:
            stream.close()  # the queue takes it back, and everything stays open
            raise
        except Exception as error:
            text = self._broker.models.redact(_describe_error(error))
            await self._run.steps.record_end("failed", text)
            await self._end(request, "failed", text)
            self._broker.streams.finish(self._run.execution.id, stream)
            if text == str(error):
                raise
            raise AgentError(text) from None
        await self._end(request, "done", result.response.content)
        self._broker.streams.finish(self._run.execution.id, stream)
        return result.to_json()

    async def _deliver(self, request: Request, context: AssembledContext, result: Result) -> Result:
        """Let the layer above deliver the answer, and do what follows."""
        try:
            return await self._callbacks.after_run(request, context, result)
        except asyncio.CancelledError:
            channel = request.event.channel
            if self._run.context.entry.reason not in {"cancelled", "timeout"} or channel is None:
                raise
            if not await self._ledgers.events.read(
                events.find_by_external_id, channel=channel, external_id=result.execution_id
            ):
                raise
        # The stop came too late: the answer is on record, and may have been read. Only the rest was cut off.
        return await self._callbacks.after_run(request, context, result)

    async def _find_automation(self, request: Request, context: AssembledContext) -> str:
        """The automation that this run works for, if any: the one that started it, or its dispatcher's."""
        if context.automation:
            return context.automation
        if context.session_label.startswith(_OWN_SESSIONS):
            return context.session_label.split(":")[1]
        if request.depth == 0:
            return ""
        return (
            await self._ledgers.runtime.read(
                usage.automation_of_dispatcher, worker_request_id=request.request_id
            )
            or ""
        )

    async def _end_as_before(self, status: str, error: str) -> None:
        """End a resumed run as it was ending when its process died: somebody may have been told already."""
        self._opened = await self._ledgers.agents.read_now(turns.find, execution_id=self._run.execution.id)
        if status == "failed":
            raise AgentError(error)
        self._run.context.entry.stop("cancelled")
        await asyncio.sleep(0)  # where the cancellation arrives

    async def _prepare(self, request: Request, context: AssembledContext, execution: Execution) -> None:
        """Let the layer above put the context together, unless it did so before a crash."""
        if not context.is_prepared:
            self._run.context.require()
            await self._callbacks.before_run(request, context, execution, self._tell)

    def _tell(self, doing: str) -> None:
        if self._stream is not None:
            self._stream.publish(Delta.status(doing))

    async def _offer_skills(self, request: Request, context: AssembledContext) -> list[Entry]:
        """The skills that the prompt names. Read when the run begins: some may have been disabled."""
        if skill.NAME not in context.tools:
            return []
        offered = await self._broker.find_skills(skill.principal_access(request, self._access(request)))
        if offered:
            skill.record_offer(self._ledgers, request, self._run.execution.id, offered)
        return offered

    async def _load_said(self, taken: Iterable[Execution]) -> list[AssembledContext]:
        """What was said into this run. A message is prepared like one with a run of its own."""
        contexts: list[AssembledContext] = []
        for execution in taken:
            context = AssembledContext.from_json(execution.input["context"])
            request = await requests.restore(self._ledgers, execution.request_id)
            if request is None:
                continue  # it was forgotten
            # A result that came back to a worker is part of the task for which it was prepared.
            if request.depth == 0:
                await self._prepare(request, context, execution)
            contexts.append(context)
        return contexts

    async def _budget_tokens(self, request: Request, context: AssembledContext) -> int:
        limits = _limits(self._broker.config, request, context)
        name = self._names(context)[0]
        return await budget_tokens(self._broker.config, self._broker.models, name, limits.output_tokens)

    def _fixed_tokens(self, context: AssembledContext) -> int:
        tools = [(tool.name, tool.description, tool.parameters) for tool in self._tools(context)]
        return compaction.estimate(self._system_prompt(context)) + compaction.estimate(json.dumps(tools))

    def _system_prompt(self, context: AssembledContext) -> str:
        offered = skill.describe_offered(self._skills)
        prompt = "\n\n".join(filter(None, (context.system_prompt, offered)))
        return with_profile(prompt, self._profile)

    def _names(self, context: AssembledContext) -> tuple[str, ...]:
        return (context.model,) if context.model else self._broker.models.names(context.role)

    async def _begin_turn(self, request: Request, context: AssembledContext) -> OpenTurn:
        return await self._ledgers.agents.write(
            turns.begin,
            session_label=context.session_label,
            execution_id=self._run.execution.id,
            request_id=request.request_id,
            role=context.role,
            thread_id=request.event.thread_id,
            fork_of=context.fork_of,
            fork_through=context.fork_through,
            replaces=context.replaces,
        )

    async def _answer(
        self, request: Request, context: AssembledContext, opened: OpenTurn, stream: Stream
    ) -> Result:
        from nexus.broker.agent import loop

        journal = self._journal(request, context, opened, context.event_id)
        before = await history.load(self._ledgers, request, context.session_label, opened)
        job = replace(
            self._job(request, context, await self._prompt(context), before.blocks, opened, stream),
            journal=journal,
            call=partial(self._call, request, context, journal),
            approve=partial(self._approve, request, context, journal, stream),
            steered=self._load_steered,
            output_schema=context.output_schema,
            images=[each for each in context.attachments if each.is_image],
        )
        outcome = await loop.run(job)
        return Result(
            execution_id=self._run.execution.id,
            request_id=request.request_id,
            session_label=context.session_label,
            response=Response(content=outcome.text, model=outcome.model),
            usage=await journal.used(),
        )

    def _journal(
        self, request: Request, context: AssembledContext, opened: OpenTurn, event_id: str | None
    ) -> LedgerJournal:
        spender = Spender(
            request_id=request.request_id,
            root_request_id=request.root_request_id,
            execution_id=self._run.execution.id,
            invocation_id=context.invocation_id,
            role=context.role,
            automation=self._automation,
        )
        return LedgerJournal(
            self._ledgers,
            request,
            opened,
            budgets=Budgets(self._ledgers, self._broker.config.budgets),
            spender=spender,
            event_id=event_id,
            waiting=self._run.execution.waiting_since is not None,
        )

    def _job(
        self,
        request: Request,
        context: AssembledContext,
        prompt: str,
        past: Sequence[PastTurn],
        opened: OpenTurn,
        stream: Stream,
    ) -> "loop.Job":
        """A job in this run's conversation whose tools do nothing."""
        from nexus.broker.agent import loop

        access = self._access(request)
        return loop.Job(
            execution_id=self._run.execution.id,
            step=partial(self._run.steps.run, keeps_own_record=True),
            system_prompt=self._system_prompt(context),
            prompt=prompt,
            history=past,
            tools=(tools := self._tools(context)),
            # What a provider runs itself can't be refused when it is called, so it isn't offered.
            native=frozenset(tool.name for tool in tools if tool.native and access.may_call(tool.name)),
            models=self._broker.models,
            names=self._names(context),
            load=self._bytes_of,
            limits=_limits(self._broker.config, request, context),
            journal=self._journal(request, context, opened, None),
            stream=stream,
            call=_refuse,
            steered=_nobody,
        )

    async def _bytes_of(self, attachment: Attachment) -> bytes | None:
        return await asyncio.to_thread(attachments.read, self._broker.home, attachment)

    def _tools(self, context: AssembledContext) -> Sequence[Tool]:
        return [self._broker.tools[name] for name in context.tools if name in self._broker.tools]

    def _access(self, request: Request) -> Access:
        """What the tools of this run may reach: what its request may, where nothing else was said."""
        granted: str | None = self._run.execution.input.get("access")
        return request.access if granted is None else requests.access_from(granted)

    async def _load_steered(self, recorded: int | None) -> list[str]:
        said = await self._load_said(await self._run.load_steered(recorded))
        return [await self._prompt(context) for context in said]

    async def _prompt(self, context: AssembledContext) -> str:
        """What the model is told now, with files that took too long to read when they came."""
        given, home = self._broker.config.attachments, self._broker.home
        late = await read_late(context.current_message, context.attachments, home, given)
        return "\n\n".join(filter(None, (context.user_turn(), late)))

    async def _approve(
        self,
        request: Request,
        context: AssembledContext,
        journal: LedgerJournal,
        stream: Stream,
        tool: Tool,
        arguments: Mapping[str, Any],
        call_id: str,
        interrupted: bool,
    ) -> bool:
        """Wait for the owner, where the settings say so. ToolError where the call may not be made."""
        waits, access = self._broker.approvals, self._access(request)
        execution_id, key = self._run.execution.id, journal.key(call_id)
        if not access.may_call(tool.name):
            raise ToolError(
                f"`{tool.name}` may not be used here", hint="Do without it, or say why it is needed."
            )
        if interrupted and not tool.repeatable and not await waits.is_unmade(execution_id, key):
            return False  # it may have been made already, so it won't be made now
        effects = find_effects(tool, access)
        tools = self._broker.tools.values()
        look = partial(find_source, self._ledgers, request, context.session_label, tools, access)
        reason = await waits.find_reason(tool.name, arguments, effects, look)
        if reason is None and tool.asks:
            reason = Reason(text=tool.asks)
        if reason is None:
            return False

        async def make_preview() -> Preview:
            if tool.preview is None:
                return Preview()
            given = await self._tool_context(request, context, journal, call_id)
            with without_yielding():
                return await tool.preview(arguments, given)

        async def show_question(approval: Approval) -> None:
            stream.publish(
                Delta(
                    kind="approval",
                    text=render(approval),
                    tool=tool.name,
                    call_id=call_id,
                    approval_id=approval.id,
                    call_hash=approval.call_hash,
                )
            )
            await self._callbacks.ask_owner(request, approval)

        with pace.waiting():
            again = reason
            while True:
                preview = await make_preview()
                waiting = await waits.ask(
                    request_id=request.request_id,
                    execution_id=execution_id,
                    call_key=key,
                    tool=tool.name,
                    arguments=arguments,
                    reason=again,
                    preview=preview,
                    asked=show_question,
                )
                if waiting.status == "waiting":
                    await self._run.context.note_waiting()
                allowed = await waits.wait_for_answer(waiting)
                # A rule is about any content, an answer about what was shown.
                self._expected[key] = "" if allowed.pattern else preview.state
                if (
                    allowed.pattern
                    or waiting.status == "allowed"
                    or (await make_preview()).state == preview.state
                ):
                    break
                again = replace(reason, text=f"The file changed after you were asked. {reason.text}")
            return await waits.wait(allowed)

    async def _call(
        self,
        request: Request,
        context: AssembledContext,
        journal: LedgerJournal,
        tool: Tool,
        arguments: Mapping[str, Any],
        call_id: str,
    ) -> str:
        known = await asyncio.to_thread(_read_secrets, self._broker.home)
        given = await self._tool_context(request, context, journal, call_id)
        given = replace(given, expected=self._expected.pop(journal.key(call_id), ""))
        try:
            # Some tools have a time limit of their own.
            with pace.waiting(), without_yielding():
                result = await tool.call(arguments, given)
            return secrets.redact(result, known)
        except ToolError as error:
            raise ToolError(secrets.redact(error.message, known), hint=error.hint) from None

    async def _tool_context(
        self, request: Request, context: AssembledContext, journal: LedgerJournal, call_id: str
    ) -> Context:
        access = self._access(request)
        call = Call(
            request=replace(request, access=access),
            execution_id=self._run.execution.id,
            session_label=context.session_label,
            key=journal.key(call_id),
        )
        self._run.context.require()
        if access.memory_socket:
            # A run that goes on after a restart may come before the process that opens its socket.
            place = Path(access.memory_socket).parent
            await asyncio.to_thread(place.mkdir, PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        given = _tool_context(self._broker.home, access, call, self._broker.workers, context)
        if not self._skills:
            return given
        # Looked at again: what was changed or disabled while the agent worked is not shown.
        offered = await self._broker.find_skills(access)
        return replace(given, sandbox=skill.show_offered(given.sandbox, offered))

    async def _end(self, request: Request, status: Literal["done", "failed", "cancelled"], text: str) -> None:
        """Record the end where it belongs, the worker's result among it, before the run itself ends."""
        error = None if status == "done" else text
        if self._opened is not None and status == "failed":
            await self._ledgers.agents.write(turns.end, turn_id=self._opened.id, status=status, error=error)
        workers, execution_id = self._broker.workers, self._run.execution.id
        if status == "failed":
            await _let_go(workers, self._ledgers, request, execution_id, self._opened)
        elif status == "cancelled" or request.depth > 0:
            await workers.abandon(execution_id)
        if status == "cancelled":
            await workers.stop_reflections(execution_id)
        if status != "done":
            await self._callbacks.after_failure(request, self._run.execution, status)
        if self._run.execution.session_label != request.agent.session_label:
            return
        if request.depth > 0:
            await workers.deliver(request.request_id, status, text)
        if status != "done":  # otherwise it ends with the run, in one commit (see `executions.end`)
            await workers.end_request(request, status, text)

    async def _keep_partial(self, text: str) -> None:
        """Keep what a stopped run has written of its answer, and end its turn, in one transaction."""
        from nexus.broker.agent import message_json

        turn = self._opened
        if turn is None:
            return
        answer = NewMessage(role="assistant", content=text, parts_json=message_json.dump_note(text))

        def stop(connection: apsw.Connection) -> None:
            said = messages.of_turn(connection, turn)
            if text and said and said[-1].role != "assistant":
                messages.append(connection, turn, len(said), [answer])
            turns.end(connection, turn.id, "cancelled", error="Canceled.")

        await self._ledgers.agents.write(stop)


async def _let_go(
    workers: Dispatcher, ledgers: Ledgers, request: Request, execution_id: str, opened: OpenTurn | None
) -> None:
    """A run failed: whatever it waited for goes on without it, or stops if nobody else will hear of it."""
    if request.depth == 0:
        done = () if opened is None else await ledgers.agents.read(tool_calls.list_done, turn=opened)
        await workers.release(execution_id, {key_of(offset, call_id) for offset, call_id in done})
    else:
        await workers.abandon(execution_id)
    await workers.stop_reflections(execution_id)


def _limits(config: Config, request: Request, context: AssembledContext) -> Limits:
    agents = config.agents
    # Messages and workers wait for a provider. What works in the background is run again later, and would
    # keep a place of its lane.
    own = context.session_label == request.agent.session_label
    waits = own and not context.session_label.startswith(_OWN_SESSIONS)
    is_background = context.session_label.startswith(_OWN_SESSIONS) or context.invocation_id is not None
    if is_background and not context.is_awaited:
        priority, name = BACKGROUND, (context.automation or context.session_label.split(":")[1])
    elif request.depth > 0:
        priority, name = WORKER, "a worker"
    else:
        priority, name = PERSON, "another conversation"
    output_tokens = agents.output_tokens or _OUTPUT_TOKENS.get(context.role, SHORT_OUTPUT_TOKENS)
    return Limits(
        outage_ms=agents.outage_ms if waits else 0,
        max_turns=context.max_turns or agents.max_turns,
        timeout_ms=context.timeout_ms or agents.timeout_ms,
        max_requests=agents.max_requests,
        output_tokens=min(output_tokens, _BRIEF_OUTPUT_TOKENS) if context.is_brief else output_tokens,
        thinks=not context.is_brief,
        priority=priority,
        name=name.replace("-", " "),
        invocation_id=context.invocation_id,
        # Where somebody has said how long it may take, it takes no longer.
        patient=context.timeout_ms is None and agents.timeout_ms == AgentsConfig.timeout_ms,
    )


def _tool_context(
    home: Home, access: Access, call: Call, workers: Dispatcher, asked: AssembledContext
) -> Context:
    grants = tuple(
        SandboxGrant(path=Path(grant.path), writable=grant.writable) for grant in access.directories
    )
    # Relative paths start in the first directory that can be written to, as a person would expect.
    first = next((grant.path for grant in grants if grant.writable), grants[0].path if grants else Path("/"))
    if access.memory_socket and grants and first.is_relative_to(grants[0].path):
        # A role that writes only to a folder of its workspace works in the workspace.
        first = grants[0].path
    limits = (
        SandboxLimits() if asked.tool_timeout_ms is None else SandboxLimits(timeout_ms=asked.tool_timeout_ms)
    )
    # The home holds the token and the keys of the owner: what a tool may see of it is granted by name.
    hidden = (home.root.resolve(),)
    environment = {"NEXUS_MEMORY_SOCKET": access.memory_socket} if access.memory_socket else {}
    sandbox = Sandbox(
        grants=grants,
        hidden=hidden,
        network=access.network,
        limits=limits,
        environment=environment,
        cgroup=home.cgroup,
    )
    return Context(sandbox=sandbox, directory=first, call=call, workers=workers)


def _read_secrets(home: Home) -> list[str]:
    """What no tool result may show. Waits for the disk: call it on a thread."""
    with suppress(OSError, UnicodeDecodeError):
        return [home.token_file.read_text(encoding="utf-8").strip()]
    return []


def _describe_error(error: Exception) -> str:
    if isinstance(error, NexusError):
        return str(error)
    if isinstance(error, ImportError):
        return f"A module can't be loaded: {error}. {RESTART_AFTER_UPGRADE}"
    return f"Internal error: {type(error).__name__}: {error}"
