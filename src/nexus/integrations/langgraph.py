"""A memory for LangGraph: nodes that look for memories and record answers, and tools for the model."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.graph import MessagesState  # pyright: ignore[reportMissingTypeStubs] - it has none

from nexus.integrations.prompts import (
    REMEMBER,
    SEARCH,
    find_scope,
    format_hits,
    format_memories,
    prepend,
    read_content,
)
from nexus.library.memory import AsyncMemory

Scope = str | Callable[[RunnableConfig], str | None] | None


class MemoryState(MessagesState):
    """The state of a graph with a memory."""

    memories: str
    """What may help with the user's last message; empty if nothing does."""


class NexusMemory:
    """The nodes `memory.recall`, before the model, and `memory.record`, after it.

    The model's node sends `memory.inject(state)`. `scope` keeps the users of an application apart; it may be
    a function of the run's config, such as `lambda config: config["configurable"]["user_id"]`.
    """

    def __init__(self, memory: AsyncMemory, *, scope: Scope = None, limit: int = 5) -> None:
        self._memory = memory
        self._scope_of = scope
        self._limit = limit

    async def recall(self, state: MemoryState, config: RunnableConfig) -> dict[str, str]:
        """Look for what helps with the user's last message."""
        asked = _find_last(state["messages"], HumanMessage)
        if asked is None:
            return {"memories": ""}
        question = read_content(asked.content)
        found = await self._memory.search(question, scope=self._find_scope(config), limit=self._limit)
        said = "\n".join(read_content(each.content) for each in state["messages"])
        return {"memories": format_memories(found, said)}

    def inject(self, state: MemoryState) -> list[AnyMessage]:
        """List the messages with the memories in front of the user's last one. The state isn't changed."""
        messages = list(state["messages"])
        asked = _find_last(messages, HumanMessage)
        if asked is not None and state.get("memories"):
            content = prepend(state["memories"], asked.content)
            messages[messages.index(asked)] = asked.model_copy(update={"content": content})
        return messages

    async def record(self, state: MemoryState, config: RunnableConfig) -> dict[str, Any]:
        """Record the user's last message and the answer."""
        asked = _find_last(state["messages"], HumanMessage)
        answer = _find_last(state["messages"], AIMessage)
        pairs = [("user", asked), ("assistant", answer)]
        exchange = [(role, read_content(message.content)) for role, message in pairs if message]
        messages = [{"role": role, "content": content} for role, content in exchange if content]
        thread = config.get("configurable", {}).get("thread_id")
        await self._memory.add_messages(messages, scope=self._find_scope(config), thread=thread)
        return {}

    def list_tools(self) -> list[BaseTool]:
        """List the tools to search and to remember, for a model or a `ToolNode`."""

        @tool(description=SEARCH)
        async def search_memory(question: str, config: RunnableConfig) -> str:
            found = await self._memory.search(question, scope=self._find_scope(config), limit=self._limit)
            return format_hits(found) or "Nothing found."

        @tool(description=REMEMBER)
        async def remember(fact: str, config: RunnableConfig) -> str:
            return await self._memory.add(fact, scope=self._find_scope(config))

        return [search_memory, remember]

    def _find_scope(self, config: RunnableConfig) -> str | None:
        return find_scope(self._scope_of, config)


def _find_last(messages: Sequence[AnyMessage], kind: type[Any]) -> Any:
    return next((each for each in reversed(messages) if isinstance(each, kind)), None)
