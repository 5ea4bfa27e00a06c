"""The memory of agents of the OpenAI Agents SDK."""

import pytest
from openai import AsyncOpenAI

from nexus import AsyncMemory
from nexus.testing import ModelServer, ToolCall, Turn
from unit.integrations.conftest import KEY, QUESTION

pytest.importorskip("agents")

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner

from nexus.integrations.openai_agents import NexusMemory


async def test_agents_are_reminded_search_and_remember(
    filled: AsyncMemory, server: ModelServer, gpt: AsyncOpenAI
) -> None:
    server.script(
        Turn("", [ToolCall("search_memory", {"question": QUESTION})]),
        Turn("", [ToolCall("remember", {"fact": "Leo has asked for the spare key"})]),
        "Behind the fuse box, says Mira.",
    )
    memory = NexusMemory(filled, scope=lambda user: user, thread="home")
    agent = Agent[str](
        name="home",
        instructions="Be brief.",
        model=OpenAIChatCompletionsModel("any", gpt),
        tools=[*memory.list_tools()],
    )
    config = memory.make_config(RunConfig(tracing_disabled=True))
    done = await Runner.run(agent, QUESTION, context="user:7", hooks=memory, run_config=config)
    assert done.final_output == "Behind the fuse box, says Mira."
    asked, searched, told = [str(request.json["messages"]) for request in server.requests]
    assert asked.count(KEY) == 1
    assert "<memories>" in asked
    assert KEY in searched
    assert "under the mat" not in told
    assert "<memories>" not in str(done.to_input_list()), "the history stays as it was"
    found = {hit.text for hit in await filled.search("spare key Leo Mira", scope="user:7", limit=20)}
    assert {"Leo has asked for the spare key", QUESTION, "Behind the fuse box, says Mira."} <= found
    assert "Leo" not in str(await filled.search("spare key Leo", scope="user:8"))
    server.assert_exhausted()
