"""What a run is told is put together when it begins: nobody waits for it, and it is done once."""

import asyncio
from typing import Any

import pytest

from apps import app_on
from memory_writers import rows
from nexus.app import App
from nexus.automations import registration
from nexus.automations.context import Context, Handler
from nexus.errors import LedgerBusyError
from nexus.home import Home
from nexus.ledgers.runtime import executions
from nexus.ledgers.runtime.automations import NewAutomation
from nexus.testing import Hold, ModelServer, ToolCall, Turn, failures

_HOUR_MS = 3_600_000


async def register(app: App, name: str, hook_point: str, run: Handler, **settings: Any) -> None:
    handle(app, name, run)
    new = NewAutomation(
        name=name, script_path=f"python:{name}", script_hash=None, hook_point=hook_point, **settings
    )
    await asyncio.to_thread(registration.register, app.home, registration.writer(app.ledgers), new)


def handle(app: App, name: str, run: Handler) -> None:
    """Code in this process for an automation that is registered."""
    app.automations._handlers[f"python:{name}"] = run  # pyright: ignore[reportPrivateUsage]


def told_by_content(context: Context) -> dict[str, Any]:
    return {"context": f"about {context.request.event.content}"}


async def invocations(app: App, name: str) -> list[tuple[Any, ...]]:
    await app.automations.runner.wait_until_settled()
    query = "SELECT i.id FROM invocations AS i JOIN automations AS a ON a.id = i.automation_id"
    return await rows(app, "runtime", f"{query} WHERE a.name = '{name}'")


async def test_a_message_is_accepted_while_its_context_is_put_together(
    home: Home, server: ModelServer
) -> None:
    accepted = asyncio.Event()

    async def wait(context: Context) -> dict[str, Any]:
        await accepted.wait()
        return {"context": "It rains."}

    server.script("Take an umbrella.")
    async with app_on(home, server) as app:
        await register(app, "weather", "after:assembleContext", wait, timeout_ms=60_000)
        run = await app.send("What shall I wear?")
        accepted.set()
        await run.result()
    assert '<context source="weather">\nIt rains.\n</context>' in server.requests[0].last_user


async def test_hooks_of_a_run_are_not_repeated_after_a_restart(home: Home, server: ModelServer) -> None:
    fired: list[str] = []

    def note(context: Context) -> dict[str, Any]:
        fired.append(context.hook_point)
        return {"context": f"{len(fired)} times", "enrich": {"memories": "- Ada likes tea"}}

    points = {"first": "agent:bootstrap", "then": "after:assembleContext"}
    server.always(failures.server_error())
    async with app_on(home, server, outage_ms=_HOUR_MS) as app:
        await register(app, "first", points["first"], lambda _: fired.append(points["first"]))
        await register(app, "then", points["then"], note)
        asked = await app.send("Hello")
        await server.until(lambda: server.requests)
    server.reset()
    server.always("Hi")
    async with app_on(home, server, outage_ms=_HOUR_MS) as app:
        handle(app, "first", note)
        handle(app, "then", note)
        result = await app.broker.run(asked.id).result()
        [(enrichment,)] = await rows(app, "runtime", "SELECT enrichment_json FROM requests")
        outcomes = await rows(
            app, "runtime", "SELECT name, outcome FROM spans WHERE kind = 'stage' ORDER BY started_at, id"
        )
    assert result.response.content == "Hi"
    assert fired == list(points.values())
    assert "2 times" in server.requests[0].last_user
    assert server.requests[0].last_user.count("Ada likes tea") == 1
    assert "Ada likes tea" in enrichment
    assert [each for each in outcomes if each[0] in {"assembleContext", "runAgent"}] == [
        ("assembleContext", "ok"),
        ("runAgent", "ok"),
    ]


async def test_what_is_put_together_again_asks_for_nothing_twice(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fired: list[str] = []
    prepare = executions.prepare

    def fail_once(*arguments: Any) -> None:
        monkeypatch.setattr(executions, "prepare", prepare)
        raise LedgerBusyError("held by another process", hint="Wait.")

    def note(context: Context) -> dict[str, Any]:
        fired.append(context.invocation_id)
        return {"context": "It rains.", "enrich": {"memories": "- Ada likes tea"}}

    server.script("Hi")
    monkeypatch.setattr(executions, "prepare", fail_once)
    async with app_on(home, server) as app:
        await register(app, "welcome", "agent:bootstrap", lambda _: None, blocking=False)
        await register(app, "weather", "after:assembleContext", note)
        await (await app.send("Hello")).result()
        welcomed = await invocations(app, "welcome")
    assert len(fired) == 2
    assert fired[0] == fired[1]
    assert len(welcomed) == 1
    assert server.requests[0].last_user.count("It rains.") == 1
    assert server.requests[0].last_user.count("Ada likes tea") == 1


async def test_what_is_said_into_a_run_gets_a_context_of_its_own(home: Home, server: ModelServer) -> None:
    server.script(
        Turn("", [ToolCall("agent_send", {"op": "status"})], faults=[Hold(gate="first")]),
        lambda request: Turn(f"Heard {request.last_user}"),
    )
    async with app_on(home, server) as app:
        await register(app, "echo", "after:assembleContext", told_by_content)
        first = await app.send("Begin")
        await server.until(lambda: server.gate("first").waiting)
        second = await app.send("And hurry", mode="steer")
        server.gate("first").open()
        answer = (await second.result()).response.content
        await first.result()
        traced = await rows(
            app,
            "runtime",
            "SELECT e.id, s.outcome FROM executions AS e JOIN spans AS s ON s.request_id = e.request_id"
            " WHERE s.name = 'assembleContext' ORDER BY e.rowid",
        )
        open_spans = await rows(app, "runtime", "SELECT name FROM spans WHERE outcome IS NULL")
    assert "about Begin" in server.requests[0].last_user
    assert "about And hurry" in answer
    assert traced == [(first.id, "ok"), (second.id, "ok")]
    assert open_spans == []


async def test_what_is_collected_into_a_run_gets_a_context_of_its_own(
    home: Home, server: ModelServer
) -> None:
    server.script("Both.")
    async with app_on(home, server) as app:
        await register(app, "echo", "after:assembleContext", told_by_content)
        runs = [await app.send(text, mode="collect") for text in ("tea", "coffee")]
        for run in runs:
            await run.result()
    [asked] = server.requests
    assert asked.last_user.index("about tea") < asked.last_user.index("about coffee")


async def test_a_repeated_answer_is_told_what_the_first_one_was(home: Home, server: ModelServer) -> None:
    fired: list[str] = []

    def note(context: Context) -> dict[str, Any]:
        fired.append(context.hook_point)
        return {"context": f"{len(fired)} times"}

    server.script("Hi", "Hello")
    async with app_on(home, server) as app:
        await register(app, "counting", "after:assembleContext", note)
        run = await app.send("Hello")
        await run.result()
        await (await app.regenerate(run.id)).result()
    assert len(fired) == 1
    assert ["1 times" in each.last_user for each in server.requests] == [True, True]
