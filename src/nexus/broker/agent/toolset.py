"""The tools of a run, as the agent library sees them: every call is a step, and is kept in the journal."""

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolReturnPart
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from nexus.broker.agent.records import Approve, BegunCall, CallTool, Journal, Step, ToolCall, unasked
from nexus.broker.agent.text_calls import CALLS_IN_TEXT
from nexus.broker.streams import Stream
from nexus.broker.tools import Tool
from nexus.errors import LimitError, ToolError
from nexus.runs import Delta

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
        approve: Approve = unasked,
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
        repeated = 0 if self._tools[name].repeatable else _repeated(ctx.messages, name, tool_args)
        if repeated > _MOST_REPEATED:
            raise LimitError(
                f"The model keeps making the same call of {name}",
                hint="The call was made once. Use a larger model for tasks with tools.",
            )
        await self._run_step(f"tool:{name}", self._step, call, tool_args, bool(repeated))
        ended = self._ended.pop(call.call_id, None) or await self._journal.begin_call(call)
        if ended.state != "ended":
            # The engine says that it was made, and the result is gone: it counts as interrupted.
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
                else await self._made(call, arguments, interrupted=is_interrupted)
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

    async def _made(self, call: ToolCall, arguments: dict[str, Any], *, interrupted: bool) -> BegunCall:
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


def _repeated(messages: Sequence[ModelMessage], name: str, arguments: dict[str, Any]) -> int:
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
