"""A memory for Pydantic AI: `Agent(model, capabilities=[NexusMemory(memory, scope="user:7")])`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import FunctionToolset

from nexus.integrations.prompts import (
    REMEMBER,
    SEARCH,
    find_scope,
    format_hits,
    format_memories,
    read_content,
)
from nexus.library.memory import AsyncMemory


@dataclass
class NexusMemory(AbstractCapability[AgentDepsT]):
    """Gives an agent the memories that help, the tools `search_memory` and `remember`, and remembers runs.

    `scope` keeps the users of an application apart; it may be a function of the run's context, such as
    `lambda ctx: f"user:{ctx.deps.user_id}"`.
    """

    memory: AsyncMemory
    scope: str | Callable[[RunContext[AgentDepsT]], str | None] | None = None
    limit: int = 5
    _memories: str = ""

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> "NexusMemory[AgentDepsT]":
        """Look once for what helps with the run's prompt."""
        question = _read_prompt(ctx)
        if not question:
            return self
        found = await self.memory.search(question, scope=self._scope(ctx), limit=self.limit)
        said = "\n".join(
            read_content(part.content)
            for message in ctx.messages
            for part in message.parts
            if isinstance(part, UserPromptPart)
        )
        return replace(self, _memories=format_memories(found, f"{said}\n{question}"))

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Put the memories in front of the user's last words, for this request alone."""
        if not self._memories:
            return request_context
        messages = list(request_context.messages)
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            parts = list(message.parts) if isinstance(message, ModelRequest) else []
            at = next((at for at, part in enumerate(parts) if isinstance(part, UserPromptPart)), None)
            if at is not None and isinstance(message, ModelRequest):
                parts.insert(at, UserPromptPart(self._memories))
                messages[place] = replace(message, parts=parts)
                return replace(request_context, messages=messages)
        return request_context

    async def after_run(
        self, ctx: RunContext[AgentDepsT], *, result: AgentRunResult[Any]
    ) -> AgentRunResult[Any]:
        """Record what was asked and answered."""
        exchange = [("user", _read_prompt(ctx)), ("assistant", str(result.output))]
        messages = [{"role": role, "content": content} for role, content in exchange if content]
        await self.memory.add_messages(messages, scope=self._scope(ctx), thread=ctx.conversation_id)
        return result

    def get_toolset(self) -> FunctionToolset[AgentDepsT]:
        """The tools to search and to remember."""
        toolset: FunctionToolset[AgentDepsT] = FunctionToolset()

        @toolset.tool(description=SEARCH)
        async def search_memory(ctx: RunContext[AgentDepsT], question: str) -> str:  # pyright: ignore[reportUnusedFunction]
            found = await self.memory.search(question, scope=self._scope(ctx), limit=self.limit)
            return format_hits(found) or "Nothing found."

        @toolset.tool(description=REMEMBER)
        async def remember(ctx: RunContext[AgentDepsT], fact: str) -> str:  # pyright: ignore[reportUnusedFunction]
            return await self.memory.add(fact, scope=self._scope(ctx))

        return toolset

    def _scope(self, ctx: RunContext[AgentDepsT]) -> str | None:
        return find_scope(self.scope, ctx)


def _read_prompt(ctx: RunContext[Any]) -> str:
    prompt = ctx.prompt
    if prompt is None or isinstance(prompt, str):
        return (prompt or "").strip()
    return "\n".join(part for part in prompt if isinstance(part, str)).strip()
