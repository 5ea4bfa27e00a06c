"""The agent loop: ask the model, run the tools that it calls, and so on until it has answered.

Every request to a model and every tool call is a step of the run, so a run that is resumed after a crash
goes through the same steps again and finds what came of them in its journal.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pydantic_ai
from pydantic_ai import Agent, ModelRequestNode, RunContext
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.exceptions import AgentRunError, ToolFailed
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema
from pydantic_graph import End

from nexus.attachments import Attachment
from nexus.broker.agent import fitting, message_json
from nexus.broker.agent.asking import Asking
from nexus.broker.agent.fitting import Images, Load, no_bytes
from nexus.broker.agent.model_requests import Form
from nexus.broker.agent.models import Models
from nexus.broker.agent.records import (
    Approve,
    BegunCall,
    CallTool,
    Journal,
    Limits,
    Outcome,
    Step,
    ToolCall,
    ask_nobody,
)
from nexus.broker.agent.slots import stopped_time, time_limit_of
from nexus.broker.agent.text_calls import CALLS_IN_TEXT
from nexus.broker.streams import Stream
from nexus.broker.tools import Tool
from nexus.errors import AgentError, LimitError, NexusError, ToolError
from nexus.ledgers.agents.history import Turn
from nexus.runs import Delta
from nexus.watch import finish

# In a terminal, the library would print a banner of its own into the chat.
pydantic_ai.BANNER_ENABLED = False

Steered = Callable[[int | None], Awaitable[list[str]]]
"""What was said into the run since it was last asked.

Given the number that the recorded question holds, it gives those again and takes nothing new.
"""
# Arguments only need to be an object here: the tool checks them, and says what is wrong in plain words.
_AN_OBJECT = SchemaValidator(core_schema.dict_schema(keys_schema=core_schema.str_schema()))
_INTERRUPTED = (
    "This call was interrupted by a restart. It may or may not have taken effect: look before you repeat it."
)
_REPEATED = (
    "You just made this call, and its result is above. It was not made again. Say in words what came of it."
)
# A model that is told so and goes on would do so until the run's limit.
_MOST_REPEATED = 2


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that one run needs."""

    execution_id: str
    step: Step
    system_prompt: str
    prompt: str
    history: Sequence[Turn]
    """What was said before."""
    tools: Sequence[Tool]
    native: frozenset[str] = frozenset()
    """Tools that the provider's built-in version may replace. The provider runs those without asking us."""
    models: Models
    names: tuple[str, ...]
    """The models to ask, in order."""
    limits: Limits
    journal: Journal
    stream: Stream
    call: CallTool
    steered: Steered
    approve: Approve = ask_nobody
    images: Sequence[Attachment] = ()
    """What the prompt shows, where the model reads images."""
    load: Load = no_bytes
    """The bytes of an attachment of this conversation; None where it was forgotten."""
    output_schema: Mapping[str, Any] | None = None
    """The JSON schema that the answer is asked to have; its text may still differ from it."""


async def run(job: Job) -> Outcome:
    """Bring a run to its end: its answer, or an AgentError that says why there is none.

    The time limit is of this process: while a run waited for its resumption, it did nothing.
    """
    limit = asyncio.timeout(job.limits.timeout_ms / 1000)

    def extend(seconds: float) -> None:
        until = limit.when()
        limit.reschedule(None if until is None else until + seconds)

    @contextmanager
    def clock_stopped() -> Generator[None]:
        with stopped_time(limit), stopped_time(time_limit_of(job.limits.invocation_id)):
            yield

    request_count = 0
    try:
        async with limit:
            asking = Asking(
                candidates=await job.models.candidates(job.names),
                journal=job.journal,
                limits=job.limits,
                stream=job.stream,
                redact=job.models.redact,
                deadline=time.monotonic() + job.limits.timeout_ms / 1000,
                extend=extend,
                knowledge=job.models.knowledge,
                slots=job.models.slots,
                clock_stopped=clock_stopped,
                images=Images(job.load),
                form=None if job.output_schema is None else Form(schema=job.output_schema),
            )
            model = RecordedModel(job.step, asking, job.journal, job.stream, job.history)
            tools = RecordedTools(
                job.tools,
                step=job.step,
                journal=job.journal,
                stream=job.stream,
                call=job.call,
                approve=job.approve,
                waiting=partial(stopped_time, limit),
                max_retries=job.limits.max_turns,
                native=job.native,
            )
            # Wrong calls and empty answers are told to the model; the turns alone bound how often.
            agent = Agent(
                model,
                instructions=job.system_prompt,
                toolsets=[tools],
                retries=job.limits.max_turns,
                # Optional: a model that has none is asked without it.
                capabilities=[NativeTool(WebSearchTool(optional=True))] if job.native else [],
            )
            prompt = fitting.add_images(job.prompt, job.images)
            # Tool calls are recorded in the order of the answer: their results are taken in that order too.
            with Agent.parallel_tool_call_execution_mode("parallel_ordered_events"):
                async with agent.iter(prompt, run_id=job.execution_id) as going:
                    node = going.next_node
                    while not isinstance(node, End):
                        if isinstance(node, ModelRequestNode):
                            if request_count == job.limits.max_turns:
                                raise LimitError(
                                    f"The run made {request_count} model calls without finishing",
                                    hint="Raise `max_turns` in [agents] in config.toml.",
                                )
                            if request_count:
                                said = await job.steered(await model.count_said(2 * request_count))
                                node.request.parts = [*node.request.parts, *map(UserPromptPart, said)]
                            model.expect(node.request, 2 * request_count)
                            request_count += 1
                        node = await going.next(node)
    except TimeoutError:
        if not limit.expired():
            raise
        raise LimitError(
            f"The run exceeded {job.limits.timeout_ms} ms",
            hint="Raise `timeout_ms` in [agents] in config.toml.",
        ) from None
    except AgentRunError as error:
        raise AgentError(job.models.redact(f"The run failed: {error}")) from None
    return Outcome(
        text=node.data.output, requests=request_count, messages=2 * request_count, model=model.answered_by
    )


