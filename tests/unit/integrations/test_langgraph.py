"""The memory of a LangGraph graph."""

from typing import Any

import pytest
from openai import AsyncOpenAI

from nexus import AsyncMemory, UsageError
from nexus.testing import ModelServer
from unit.integrations.conftest import KEY, QUESTION

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage, HumanMessage, convert_to_openai_messages
from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingTypeStubs] - it has none

from nexus.integrations.langgraph import MemoryState, NexusMemory


def build(memory: NexusMemory, gpt: AsyncOpenAI) -> Any:
    async def answer(state: MemoryState) -> dict[str, Any]:
        messages: Any = convert_to_openai_messages(memory.inject(state))
        said = await gpt.chat.completions.create(model="any", messages=messages)
        return {"messages": [AIMessage(said.choices[0].message.content or "")]}

    graph: Any = StateGraph(MemoryState)
    for name, node in (("recall", memory.recall), ("answer", answer), ("record", memory.record)):
        graph.add_node(name, node)
    for edge in ((START, "recall"), ("recall", "answer"), ("answer", "record"), ("record", END)):
        graph.add_edge(*edge)
    return graph.compile()


async def test_a_graph_is_reminded_and_remembers(
    filled: AsyncMemory, server: ModelServer, gpt: AsyncOpenAI
) -> None:
    server.script("Behind the fuse box, says Mira.")
    memory = NexusMemory(filled, scope=lambda config: config.get("configurable", {}).get("user"))
    graph = build(memory, gpt)
    config = {"configurable": {"user": "user:7", "thread_id": "home"}}
    done = await graph.ainvoke({"messages": [HumanMessage(QUESTION)]}, config)
    [user] = server.requests[0].json["messages"]
    assert KEY in user["content"]
    assert "under the mat" not in user["content"]
    assert [each.content for each in done["messages"]] == [QUESTION, "Behind the fuse box, says Mira."]
    found = {hit.text for hit in await filled.search("spare key Mira", scope="user:7", kinds=["event"])}
    assert found == {QUESTION, "Behind the fuse box, says Mira."}
    with pytest.raises(UsageError, match="scope"):
        await graph.ainvoke({"messages": [HumanMessage(QUESTION)]}, {"configurable": {}})


async def test_its_tools_search_and_remember_in_the_scope_of_the_run(filled: AsyncMemory) -> None:
    memory = NexusMemory(filled, scope=lambda config: config.get("configurable", {}).get("user"))
    search, remember = memory.list_tools()
    assert list(search.args) == ["question"]
    config: Any = {"configurable": {"user": "user:7"}}
    await remember.ainvoke({"fact": "Leo keeps bees"}, config)
    assert "Leo keeps bees" in await search.ainvoke({"question": "Who keeps bees?"}, config)
    other: Any = {"configurable": {"user": "user:8"}}
    assert "bees" not in await search.ainvoke({"question": "Who keeps bees?"}, other)
