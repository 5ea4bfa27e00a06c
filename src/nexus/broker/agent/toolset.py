"""The tools of a run, as the agent library sees them: every call is a step, and is kept in the journal."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from nexus.broker.agent.records import BegunCall, CallTool, Journal, Step, ToolCall
from nexus.broker.streams import Stream
from nexus.broker.tools import Tool
from nexus.errors import AgentError, ToolError
from nexus.runs import Delta

# Arguments only need to be an object here: the tool checks them, and says what is wrong in plain words.
_AN_OBJECT = SchemaValidator(core_schema.dict_schema(keys_schema=core_schema.str_schema()))
_INTERRUPTED = (
    "This call was interrupted by a restart. It may or may not have taken effect: look before you repeat it."
)


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
        max_retries: int,
        native: Collection[str] = (),
    ) -> None:
        self._tools = {tool.name: tool for tool in tools if tool.is_local}
        self._run_step = step
        self._journal = journal
        self._stream = stream
        self._call = call
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
        await self._run_step(f"tool:{name}", self._step, call, tool_args)
        ended = self._ended.pop(call.call_id, None) or await self._journal.begin_call(call)
        if ended.state != "ended":
            raise AgentError(
                "An earlier tool call of this run is no longer in the ledger",
                hint="Ask again: it was deleted.",
            )
        if ended.error is not None:
            raise ToolFailed(ended.error)
        return ended.result or ""

    async def _step(self, call: ToolCall, arguments: dict[str, Any]) -> None:
        begun = await self._journal.begin_call(call)
        if begun.state != "ended":
            begun = await self._made(call, arguments, interrupted=begun.state == "interrupted")
            await self._journal.end_call(call.call_id, result=begun.result, error=begun.error)
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
        if interrupted and not tool.repeatable:
            return BegunCall(state="ended", error=_INTERRUPTED)
        try:
            return BegunCall(state="ended", result=await self._call(tool, arguments, call.call_id))
        except ToolError as error:
            return BegunCall(state="ended", error=str(error))
