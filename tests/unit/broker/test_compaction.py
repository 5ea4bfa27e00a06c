"""A conversation that outgrows its budget goes on with a summary, and the ledger keeps every word."""

import json
from dataclasses import replace
from typing import Any, cast

import apsw
import pytest

from apps import app_on
from nexus.app import App
from nexus.broker.tools import TOOLS, web
from nexus.broker.tools.recall import recall_tool
from nexus.config import WebConfig
from nexus.context import assemble, compaction
from nexus.engine.errors import WorkFailedError
from nexus.home import Home
from nexus.ledgers.agents import history
from nexus.ledgers.runtime import requests
from nexus.request import Access, Agent, Event, Request
from nexus.roles.reflection import make_reflect_tool
from nexus.testing import (
    Hold,
    HttpError,
    ModelRequest,
    ModelServer,
    ToolCall,
    Turn,
    failures,
    shared_prefix_tokens,
    tokens_in,
)


async def _unasked(*_: object) -> Any:
    raise AssertionError("these tools are only measured")


# What the system prompt and the tools take of every call, and the conversation beside them.
_TOOLS = (
    *TOOLS,
    recall_tool(_unasked),
    make_reflect_tool(cast("Any", None)),
    *web.web_tools(WebConfig(), _unasked),
)
_FIXED_TOKENS = compaction.estimate(assemble.own()) + compaction.estimate(
    json.dumps([(tool.name, tool.description, tool.parameters) for tool in _TOOLS])
)
_BUDGET_TOKENS = _FIXED_TOKENS + 740
# A fork has no call yet whose tokens were counted.
_FORK_BUDGET_TOKENS = _FIXED_TOKENS + 490
_LONG = "lorem ipsum " * 70


async def talk(app: App, *texts: str) -> str:
    answer = ""
    for text in texts:
        answer = (await (await app.send(text)).result()).response.content
    return answer


def texts_of(request: ModelRequest) -> str:
    return str(request.json["messages"])


async def kept(app: App) -> list[str]:
    def read(connection: apsw.Connection) -> list[str]:
        rows = connection.execute("SELECT content FROM agent_messages ORDER BY position")
        return [cast("str", row[0]) for row in rows]

    return await app.ledgers.agents.read(read)


async def test_older_turns_are_summed_up_with_the_same_prefix(home: Home, server: ModelServer) -> None:
    server.when(last_user="Sum up the conversation").script("SUMMARY: the blue tin.")
    server.always(lambda request: Turn(f"Noted. {_LONG}"))
    async with app_on(home, server, context_tokens=_BUDGET_TOKENS) as app:
        await talk(
            app, "Tea is in the blue tin", "Coffee is in the red tin", "Milk is out", "Where is the tea?"
        )
        stored = await kept(app)
        seen = await app.ledgers.agents.read(history.load, session_label="main")
    [asked] = [request for request in server.requests if "Sum up the conversation" in request.last_user]
    before = server.requests[server.requests.index(asked) - 1]
    after = server.requests[-1]
    new_tokens = tokens_in(len(compaction.TASK)) + 20
    assert shared_prefix_tokens(before.prompt, asked.prompt) >= asked.prompt.tokens - new_tokens
    assert "SUMMARY: the blue tin." in texts_of(after)
    assert "Tea is in the blue tin" not in texts_of(after)
    assert any("Tea is in the blue tin" in text for text in stored), "the ledger keeps every word"
    assert [message.content for message in seen.summary] == [compaction.TASK, "SUMMARY: the blue tin."]


async def test_nobody_who_reads_along_sees_the_summary(home: Home, server: ModelServer) -> None:
    server.when(last_user="Sum up the conversation").script("SUMMARY")
    server.always(lambda request: Turn(f"Noted. {_LONG}"))
    async with app_on(home, server, context_tokens=_BUDGET_TOKENS) as app:
        await talk(app, "One", "Two", "Three")
        run = await app.send("Four")
        shown = "".join([delta.text async for delta in run.deltas()])
        await run.result()
    assert any("Sum up" in request.last_user for request in server.requests)
    assert "SUMMARY" not in shown
    assert shown.startswith("Noted.")
    assert not list((home.run / "streams").glob("*.summary.jsonl"))


async def test_where_nobody_can_sum_up_the_questions_stand_in(home: Home, server: ModelServer) -> None:
    server.when(last_user="Sum up the conversation").always(failures.context_exceeded())
    server.always(lambda request: Turn(f"Noted. {_LONG}"))
    async with app_on(home, server, context_tokens=_BUDGET_TOKENS) as app:
        await talk(
            app, "Tea is in the blue tin", "Coffee is in the red tin", "Milk is out", "Where is the tea?"
        )
    after = texts_of(server.requests[-1])
    assert "- Tea is in the blue tin" in after
    assert "kept in the agents ledger" in after


@pytest.mark.parametrize("failure", [failures.server_error(), failures.unauthorized()], ids=["down", "key"])
async def test_a_failure_that_may_pass_hides_nothing_and_the_next_run_tries_again(
    home: Home, server: ModelServer, failure: HttpError
) -> None:
    server.when(last_user="Sum up the conversation").script(failure, "SUMMARY: the blue tin.")
    server.always(lambda request: Turn(f"Noted. {_LONG}"))
    async with app_on(home, server, context_tokens=_BUDGET_TOKENS) as app:
        await talk(app, "Tea is in the blue tin", "Coffee is in the red tin", "Milk is out")
        with pytest.raises(WorkFailedError):
            await talk(app, "Where is the tea?")
        failed = await app.ledgers.agents.read(history.load, session_label="main")
        await talk(app, "Where is the tea, again?")
        seen = await app.ledgers.agents.read(history.load, session_label="main")
    assert (len(failed.summary), len(failed.turns)) == (0, 3)
    assert [message.content for message in seen.summary] == [compaction.TASK, "SUMMARY: the blue tin."]
    assert not list((home.run / "streams").glob("*.summary.jsonl"))


