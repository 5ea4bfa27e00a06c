"""What somebody on a channel is told whose message is not answered: once, or nothing."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from apps import give_up, settings
from memory_writers import quiet, rows
from nexus.app import App
from nexus.automations.context import Context, Handler
from nexus.broker import agent_run
from nexus.channels import Message
from nexus.config import ChannelConfig
from nexus.engine.errors import WorkFailedError
from nexus.home import Home
from nexus.testing import Hold, ModelServer, Turn, failures
from unit.pipeline.test_pipeline import register

APOLOGY = "Sorry, I could not answer this."


def app_on(home: Home, server: ModelServer, *, serve: bool = True, **agents: Any) -> App:
    desk = ChannelConfig(kind="webhook", secret="env:NOTHING", owner=("hana",))
    app = App(home, replace(settings(server, **agents), channels={"desk": desk}), serve=serve)
    app.engine.settings = replace(app.engine.settings, stop_grace_ms=50)
    return app


async def write(app: App, text: str, *, edits: str | None = None) -> str:
    """The run that is to answer. A message has its text as its id."""
    message = Message(id=text, thread="t", sender="hana", text=text, edits=edits)
    await app.reception.from_channel("desk", message)
    [(run,)] = await rows(app, "runtime", "SELECT id FROM executions ORDER BY rowid DESC LIMIT 1")
    return str(run)


async def said(app: App) -> list[str]:
    found = await rows(app, "events", "SELECT content FROM events WHERE direction = 'outbound' ORDER BY seq")
    return [str(text) for (text,) in found]


async def ended(app: App) -> list[tuple[Any, ...]]:
    runs = await rows(app, "runtime", "SELECT status FROM executions ORDER BY rowid")
    turns = await rows(app, "agents", "SELECT status FROM agent_turns ORDER BY position")
    return [*runs, *turns]


def holding(reached: asyncio.Event) -> Handler:
    async def wait(_: Context) -> None:
        reached.set()
        await asyncio.Event().wait()

    return wait


async def test_a_message_that_cannot_be_answered_gets_one_apology(home: Home, server: ModelServer) -> None:
    server.always(failures.out_of_quota())
    async with app_on(home, server) as app:
        await write(app, "Hello")
        await quiet(app)
        assert await said(app) == [APOLOGY]


@pytest.mark.parametrize("broken", ["library", "context"])
async def test_who_waits_for_a_run_that_an_upgrade_broke_is_told(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    async def fail() -> None:
        raise ImportError("cannot import name 'Agent'")

    server.always("Hi")
    async with app_on(home, server, serve=False) as app:
        run = await write(app, "Hello")
        if broken == "library":
            monkeypatch.setattr(agent_run, "load_library", fail)
        else:
            lost = "UPDATE executions SET input_json = json_remove(input_json, '$.context.current_message')"
            await app.ledgers.runtime.write(lambda connection: connection.execute(lost).close())
    async with app_on(home, server) as app:
        with pytest.raises(WorkFailedError):
            await app.broker.run(run).result()
        assert await said(app) == [APOLOGY]
        assert await ended(app) == [("failed",)]
        [(status, error)] = await rows(app, "runtime", "SELECT status, error FROM requests")
    assert status == "failed"
    assert error.startswith(
        "A module can't be loaded" if broken == "library" else "Internal error: TypeError"
    )


async def test_who_was_told_that_there_is_no_answer_gets_none_after_a_crash(
    home: Home, server: ModelServer
) -> None:
    """The run's time limit is no step's: when the run is resumed, it would not be reached again."""
    reached = asyncio.Event()
    server.always(Turn("Hi", faults=[Hold(gate="never")]))
    async with app_on(home, server, timeout_ms=1) as app:
        await register(app, "last", "finalize", holding(reached), timeout_ms=60_000)
        run = await write(app, "Hello")
        await reached.wait()
        assert await said(app) == [APOLOGY]
    server.reset()
    server.always("Hi")
    async with app_on(home, server) as app:
        await quiet(app)
        assert await said(app) == [APOLOGY]
        assert await ended(app) == [("failed",), ("failed",)]
        state = await app.broker.run(run).state()
    assert "exceeded 1 ms" in (state.error or "")
    assert server.requests == []


async def test_a_run_that_was_cancelled_stays_so_after_a_crash(home: Home, server: ModelServer) -> None:
    reached = asyncio.Event()
    server.always(Turn("Once upon a time", faults=[Hold(gate="story", after_deltas=1)]))
    async with app_on(home, server) as app:
        await register(app, "last", "finalize", holding(reached), timeout_ms=60_000)
        run = await write(app, "Tell me a story")
        await server.until(lambda: server.gate("story").waiting, 30_000)
        assert await app.broker.run(run).cancel()
        await reached.wait()
    server.reset()
    server.always("The whole story.")
    async with app_on(home, server) as app:
        await quiet(app)
        assert await ended(app) == [("cancelled",), ("cancelled",)]
        assert await said(app) == []
    assert server.requests == []


async def test_a_message_that_its_sender_changes_is_answered_once(home: Home, server: ModelServer) -> None:
    server.script(Turn("Once upon a time", faults=[Hold(gate="story")]), "It is noon.")
    async with app_on(home, server) as app:
        await write(app, "Tell me a story")
        await server.until(lambda: server.gate("story").waiting, 30_000)
        await write(app, "What time is it?", edits="Tell me a story")
        await quiet(app)
        assert await said(app) == ["It is noon."]
        assert (await ended(app))[:2] == [("cancelled",), ("done",)]


@pytest.mark.parametrize("serve", [True, False])
async def test_who_waits_for_a_run_that_crashed_too_often_is_told_once(
    home: Home, server: ModelServer, *, serve: bool
) -> None:
    """By the process that serves the home next, or by one that only looks at the run before."""
    server.always(Turn("Hi", faults=[Hold(gate="never")]))
    async with app_on(home, server) as app:
        run = await write(app, "Hello")
        await server.until(lambda: server.gate("never").waiting, 30_000)
    give_up(home, run)
    async with app_on(home, server, serve=serve) as app:
        with pytest.raises(WorkFailedError, match="crashed each time"):
            await app.broker.run(run).result()
        await app.queue.hand_over_missing()
        assert await said(app) == [APOLOGY]
        assert await ended(app) == [("failed",), ("failed",)]
        open_spans = await rows(app, "runtime", "SELECT name FROM spans WHERE outcome IS NULL")
    assert open_spans == []


async def test_who_was_answered_is_not_told_otherwise_when_the_run_crashes_too_often(
    home: Home, server: ModelServer
) -> None:
    reached = asyncio.Event()
    server.always("Hi")
    async with app_on(home, server) as app:
        await register(app, "last", "finalize", holding(reached), timeout_ms=60_000)
        run = await write(app, "Hello")
        await reached.wait()
    give_up(home, run)
    async with app_on(home, server) as app:
        await app.queue.hand_over_missing()
        assert (await app.broker.run(run).state()).status == "failed"
        assert await said(app) == ["Hi"]
