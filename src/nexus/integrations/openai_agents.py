"""A memory for the OpenAI Agents SDK.

`Runner.run(agent, text, hooks=memory, run_config=memory.make_config())`, and an agent's
`tools=memory.list_tools()`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from agents import FunctionTool, RunConfig, RunContextWrapper, RunHooks, function_tool
from agents.run_config import CallModelData, ModelInputData
from agents.run_context import AgentHookContext

from nexus.integrations.prompts import (
    REMEMBER,
    SEARCH,
    find_scope,
    find_user,
    format_hits,
    format_memories,
    prepend,
    read_content,
)
from nexus.library.memory import AsyncMemory


class NexusMemory(RunHooks[Any]):
    """Gives agents the memories that help and the tools to search and remember, and remembers their runs.

    `scope` keeps the users of an application apart; it may be a function of the run's context object, such as
    `lambda user: f"user:{user.id}"`. `thread` names the conversation.
    """

    def __init__(
        self,
        memory: AsyncMemory,
        *,
        scope: str | Callable[[Any], str | None] | None = None,
        thread: str | None = None,
        limit: int = 5,
    ) -> None:
        self._memory = memory
        self._scope_of = scope
        self._thread = thread
        self._limit = limit

    def make_config(self, config: RunConfig | None = None) -> RunConfig:
        """Make the settings of a run with memories, out of others if there are some."""
        return replace(config or RunConfig(), call_model_input_filter=self.inject)

    async def inject(self, data: CallModelData[Any]) -> ModelInputData:
        """Put what helps in front of the user's last message, for this call of the model alone."""
        messages = cast("list[Any]", list(data.model_data.input))
        place = find_user(messages)
        if place is None:
            return data.model_data
        question = read_content(messages[place]["content"])
        found = await self._memory.search(question, scope=self._find_scope(data.context), limit=self._limit)
        said = "\n".join(read_content(each.get("content")) for each in messages)
        if memories := format_memories(found, said):
            content = prepend(memories, messages[place]["content"], part="input_text")
            messages[place] = {**messages[place], "content": content}
        return ModelInputData(input=messages, instructions=data.model_data.instructions)

    async def on_agent_end(self, context: AgentHookContext[Any], agent: Any, output: Any) -> None:
        """Record what was asked and answered."""
        asked = cast("list[Any]", context.turn_input)
        place = find_user(asked)
        question = "" if place is None else read_content(asked[place]["content"])
        exchange = [("user", question), ("assistant", str(output))]
        messages = [{"role": role, "content": content} for role, content in exchange if content]
        scope = self._find_scope(context.context)
        await self._memory.add_messages(messages, scope=scope, thread=self._thread)

    def list_tools(self) -> list[FunctionTool]:
        """List the tools to search and to remember."""

        @function_tool(description_override=SEARCH)
        async def search_memory(context: RunContextWrapper[Any], question: str) -> str:
            scope = self._find_scope(context.context)
            found = await self._memory.search(question, scope=scope, limit=self._limit)
            return format_hits(found) or "Nothing found."

        @function_tool(description_override=REMEMBER)
        async def remember(context: RunContextWrapper[Any], fact: str) -> str:
            return await self._memory.add(fact, scope=self._find_scope(context.context))

        return [search_memory, remember]

    def _find_scope(self, context: Any) -> str | None:
        return find_scope(self._scope_of, context)