async def test_what_fails_again_and_again_is_stood_in_for(home: Home, server: ModelServer) -> None:
    server.when(last_user="Sum up the conversation").always(failures.server_error())
    server.always(lambda request: Turn(f"Noted. {_LONG}"))
    async with app_on(home, server, context_tokens=_BUDGET_TOKENS) as app:
        await talk(app, "Tea is in the blue tin", "Coffee is in the red tin", "Milk is out")
        for _ in range(4):
            with pytest.raises(WorkFailedError):
                await talk(app, "Where is the tea?")
        await talk(app, "Where is the tea?")
    assert "- Tea is in the blue tin" in texts_of(server.requests[-1])


async def test_the_questions_stand_in_also_where_a_model_gives_up_halfway(
    home: Home, server: ModelServer
) -> None:
    server.when(last_user="Sum up the conversation").script(
        Turn("", [ToolCall("agent_send", {"op": "status"})]),
        failures.context_exceeded(),
        failures.context_exceeded(),
    )
    server.always(lambda request: Turn(f"Noted. {_LONG}"))
    async with app_on(home, server, context_tokens=_BUDGET_TOKENS) as app:
        await talk(
            app, "Tea is in the blue tin", "Coffee is in the red tin", "Milk is out", "Where is the tea?"
        )
        seen = await app.ledgers.agents.read(history.load, session_label="main")
    assert "- Tea is in the blue tin" in texts_of(server.requests[-1])
    assert [message.role for message in seen.summary] == ["user", "assistant"]


async def test_a_run_with_questions_that_stand_in_goes_on_after_a_restart(
    home: Home, server: ModelServer
) -> None:
    server.when(last_user="Sum up the conversation").always(failures.context_exceeded())
    server.script(
        *(Turn(f"Noted. {_LONG}") for _ in range(3)),
        Turn("", [ToolCall("agent_send", {"op": "status"})]),
        Turn("In the blue", faults=[Hold(gate="answer")]),
        "In the blue tin.",
    )
    async with app_on(home, server, context_tokens=_BUDGET_TOKENS) as app:
        app.engine.settings = replace(app.engine.settings, stop_grace_ms=50)
        await talk(app, "Tea is in the blue tin", "Coffee is in the red tin", "Milk is out")
        asked = await app.send("Where is the tea?")
        await server.until(lambda: server.gate("answer").waiting, 30_000)
        before = await app.ledgers.agents.read(history.load, session_label="main")
    async with app_on(home, server, context_tokens=_BUDGET_TOKENS) as app:
        assert (await app.broker.run(asked.id).result()).response.content == "In the blue tin."
        seen = await app.ledgers.agents.read(history.load, session_label="main")
    assert seen.summary == before.summary
    assert [message.role for message in seen.summary] == ["user", "assistant"]
    assert "- Tea is in the blue tin" in texts_of(server.requests[-1])


async def test_a_summary_is_summed_up_in_its_turn(home: Home, server: ModelServer) -> None:
    summaries = iter(range(1, 100))
    server.when(last_user="Sum up the conversation").always(
        lambda request: Turn(f"SUMMARY {next(summaries)}")
    )
    server.always(lambda request: Turn(f"Noted. {_LONG}"))
    async with app_on(home, server, context_tokens=_BUDGET_TOKENS) as app:
        await talk(app, *(f"Message {number}" for number in range(9)))
    asked = [request for request in server.requests if "Sum up the conversation" in request.last_user]
    assert len(asked) >= 2
    assert "SUMMARY 1" in texts_of(asked[1])
    assert "SUMMARY 1" not in texts_of(server.requests[-1])


async def test_a_short_conversation_is_left_alone(home: Home, server: ModelServer) -> None:
    server.always("Hm.")
    async with app_on(home, server) as app:
        await talk(app, "One", "Two", "Three")
    assert len(server.requests) == 3


async def test_a_fork_of_a_long_conversation_is_summed_up_before_its_first_answer(
    home: Home, server: ModelServer
) -> None:
    server.when(last_user="Sum up the conversation").script("SUMMARY: the blue tin.")
    server.always(lambda request: Turn(f"Noted. {_LONG}"))
    async with app_on(home, server) as app:
        await talk(app, "Tea is in the blue tin", "Coffee is in the red tin", "Milk is out")
    async with app_on(home, server, context_tokens=_FORK_BUDGET_TOKENS) as app:
        request = Request(
            event=Event(content="Where is the tea?"),
            agent=Agent(session_label="fork"),
            access=Access(level="owner"),
        )
        await app.ledgers.runtime.write(requests.create, request=request)
        context = await app.broker.assemble_context(
            request, session_label="fork", task="Where is the tea?", fork_of="main"
        )
        await (await app.broker.start_execution(request, context)).result()
        forked = await app.ledgers.agents.read(history.load, session_label="fork")
        parent = await app.ledgers.agents.read(history.load, session_label="main")
    assert [message.content for message in forked.summary] == [compaction.TASK, "SUMMARY: the blue tin."]
    assert "Tea is in the blue tin" not in texts_of(server.requests[-1])
    assert "SUMMARY: the blue tin." in texts_of(server.requests[-1])
    assert (len(parent.summary), len(parent.turns)) == (0, 3)
