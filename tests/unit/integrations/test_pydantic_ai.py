"""The memory of a Pydantic AI agent."""

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from nexus import AsyncMemory
from nexus.integrations.pydantic_ai import NexusMemory
from nexus.testing import ModelServer, ToolCall, Turn
from unit.integrations.conftest import KEY, QUESTION


async def test_an_agent_is_reminded_searches_and_remembers(
    filled: AsyncMemory, server: ModelServer, gpt: AsyncOpenAI
) -> None:
    server.script(
        Turn("", [ToolCall("search_memory", {"question": QUESTION})]),
        Turn("", [ToolCall("remember", {"fact": "Leo has asked for the spare key"})]),
        "Behind the fuse box, says Mira.",
        "As I said.",
    )
    agent = Agent(
        OpenAIChatModel("any", provider=OpenAIProvider(openai_client=gpt)),
        deps_type=str,
        capabilities=[NexusMemory[str](filled, scope=lambda ctx: ctx.deps)],
    )
    first = await agent.run(QUESTION, deps="user:7")
    assert first.output == "Behind the fuse box, says Mira."
    asked, searched, told = [str(request.json["messages"]) for request in server.requests]
    assert asked.count(KEY) == 1
    assert "<memories>" in asked
    assert searched.count(KEY) == 2
    assert "under the mat" not in told
    assert "<memories>" not in str(first.all_messages()), "the history stays as it was"
    found = {hit.text for hit in await filled.search("spare key Leo Mira", scope="user:7", limit=20)}
    assert {"Leo has asked for the spare key", QUESTION, "Behind the fuse box, says Mira."} <= found
    assert "Leo" not in str(await filled.search("spare key Leo", scope="user:8"))
    await agent.run("Where, again?", deps="user:8", message_history=first.all_messages())
    server.assert_exhausted()
