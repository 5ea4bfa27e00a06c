"""Automations that change or withhold an answer before it is delivered."""

import asyncio
from dataclasses import replace
from itertools import count
from typing import Any

from apps import app_on, dispatching, send
from nexus.app import App
from nexus.automations import registration
from nexus.automations.context import Context, Handler
from nexus.context import AssembledContext
from nexus.gateway.views import answers, requests, sessions
from nexus.home import Home
from nexus.ledgers import events
from nexus.ledgers.runtime import requests as stored
from nexus.ledgers.runtime.automations import NewAutomation
from nexus.pipeline.delivery import WITHHELD
from nexus.request import Access
from nexus.runs import Answer
from nexus.testing import ModelServer, Turn

POINT = "before:deliverResponse"
SAID = "Call +49 30 1234567"


async def register(app: App, name: str, run: Handler, **settings: Any) -> None:
    app.automations.add_handler(f"python:{name}", run)
    new = NewAutomation(
        name=name, script_path=f"python:{name}", script_hash=None, hook_point=POINT, **settings
    )
    await asyncio.to_thread(registration.register, app.home, registration.writer(app.ledgers), new)


def redact(context: Context) -> Answer:
    return Answer(context.answer.text.replace("+49 30 1234567", "[phone]"))


async def texts(run: Any) -> str:
    return "".join([delta.text async for delta in run.deltas() if delta.kind in {"text", "thinking"}])


async def test_what_is_delivered_is_what_automations_left_of_the_answer_everywhere(
    home: Home, server: ModelServer
) -> None:
    server.script(Turn("First let me look. +49 30 1234567", [send("list")]), SAID)
    async with app_on(home, server) as app:
        await register(app, "redact", redact)
        await register(app, "sign", lambda ctx: {"answer": f"{ctx.answer.text}!"}, priority=200)
        run = await app.send("Whom do I call?")
        shown, result = await asyncio.gather(texts(run), run.result())
        assert shown == result.response.content == "Call [phone]!"
        assert result.response.changed_by == "sign"
        trace = await requests.load_trace(app.ledgers, result.request_id)
        assert trace.answered == "Call [phone]!"
        (change,) = trace.changes
        assert (change.original, change.changed_by, change.withheld) == (SAID, "sign", "")
        spans = {(each.name, each.status) for each in trace.node.walk()}
        assert (POINT, "changed") in spans
        session = await sessions.get(app.ledgers, "main")
        page = await sessions.load_transcript(app.ledgers, session.id)
        said = [
            each
            for each in await answers.load_lines(app.ledgers, page.items, ())
            if isinstance(each, answers.Answer)
        ]
        assert [each.content for each in said[0].messages] == ["", "Call [phone]!"]
        assert page.items[-1].content == SAID


async def test_a_withheld_answer_is_explained_to_the_owner_and_not_to_others(
    home: Home, server: ModelServer
) -> None:
    async with app_on(home, server) as app:
        await register(app, "review", lambda _: Answer.withhold("it names a customer"))
        server.script(SAID)
        result = await (await app.send("Whom do I call?")).result()
        assert result.response.content == "This answer was withheld: it names a customer"
        request = await stored.restore(app.ledgers, result.request_id)
        assert request is not None
        guest = replace(request, access=Access(level="known"))
        decided = await app.automations.runner.review_answer(_occasion(guest, result), "evt_other")
        response = await app.delivery.deliver_answer(guest, result.response, decided, "evt_other")
    assert (response.content, response.withheld) == (WITHHELD, "it names a customer")


async def test_an_answer_waits_for_nobody_if_no_blocking_automation_is_there(
    home: Home, server: ModelServer
) -> None:
    server.script(SAID)
    async with app_on(home, server) as app:
        await register(app, "watch", lambda _: {"log": {"seen": 1}}, blocking=False)
        await register(app, "elsewhere", redact, triggers={"channels": ["telegram"]})
        run = await app.send("Whom do I call?")
        result = await run.result()
        request = await stored.restore(app.ledgers, result.request_id)
        assert request is not None
        assert not await app.pipeline.may_change_answer(request, "main")
        assert await texts(run) == result.response.content == SAID


async def test_an_automation_that_fails_withholds_the_answer_unless_told_otherwise(
    home: Home, server: ModelServer
) -> None:
    def fail(_: Context) -> None:
        raise ValueError("no such list")

    server.script(SAID, SAID)
    async with app_on(home, server) as app:
        await register(app, "review", fail)
        result = await (await app.send("Whom do I call?")).result()
        assert result.response.withheld == "review did not review it: ValueError: no such list"
        assert SAID not in result.response.content
        await register(app, "review", fail, config={"on_failure": "deliver"})
        result = await (await app.send("And now?")).result()
    assert result.response.content == SAID


async def test_after_a_crash_what_was_decided_stands(home: Home, server: ModelServer) -> None:
    number = count(1)
    server.script(SAID)
    async with app_on(home, server) as app:
        await register(app, "number", lambda ctx: Answer(f"{next(number)}. {ctx.answer.text}"))
        run = await app.send("Whom do I call?")
        result = await run.result()
        request = await stored.restore(app.ledgers, result.request_id)
        assert request is not None
        context = AssembledContext.from_json((await app.broker.run(run.id).state()).input["context"])
        original = replace(result, response=replace(result.response, content=SAID, changed_by=""))
        again = await app.pipeline.after_run(request, context, original)
        rows = await app.ledgers.events.read(
            lambda c: c.execute("SELECT content FROM events WHERE direction = 'outbound'").fetchall()
        )
    assert again.response == result.response
    assert rows == [(f"1. {SAID}",)]
    assert next(number) == 2


async def test_answers_without_an_agent_are_changed_too_and_results_of_workers_are_not(
    home: Home, server: ModelServer
) -> None:
    seen: list[str] = []

    def mark(context: Context) -> Answer:
        seen.append(context.answer.text)
        return Answer(f"reviewed: {context.answer.text}")

    server.when(lambda request: "Plan the trip" in str(request.json)).script(
        *dispatching("Find a train", then="All planned")
    )
    server.when(last_user="Find a train").script("At nine")
    async with app_on(home, server) as app:
        await register(app, "mark", mark)
        result = await (await app.send("Plan the trip")).result()
        assert result.response.content == "reviewed: All planned"
        assert seen == ["All planned"]
        receipt = await app.receive("/help")
        said = (await receipt.run.result()).response.content
        changes = await app.ledgers.events.read(events.changed_answers, request_ids=[receipt.request_id])
    assert said.startswith("reviewed: ")
    assert changes[0].original == seen[1]


def _occasion(request: Any, result: Any) -> Any:
    from nexus.automations.context import Occasion

    return Occasion(request=request, result=result)
