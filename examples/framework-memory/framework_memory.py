"""framework-memory: one agent with a memory, four times: OpenAI's client and three frameworks.

python framework_memory.py openai|pydantic-ai|openai-agents|langgraph USER MESSAGE
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from openai import AsyncOpenAI

from nexus import AsyncMemory

HOME = os.environ.get("FRAMEWORK_MEMORY_HOME", "~/framework-memory")
MODEL = os.environ.get("FRAMEWORK_MEMORY_MODEL", "gpt-5-mini")


async def ask_openai(memory: AsyncMemory, user: str, text: str) -> str:
    from nexus.integrations.openai import wrap_openai

    async with AsyncOpenAI() as gpt:
        client = wrap_openai(gpt, memory, scope=user)
        messages: Any = [{"role": "user", "content": text}]
        answer = await client.chat.completions.create(model=MODEL, messages=messages)
    return answer.choices[0].message.content or ""


async def ask_pydantic_ai(memory: AsyncMemory, user: str, text: str) -> str:
    from pydantic_ai import Agent

    from nexus.integrations.pydantic_ai import NexusMemory

    remembering = NexusMemory[str](memory, scope=lambda ctx: ctx.deps)
    agent = Agent(f"openai-chat:{MODEL}", deps_type=str, capabilities=[remembering])
    async with agent:
        return (await agent.run(text, deps=user)).output


async def ask_openai_agents(memory: AsyncMemory, user: str, text: str) -> str:
    from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner

    from nexus.integrations.openai_agents import NexusMemory

    remembering = NexusMemory(memory, scope=lambda user: user)
    config = remembering.make_config(RunConfig(tracing_disabled=True))
    async with AsyncOpenAI() as gpt:
        model = OpenAIChatCompletionsModel(MODEL, gpt)
        agent = Agent[str](name="assistant", model=model, tools=[*remembering.list_tools()])
        done = await Runner.run(agent, text, context=user, hooks=remembering, run_config=config)
    return str(done.final_output)


async def ask_langgraph(memory: AsyncMemory, user: str, text: str) -> str:
    from langchain_core.messages import AIMessage, HumanMessage, convert_to_openai_messages
    from langgraph.graph import StateGraph  # pyright: ignore[reportMissingTypeStubs] - it has none

    from nexus.integrations.langgraph import MemoryState, NexusMemory

    remembering = NexusMemory(memory, scope=lambda config: config.get("configurable", {}).get("user"))

    async def answer(state: MemoryState) -> dict[str, Any]:
        messages: Any = convert_to_openai_messages(remembering.inject(state))
        async with AsyncOpenAI() as gpt:
            said = await gpt.chat.completions.create(model=MODEL, messages=messages)
        return {"messages": [AIMessage(said.choices[0].message.content or "")]}

    graph: Any = StateGraph(MemoryState)
    graph.add_sequence([("recall", remembering.recall), ("answer", answer), ("record", remembering.record)])
    graph.set_entry_point("recall")
    done = await graph.compile().ainvoke({"messages": [HumanMessage(text)]}, {"configurable": {"user": user}})
    return str(done["messages"][-1].content)


ASK: dict[str, Callable[[AsyncMemory, str, str], Awaitable[str]]] = {
    "openai": ask_openai,
    "pydantic-ai": ask_pydantic_ai,
    "openai-agents": ask_openai_agents,
    "langgraph": ask_langgraph,
}


async def main(framework: str, user: str, *words: str) -> str:
    async with AsyncMemory(HOME, create=True) as memory:
        return await ASK[framework](memory, user, " ".join(words))


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ASK:
        sys.exit(f"usage: framework_memory.py {'|'.join(ASK)} USER MESSAGE")
    print(asyncio.run(main(*sys.argv[1:])))
