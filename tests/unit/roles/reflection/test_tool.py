"""The tool `reflect`: an agent of the owner's has a question answered, on its own account, once."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps import dispatching
from automating import let_in, said_by
from nexus.app import App
from nexus.broker.taint import find_source
from nexus.broker.tools import Call, Context, Sandbox
from nexus.config import BudgetsConfig
from nexus.context.compaction import estimate
from nexus.engine.errors import WorkCancelledError
from nexus.errors import ToolError
from nexus.home import Home
from nexus.ledgers.runtime import requests, usage
from nexus.memory.conclusions import mental_models
from nexus.memory.writing import Provenance
from nexus.request import Access, Agent, Event, Request
from nexus.roles.reflection import Asking, make_reflect_tool
from nexus.testing import Hold, ModelRequest, ModelServer, ToolCall, Turn
from unit.roles.consolidation.scene import learn, memory_rows, steady
from unit.roles.reflection.test_reflection import QUESTION, TEA, cites_all, search

NAME = "Tyler and tea"


def is_reflecting(request: ModelRequest) -> bool:
    return "search_facts" in request.tool_names


def reflects(question: str = QUESTION, **more: str) -> Turn:
    return Turn("", [ToolCall("reflect", {"question": question, **more})])


def told(request: ModelRequest) -> Turn:
    """What the tool gave to the agent."""
    return Turn(request.tool_results[-1])


async def test_an_agent_has_a_question_answered_and_keeps_the_answer(home: Home, server: ModelServer) -> None:
    server.when(is_reflecting).script(search(), cites_all)
    server.script(reflects(save_as=NAME), told)
    async with App(home, steady(server)) as app:
        (fact,) = await learn(app, TEA)
        result = await (await app.send("Look into Tyler's tea")).result()
        [own, child] = await app.ledgers.runtime.read(requests.lineage, root_request_id=result.request_id)
        bill = await app.ledgers.runtime.read(usage.of_root, root_request_id=result.request_id)
        kept = await mental_models.describe(app.ledgers, NAME)
    assert (child.parent_request_id, child.role, child.status) == (own.id, "reflection", "done")
    assert bill.calls == len(server.exchanges) == 4
    assert (kept["question"], kept["content"]) == (QUESTION, f"{TEA} [{fact}].")
    assert (kept["author"], kept["source_request_id"]) == ("reflection", child.id)
    answer = result.response.content
    assert answer.startswith(f"<memory>\n{TEA} [{fact}].\nSources:\n- [{fact}] 20")
    assert answer.endswith(f"</memory>\nSaved as the mental model 'Tyler and tea' ({kept['id']}).")
    server.assert_exhausted()


async def test_an_answer_that_cites_nothing_is_told_and_not_kept(home: Home, server: ModelServer) -> None:
    server.when(is_reflecting).script(search(), "The memory holds nothing about it.")
    server.script(reflects(save_as=NAME), told)
    async with App(home, steady(server)) as app:
        result = await (await app.send("Look into Tyler's tea")).result()
        assert await memory_rows(app, "SELECT count(*) FROM mental_models") == [(0,)]
    assert "The memory holds nothing about it." in result.response.content
    assert "Not saved: The answer cites nothing that was found" in result.response.content


async def test_a_worker_reflects_below_its_own_request(home: Home, server: ModelServer) -> None:
    server.when(is_reflecting).script(search(), cites_all)
    server.when(last_user="Look into Tyler").script(reflects(), told)
    server.script(*dispatching("Look into Tyler", then="All done"))
    async with App(home, steady(server)) as app:
        await learn(app, TEA)
        result = await (await app.send("Have it looked into")).result()
        lineage = await app.ledgers.runtime.read(requests.lineage, root_request_id=result.request_id)
    assert [(each.role, each.depth) for each in lineage] == [
        ("manager", 0),
        ("worker", 1),
        ("reflection", 2),
    ]
    assert [each.parent_request_id for each in lineage[1:]] == [each.id for each in lineage[:2]]


async def test_no_reflection_reflects(home: Home, server: ModelServer) -> None:
    server.when(is_reflecting).script(reflects(), search(), cites_all)
    server.script(reflects(), told)
    async with App(home, steady(server)) as app:
        await learn(app, TEA)
        result = await (await app.send("Look into Tyler's tea")).result()
        reflections = await app.ledgers.runtime.read(
            lambda c: c.execute("SELECT count(*) FROM requests WHERE role = 'reflection'").get
        )
    assert TEA in result.response.content
    assert reflections == 1
    assert "reflect" in str(server.requests[2].json["messages"][-1]), "it was told that it may not"


@pytest.mark.parametrize(
    "access",
    [
        Access(level="known", tools=None, memory="all"),
        Access(level="owner", tools=None, memory="own"),
        Access(level="owner", tools=None, memory="none"),
    ],
)
async def test_only_who_works_for_the_owner_and_sees_everything_reflects(
    home: Home, server: ModelServer, tmp_path: Path, access: Access
) -> None:
    request = Request(event=Event(content="", thread_id="thr_1"), agent=Agent(), access=access)
    call = Call(request=request, execution_id="exe_1", session_label="main", key="1")
    context = Context(sandbox=Sandbox(), directory=tmp_path, call=call)
    async with App(home, steady(server)) as app:
        with pytest.raises(ToolError):
            await make_reflect_tool(app.services()).call({"question": QUESTION}, context)
    assert server.requests == []


async def test_the_same_call_again_finds_the_reflection_that_it_began(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    server.script(search(), cites_all)
    request = Request(event=Event(content=""), agent=Agent(), access=Access(level="owner", memory="all"))
    call = Call(request=request, execution_id="exe_01M7ETEFBE6615K1S078EGBMYG", session_label="main", key="1")
    context = Context(sandbox=Sandbox(), directory=tmp_path, call=call)
    async with App(home, steady(server)) as app:
        await learn(app, TEA)
        await app.ledgers.runtime.write(requests.create, request=request)
        tool = make_reflect_tool(app.services())
        given = {"question": QUESTION, "save_as": NAME}
        assert await tool.call(given, context) == await tool.call(given, context)
        assert await memory_rows(app, "SELECT name, version FROM mental_models") == [(NAME, 1)]
    assert len(server.requests) == 2


async def test_stopping_a_run_stops_its_reflection(home: Home, server: ModelServer) -> None:
    server.when(is_reflecting).script(Turn("late", faults=[Hold(gate="never")]))
    server.script(reflects())
    async with App(home, steady(server)) as app:
        asked = await app.send("Look into Tyler's tea")
        await server.until(lambda: server.gate("never").waiting)
        assert await asked.cancel()
        with pytest.raises(WorkCancelledError):
            await asked.result()
        [(status, lane)] = await app.ledgers.runtime.read(
            lambda c: c.execute(
                "SELECT status, lane FROM executions WHERE session_label LIKE 'reflection:%'"
            ).fetchall()
        )
    assert (status, lane) == ("cancelled", "reflections")


async def test_a_reflection_spends_what_its_root_may_spend(home: Home, server: ModelServer) -> None:
    server.when(is_reflecting).script(search(), cites_all)
    server.script(reflects(), told)
    budgets = BudgetsConfig(request_tokens=1)
    async with App(home, replace(steady(server), budgets=budgets)) as app:
        await learn(app, TEA)
        with pytest.raises(Exception, match="request_tokens"):
            await (await app.send("Look into Tyler's tea")).result()
    assert not any(map(is_reflecting, server.requests))


async def test_what_others_said_is_known_to_have_been_read(home: Home, server: ModelServer) -> None:
    server.when(is_reflecting).script(search(query="invoices"), "The memory says nothing about Tyler.")
    server.script("Thanks.", reflects(), "Done.")
    async with App(home, steady(server)) as app:
        with pytest.raises(Exception, match="denied"):
            await app.accept(said_by("eve", "Hello"))
        await let_in(app, "eve", tools=(), memory="own")
        await (await app.accept(said_by("eve", "Invoices go to Eve"))).run.result()
        [(event,)] = await app.ledgers.events.read(
            lambda c: c.execute("SELECT id FROM events WHERE content = 'Invoices go to Eve'").fetchall()
        )
        writer = Provenance(actor="memory-writer", kind="writer", event_id=str(event))
        await app.memory.run("fact", {"fact": "Invoices go to Eve"}, writer)
        result = await (await app.send("Look into that matter")).result()
        request = await requests.restore(app.ledgers, result.request_id)
        assert request is not None
        source = await read_by(app, request)
    assert source is not None
    assert "a message from eve" in source


async def test_an_answer_saved_for_somebody_is_no_word_of_the_owners(home: Home, server: ModelServer) -> None:
    server.when(is_reflecting).script(*[search(), cites_all] * 4)
    server.script("Noted.", reflects(save_as="by an agent"), "Done.")
    async with App(home, steady(server)) as app:
        await (await app.send(TEA)).result()
        [(event,)] = await app.ledgers.events.read(
            lambda c: c.execute("SELECT id FROM events WHERE direction = 'inbound'").fetchall()
        )
        writer = Provenance(actor="memory-writer", kind="writer", event_id=str(event))
        await app.memory.run("fact", {"fact": TEA}, writer)

        async def look(name: str) -> str | None:
            """What taints a request that was shown a mental model."""
            request = Request(event=Event(content=""), agent=Agent(), access=Access(level="owner"))
            model = await mental_models.load_newest(app.ledgers, name)
            request.enrichment["memories"] = model.id
            await app.ledgers.runtime.write(requests.create, request=request)
            await app.ledgers.runtime.write(requests.update, request=request)
            return await read_by(app, request)

        client = Request(event=Event(content=""), agent=Agent(), access=Access(level="owner", memory="all"))
        await app.ledgers.runtime.write(requests.create, request=client)
        await app.reflect(QUESTION, save_as="by a client", asking=Asking(request=client))
        await (await app.send("Look into Tyler's tea")).result()
        await app.reflect(QUESTION, save_as="by the owner")
        assert await look("by a client") == "what reflection concluded"
        assert await look("by an agent") == "what reflection concluded"
        assert await look("by the owner") is None
        # What is asked again was shown the answer before it.
        await app.refresh("by a client")
        assert await look("by a client") == "what reflection concluded"


async def test_an_agents_answer_does_not_replace_what_the_owner_wrote(
    home: Home, server: ModelServer
) -> None:
    server.when(is_reflecting).script(search(), cites_all)
    server.script(reflects(save_as=NAME), told)
    async with App(home, steady(server)) as app:
        (fact,) = await learn(app, TEA)
        given = {"name": NAME, "content": f"{TEA} [{fact}]."}
        await app.memory.run("mental-model", given, Provenance(actor="person:ada", kind="owner"))
        result = await (await app.send("Look into Tyler's tea")).result()
        assert await memory_rows(app, "SELECT version FROM mental_models") == [(1,)]
    assert TEA in result.response.content
    assert "Not saved: This mental model is the owner's." in result.response.content


async def read_by(app: App, request: Request) -> str | None:
    tools = app.broker.tools.values()
    found = await find_source(app.ledgers, request, request.agent.session_label, tools, request.access)
    return found and found.name


def test_the_tool_takes_few_tokens_of_the_prompt() -> None:
    services: Any = None
    tool = make_reflect_tool(services)
    assert estimate(json.dumps([tool.name, tool.description, dict(tool.parameters)])) <= 60