class RecordedModel(FallbackModel):
    """The model that the agent library sees: answers from the journal, and otherwise asks a provider.

    It inherits a model's interface from `FallbackModel`, and doesn't fall back: the order of the candidates,
    the retries and the bill are `Asking`'s.
    """

    def __init__(
        self, step: Step, asking: Asking, journal: Journal, stream: Stream, history: Sequence[Turn]
    ) -> None:
        first, *others = [candidate.model for candidate in asking.candidates]
        super().__init__(first, *others)
        self._run_step = step
        self._asking = asking
        self._journal = journal
        self._stream = stream
        # Kept from the agent, which would go through all of it several times for each request.
        self._history = history
        self._question: ModelRequest | None = None
        self._answer: ModelResponse | None = None
        self._offset = 0
        self._last: str | None = None
        self._is_replaying = True

    async def count_said(self, offset: int) -> int | None:
        """How many messages said into the run a recorded question holds; None: it was not asked yet.

        What comes in while a run is replayed is for the first question that nobody has asked: an answer that
        is recorded already was given without it.
        """
        kept = await self._journal.message(offset) if self._is_replaying else None
        if kept is None:
            return None
        return sum(isinstance(part, UserPromptPart) for part in message_json.load_message(kept).parts)

    def expect(self, question: ModelRequest, offset: int) -> None:
        """Which message of the run is answered next, and its place in the journal."""
        self._question, self._answer, self._offset = question, None, offset

    @property
    def answered_by(self) -> str | None:
        """The model that gave the last answer."""
        return self._last

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Make one recorded step of it. When it ends, the question and its answer are in the journal.

        The engine calls back: `WorkContext.step` runs `_ask_or_replay`, unless the step is on record.
        """
        await self._run_step("model", self._ask_or_replay, messages, model_request_parameters)
        answer = self._answer or await self._kept()
        if answer is None:
            # The engine has the step and the ledger has no answer, as after a restored backup: ask again.
            await self._ask_or_replay(messages, model_request_parameters)
            answer = self._answer
        assert answer is not None  # noqa: S101 - an invariant, for the reader and the type checker
        self._last = answer.model_name
        self._asking.resume(answer)
        return answer

    async def _ask_or_replay(self, messages: list[ModelMessage], parameters: ModelRequestParameters) -> None:
        assert self._question is not None  # noqa: S101 - an invariant, for the reader and the type checker
        # A crash may have come between the journal's record and the engine's.
        self._answer = await self._kept()
        if self._answer is not None:
            self._show_again(self._answer)
            return
        self._is_replaying = False
        question = message_json.dump_message(self._question)
        try:
            conversation = message_json.join(self._history, messages)
            answer = await self._asking.answer(conversation, parameters, own=self._offset + 1)
        except BaseException:
            # Unanswered, but keep the question. If the process dies first, the resumed run asks again.
            with suppress(NexusError):
                await finish(self._journal.append(self._offset, question))
            raise
        await self._journal.append(self._offset, question, message_json.dump_message(answer))
        self._answer = answer

    async def _kept(self) -> ModelResponse | None:
        kept = await self._journal.message(self._offset + 1)
        if kept is None:
            return None
        answer = message_json.load_message(kept)
        assert isinstance(answer, ModelResponse)  # noqa: S101 - an invariant, for the reader and the type checker
        return answer

    def _show_again(self, answer: ModelResponse) -> None:
        """Show an answer whose deltas were lost in a crash."""
        if self._stream.answers <= self._offset // 2:
            self._stream.publish(Delta(kind="begin"))
            self._stream.publish(Delta(kind="text", text=message_json.text_of(answer)))
            for call in answer.tool_calls:
                self._stream.publish(
                    Delta(
                        kind="tool_call",
                        text=call.args_as_json_str(),
                        tool=call.tool_name,
                        call_id=call.tool_call_id,
                    )
                )
            self._stream.publish(Delta(kind="done"))


class RecordedTools(AbstractToolset[Any]):
    """A run's tools, in their given order."""

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        step: Step,
        journal: Journal,
        stream: Stream,
        call: CallTool,
        approve: Approve = ask_nobody,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext[None],
        max_retries: int,
        native: Collection[str] = (),
    ) -> None:
        self._tools = {tool.name: tool for tool in tools if tool.is_local}
        self._run_step = step
        self._journal = journal
        self._stream = stream
        self._call = call
        self._approve = approve
        self._waiting = waiting
        self._max_retries = max_retries
        self._native = native
        self._ended: dict[str, BegunCall] = {}

    @property
    def id(self) -> str:
        return "nexus"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {
            name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=name,
                    description=tool.description,
                    parameters_json_schema=dict(tool.parameters),
                    unless_native=tool.native if name in self._native else None,
                ),
                max_retries=self._max_retries,
                args_validator=_AN_OBJECT,
            )
            for name, tool in self._tools.items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> str:
        """Calls of one answer run side by side; their steps begin in the order of the calls."""
        assert ctx.tool_call_id is not None  # noqa: S101 - an invariant, for the reader and the type checker
        call = ToolCall(call_id=ctx.tool_call_id, tool=name, arguments_json=json.dumps(tool_args))
        repeated = 0 if self._tools[name].repeatable else _count_repeats(ctx.messages, name, tool_args)
        if repeated > _MOST_REPEATED:
            raise LimitError(
                f"The model keeps making the same call of {name}",
                hint="The call was made once. Use a larger model for tasks with tools.",
            )
        await self._run_step(f"tool:{name}", self._step, call, tool_args, bool(repeated))
        ended = self._ended.pop(call.call_id, None) or await self._journal.begin_call(call)
        if ended.state != "ended":
            # The engine has the step and the ledger has no result, as after a restored backup: it counts as
            # interrupted.
            await self._step(call, tool_args, bool(repeated))
            ended = self._ended.pop(call.call_id)
        if ended.error is not None:
            raise ToolFailed(ended.error)
        return ended.result or ""

    async def _step(self, call: ToolCall, arguments: dict[str, Any], repeats: bool) -> None:
        begun = await self._journal.begin_call(call)
        if begun.state != "ended":
            is_interrupted = begun.state == "interrupted"
            begun = (
                BegunCall(state="ended", result=_REPEATED)
                if repeats
                else await self._make_call(call, arguments, interrupted=is_interrupted)
            )
            await self._journal.end_call(
                call.call_id, result=begun.result, error=begun.error, is_refused=begun.is_refused
            )
        self._ended[call.call_id] = begun
        self._stream.publish(
            Delta(
                kind="tool_result",
                text=begun.result or begun.error or "",
                tool=call.tool,
                call_id=call.call_id,
                failed=begun.error is not None,
            )
        )

    async def _make_call(self, call: ToolCall, arguments: dict[str, Any], *, interrupted: bool) -> BegunCall:
        tool = self._tools[call.tool]
        try:
            # What the tool doesn't know is refused before anybody is asked: what is asked about is what runs.
            arguments = dict(tool.prepare(arguments))
            with self._waiting():
                unmade = await self._approve(tool, arguments, call.call_id, interrupted)
        except ToolError as error:
            return BegunCall(state="ended", error=str(error), is_refused=True)
        try:
            if interrupted and not unmade and not tool.repeatable:
                return BegunCall(state="ended", error=_INTERRUPTED)
            return BegunCall(state="ended", result=await self._call(tool, arguments, call.call_id))
        except ToolError as error:
            return BegunCall(state="ended", error=str(error))


def _count_repeats(messages: Sequence[ModelMessage], name: str, arguments: dict[str, Any]) -> int:
    """How many times in a row before its last answer a model wrote this call into its text, and it worked.

    Small models recite their last call instead of answering. Calls that come as calls are meant.
    """
    *before, answer = messages
    if not (isinstance(answer, ModelResponse) and (answer.metadata or {}).get(CALLS_IN_TEXT)):
        return 0
    count = 0
    for called, result in zip(before[-2::-2], before[::-2], strict=False):
        made = {
            call.tool_call_id
            for call in (called.tool_calls if isinstance(called, ModelResponse) else ())
            if call.tool_name == name and call.args_as_dict() == arguments
        }
        if not all(isinstance(part, ToolReturnPart) for part in result.parts) or not any(
            isinstance(part, ToolReturnPart) and part.tool_call_id in made and part.outcome == "success"
            for part in result.parts
        ):
            break
        count += 1
    return count
