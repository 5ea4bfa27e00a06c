"""The way of a message through the eight stages, with a real broker on a model server."""

import asyncio
from typing import Any

import pytest

from apps import app_on, dispatching
from nexus.app import App
from nexus.automations import registration
from nexus.automations.context import Context, Handler
from nexus.automations.hook_points import HOOK_POINTS, SCHEDULE
from nexus.engine.errors import WorkFailedError
from nexus.errors import AccessError
from nexus.home import Home
from nexus.ledgers import events
from nexus.ledgers.identity import access as grants
from nexus.ledgers.identity.access import Granted
from nexus.ledgers.runtime import requests
from nexus.ledgers.runtime.automations import NewAutomation
from nexus.pipeline import Incoming
from nexus.pipeline.incoming import Journey
from nexus.testing import ModelRequest, ModelServer

_STAGES = [
    "receiveEvent",
    "resolveIdentity",
    "resolveAccess",
    "runAutomations",
    "assembleContext",
    "runAgent",
    "deliverResponse",
    "finalize",
]


async def register(app: App, name: str, hook_point: str, run: Handler, **settings: Any) -> None:
    """Code that runs in this process, at a hook point."""
    path = f"python:{name}"
    app.automations._handlers[path] = run  # pyright: ignore[reportPrivateUsage]
    new = NewAutomation(name=name, script_path=path, script_hash=None, hook_point=hook_point, **settings)
    write = registration.writer(app.ledgers)
    await asyncio.to_thread(registration.register, app.home, write, new)


async def spans(app: App, request_id: str, kind: str) -> list[tuple[str, str]]:
    """The trace of a request: names and outcomes in the order in which things began."""
    query = "SELECT name, outcome FROM spans WHERE request_id = ? AND kind = ? ORDER BY id"
    rows = await app.ledgers.runtime.read(lambda c: c.execute(query, (request_id, kind)).fetchall())
    return [(str(name), str(outcome)) for name, outcome in rows]


def stranger(content: str = "Hello", **changes: Any) -> Incoming:
    given: dict[str, Any] = {"channel": "telegram", "sender": "@sam", "thread": "42", "content": content}
    return Incoming(**{**given, **changes})


async def receive(app: App, incoming: Incoming) -> Journey:
    journey = await app.pipeline.receive(incoming)
    if journey.run is not None:
        await journey.run.result()
    return journey


async def test_every_stage_is_traced_in_order(home: Home, server: ModelServer) -> None:
    server.script("Hi")
    async with app_on(home, server) as app:
        result = await (await app.send("Hello")).result()
        assert await spans(app, result.request_id, "stage") == [(name, "ok") for name in _STAGES]
        stored = await app.ledgers.runtime.read(requests.get, request_id=result.request_id)
    assert stored is not None
    assert (stored.status, stored.stage, stored.access.level) == ("done", "finalize", "owner")


async def test_a_run_that_is_stopped_after_its_answer_is_on_record_is_done(
    home: Home, server: ModelServer
) -> None:
    is_delivered = asyncio.Event()

    async def hold(_: Context) -> None:
        if not is_delivered.is_set():
            is_delivered.set()
            await asyncio.Event().wait()

    server.script("Hi")
    async with app_on(home, server) as app:
        await register(app, "hold", "after:deliverResponse", hold)
        run = await app.send("Hello")
        await is_delivered.wait()
        await run.cancel()
        result = await run.result()
        stored = await app.ledgers.runtime.read(requests.get, request_id=result.request_id)
    assert result.response.content == "Hi"
    assert stored is not None
    assert (stored.status, stored.stage) == ("done", "finalize")
    assert len(server.requests) == 1


async def test_every_hook_point_fires_in_order_in_one_request(home: Home, server: ModelServer) -> None:
    """From the message to the answer, with a worker in between; proven from the stored trace."""
    seen: list[tuple[str, str]] = []

    def note(ctx: Context) -> None:
        seen.append((ctx.hook_point, ctx.request.agent.role))

    script_workers(server)
    async with app_on(home, server) as app:
        for point in (each for each in HOOK_POINTS if each.name != SCHEDULE):
            await register(app, f"at-{point.name.replace(':', '-')}", point.name, note)
        result = await (await app.send("Plan the trip")).result()
        await app.new_session("main")
        hooks = [name for name, _ in await spans(app, result.request_id, "hook")]
        query = """SELECT i.hook_point, i.created_at
            FROM invocations i JOIN automations a ON a.id = i.automation_id
            WHERE i.root_request_id = ? AND a.name LIKE 'at-%'"""
        await app.automations.runner.wait_until_settled()
        rows = await app.ledgers.runtime.read(lambda c: c.execute(query, (result.request_id,)).fetchall())
    own = [
        "after:receiveEvent",
        "after:resolveIdentity",
        "after:resolveAccess",
        "agent:bootstrap",
        "after:assembleContext",
        "after:runAgent",
        "before:deliverResponse",
        "after:deliverResponse",
    ]
    assert hooks == own
    expected = [
        *own[:3],
        "runAutomations",
        *own[3:5],
        "agent:bootstrap",
        "worker:pre_execution",
        "after:runAgent",
        "after:runAgent",
        "before:deliverResponse",
        "after:deliverResponse",
        "finalize",
    ]
    # Times are milliseconds: of two points within one, the order is not recorded.
    fired = sorted(rows, key=lambda row: (row[1], expected.index(str(row[0]))))
    assert [row[0] for row in fired] == expected
    assert ("worker:pre_execution", "worker") in seen
    assert seen[-1][0] == "command:new"


def _from_manager(request: ModelRequest) -> bool:
    return "Plan the trip" in str(request.json)


def script_workers(server: ModelServer) -> None:
    server.when(_from_manager).script(*dispatching("Find a train", then="All planned"))
    server.when(last_user="Find a train").script("At nine")


async def test_what_a_hook_adds_reaches_the_worker_as_memory(home: Home, server: ModelServer) -> None:
    script_workers(server)
    async with app_on(home, server) as app:
        remembered = {"enrich": {"memories": "Ada hates early trains"}}
        await register(app, "memory", "worker:pre_execution", lambda ctx: remembered)
        await (await app.send("Plan the trip")).result()
    wanted = "<memory_context>\nAda hates early trains\n</memory_context>\n\nFind a train"
    assert [exchange for exchange in server.exchanges if wanted in exchange.request.last_user]


async def test_an_automation_may_answer_in_the_place_of_an_agent(home: Home, server: ModelServer) -> None:
    async with app_on(home, server) as app:
        await register(app, "echo", "runAutomations", lambda ctx: {"handled": True, "response": "42"})
        answer = await app.send("The answer?")
        result = await answer.result()
        assert result.response.content == "42"
        assert [delta.text async for delta in answer.deltas() if delta.text] == ["42"]
        said = await app.ledgers.events.read(
            lambda c: c.execute("SELECT direction, content FROM events ORDER BY seq").fetchall()
        )
        stored = await app.ledgers.runtime.read(requests.get, request_id=result.request_id)
    assert said == [("inbound", "The answer?"), ("outbound", "42")]
    assert stored is not None
    assert stored.status == "done"
    assert server.exchanges == []


async def test_a_stranger_is_told_a_code_and_goes_no_further(home: Home, server: ModelServer) -> None:
    async with app_on(home, server) as app:
        journey = await receive(app, stranger())
        (asking,) = await app.ledgers.identity.read(grants.list_pairings)
        stored = await app.ledgers.runtime.read(requests.get, request_id=journey.request.request_id)
        stages = await spans(app, journey.request.request_id, "stage")
        event = await app.ledgers.events.read(events.get, event_id=journey.request.event.id or "")
        again = await receive(app, stranger())
    assert asking.code in (journey.response or "")
    assert again.response is None, "a stranger is told a code once while it is valid"
    assert again.denied is not None
    assert again.request.principal_id == journey.request.principal_id
    assert stored is not None
    assert (stored.status, stored.error) == ("denied", "an unknown sender")
    assert stages[2:] == [("resolveAccess", "denied"), ("deliverResponse", "ok")]
    assert event is not None
    assert event.content == "Hello"
    assert server.exchanges == []


async def test_somebody_who_was_let_in_is_answered_with_what_was_granted(
    home: Home, server: ModelServer
) -> None:
    server.script("Hi Sam")
    async with app_on(home, server) as app:
        await receive(app, stranger())
        (asking,) = await app.ledgers.identity.read(grants.list_pairings)
        granted = Granted(tools=("read",))
        await app.ledgers.identity.write(grants.approve, code=asking.code, granted=granted, by="owner")
        journey = await receive(app, stranger("Hello again"))
        other = await receive(app, stranger("And there?", session_label="main"))
    assert journey.denied is None
    assert journey.request.access.level == "known"
    assert journey.request.access.tools == frozenset({"read"})
    assert journey.request.agent.session_label == "telegram:42"
    assert other.denied == "the session main was not granted"


async def test_an_automation_may_deny_and_never_allow(home: Home, server: ModelServer) -> None:
    async with app_on(home, server) as app:
        await register(app, "strict", "after:resolveAccess", lambda ctx: {"deny": "not on Sundays"})
        with pytest.raises(AccessError, match="not on Sundays"):
            await app.send("Hello")
        journey = await receive(app, stranger())
    assert journey.denied == "an unknown sender"


async def test_what_a_channel_delivers_twice_is_one_event(home: Home, server: ModelServer) -> None:
    async with app_on(home, server) as app:
        first = await receive(app, stranger(external_id="m1"))
        second = await receive(app, stranger(external_id="m1"))
    assert first.request.event.id == second.request.event.id


async def test_finalize_fires_for_a_request_that_failed(home: Home, server: ModelServer) -> None:
    ends: list[str] = []
    async with app_on(home, server) as app:
        await register(app, "last", "finalize", lambda ctx: ends.append(ctx.hook_point))
        run = await app.send("Hello")  # the server has no script: it refuses
        with pytest.raises(WorkFailedError):
            await run.result()
    assert ends == ["finalize"]
