"""What was accepted runs, whatever happens between the ledger and the engine; what was refused never does."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from apps import app_on, give_up, send, settings
from memory_writers import quiet, rows
from nexus.app import App
from nexus.broker import broker as broker_module
from nexus.broker import pace
from nexus.broker import queue as queue_module
from nexus.config import ChannelConfig, LedgersConfig
from nexus.engine import Settings, records
from nexus.engine.errors import EngineDamagedError, State, WorkCancelledError, WorkFailedError
from nexus.engine.owner import Ownership
from nexus.engine.records import GAVE_UP
from nexus.home import Home
from nexus.pipeline import Incoming
from nexus.testing import Hold, ModelServer, Turn
from unit.pipeline.test_pipeline import register


def full(app: App) -> None:
    """Let the engine's database take no new work, as on a full disk."""
    with app.engine.database.write() as connection:
        connection.exec_driver_sql(
            """CREATE TRIGGER full BEFORE INSERT ON workflow_status
            BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"""
        )


def room_again(app: App) -> None:
    with app.engine.database.write() as connection:
        connection.exec_driver_sql("DROP TRIGGER full")


def holding(ledger: Path) -> subprocess.Popen[str]:
    """A process that stays in the middle of a write until it is told to go on."""
    code = f"""
import sqlite3, sys
connection = sqlite3.connect({str(ledger)!r}, isolation_level=None, timeout=60)
connection.execute("BEGIN IMMEDIATE")
print("holds it", flush=True)
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


async def test_a_message_accepted_in_an_outage_runs_after_it_and_in_order(
    home: Home, server: ModelServer
) -> None:
    server.always(lambda r: Turn(f"Answer to {r.last_user.splitlines()[-1]}"))
    async with app_on(home, server) as app:
        await (await app.send("zero")).result()
        full(app)
        first = await app.receive("one", external_id="key:1")
        again = await app.receive("one", external_id="key:1")
        waiting = asyncio.create_task(first.run.result())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        room_again(app)
        second = await app.receive("two")
        results = [await waiting, await again.run.result(), await second.run.result()]
        said = await rows(
            app, "agents", "SELECT content FROM agent_messages WHERE role = 'assistant' ORDER BY position"
        )
    assert [result.response.content for result in results] == [
        "Answer to one",
        "Answer to one",
        "Answer to two",
    ]
    assert [text for (text,) in said] == ["Answer to zero", "Answer to one", "Answer to two"]


async def test_a_message_accepted_in_an_outage_runs_though_no_other_comes(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "_EVERY_S", 3_600.0)
    server.always("Hi")
    async with app_on(home, server) as app:
        full(app)
        asked = await app.receive("one")
        room_again(app)
        async with asyncio.timeout(120):
            assert (await asked.run.result()).response.content == "Hi"


async def test_a_newer_message_hands_over_what_waits_before_it(home: Home, server: ModelServer) -> None:
    server.always(lambda r: Turn(f"Answer to {r.last_user.splitlines()[-1]}"))
    async with app_on(home, server) as app:
        full(app)
        await app.receive("one")
        # So that nothing but the newer message hands it over.
        await app._outbox.stop()  # pyright: ignore[reportPrivateUsage]
        room_again(app)
        newer = await app.receive("two")
        await newer.run.result()
        said = await rows(
            app, "agents", "SELECT content FROM agent_messages WHERE role = 'assistant' ORDER BY position"
        )
    assert [text for (text,) in said] == ["Answer to one", "Answer to two"]


async def test_what_is_cancelled_while_it_is_handed_over_fails_nobody(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker's result that a waiting call takes while it is on its way to the session."""
    server.always("Hi")
    async with app_on(home, server) as app:
        full(app)
        await app.receive("one")
        # So that nothing hands it over before it is looked for.
        await app._outbox.stop()  # pyright: ignore[reportPrivateUsage]
        room_again(app)
        states = app.engine.states

        async def cancelled_meanwhile(execution_ids: Sequence[str]) -> dict[str, State]:
            statement = "UPDATE executions SET status = 'cancelled' WHERE rowid = 2 AND status = 'queued'"
            await app.ledgers.runtime.write(lambda connection: connection.execute(statement).fetchall())
            return await states(execution_ids)

        monkeypatch.setattr(app.engine, "states", cancelled_meanwhile)
        second = await app.receive("two")
        await app.queue.hand_over_missing()
        await quiet(app)
        runs = await rows(app, "runtime", "SELECT id, status FROM executions ORDER BY rowid")
    assert runs[1:] == [(second.run.id, "cancelled")]
    assert runs[0][1] == "done"


async def test_a_message_that_interrupts_in_an_outage_is_accepted_and_interrupts_after_it(
    home: Home, server: ModelServer
) -> None:
    server.script(Turn("Never", faults=[Hold(gate="slow")]))
    server.always(lambda r: Turn(f"Answer to {r.last_user.splitlines()[-1]}"))
    async with app_on(home, server) as app:
        await app.send("one")
        await server.until(lambda: server.gate("slow").waiting, 30_000)
        waiting = await app.receive("two")
        with app.engine.database.write() as connection:
            connection.exec_driver_sql(
                """CREATE TRIGGER full BEFORE UPDATE ON workflow_status
                BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"""
            )
        newest = await app.receive("three", mode="interrupt")
        room_again(app)
        assert (await newest.run.result()).response.content == "Answer to three"
        with pytest.raises(WorkCancelledError):
            await waiting.run.result()


async def test_a_message_whose_sender_leaves_while_its_run_is_recorded_is_answered(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "_EVERY_S", 3_600.0)
    frozen: list[subprocess.Popen[str]] = []

    async def freeze(ctx: object) -> None:
        frozen.append(await asyncio.to_thread(holding, home.ledger("runtime")))

    server.always("Hi")
    async with app_on(home, server) as app:
        await register(app, "freeze", "runAutomations", freeze, timeout_ms=60_000)
        sending = asyncio.create_task(app.receive("Hello"))
        session = app.queue._lock("main")  # pyright: ignore[reportPrivateUsage]
        while not session.locked():
            await asyncio.sleep(0.01)
        sending.cancel()
        await asyncio.sleep(0)
        frozen[0].communicate("go on")
        await asyncio.wait({sending})
        async with asyncio.timeout(60):
            while await rows(app, "runtime", "SELECT status FROM executions") != [("done",)]:
                await asyncio.sleep(0.01)
    assert sending.cancelled()


async def test_what_is_late_is_handed_over_after_an_error_that_nobody_expected() -> None:
    tried: list[str] = []
    is_done = asyncio.Event()

    async def hand_over() -> None:
        tried.append("tried")
        if len(tried) == 1:
            raise OSError("too many open files")
        is_done.set()

    outbox = queue_module.Outbox()
    outbox.start(hand_over)
    outbox.note_late()
    async with asyncio.timeout(60):
        await is_done.wait()
    await outbox.stop()


async def test_async_automations_of_an_outage_run_after_it_without_a_restart(
    home: Home, server: ModelServer
) -> None:
    ran: list[str] = []

    async def note(ctx: object) -> None:
        ran.append("noted")

    server.always("Hi")
    async with app_on(home, server) as app:
        await register(app, "note", "after:receiveEvent", note, blocking=False)
        full(app)
        run = await app.send("Hello")
        await app.automations.queue.wait_until_settled()
        room_again(app)
        await run.result()
        await quiet(app)
    assert ran == ["noted"]


async def test_what_the_engine_refuses_for_good_is_taken_back(home: Home, server: ModelServer) -> None:
    server.always("Hi")
    async with app_on(home, server) as app:
        await (await app.send("zero")).result()

        async def damaged(*_: object, **__: object) -> None:
            raise EngineDamagedError("The engine's database is damaged")

        start, app.engine.start = app.engine.start, damaged  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(EngineDamagedError):
            await app.receive("refused", external_id="key:1")
        app.engine.start = start
        refused = await rows(app, "runtime", "SELECT status FROM requests ORDER BY id DESC LIMIT 1")
        assert await app.queue.hand_over_missing() == 0
        retried = await app.receive("refused", external_id="key:1")
        assert (await retried.run.result()).response.content == "Hi"
        runs = await rows(app, "runtime", "SELECT status FROM executions")
    assert refused == [("failed",)]
    assert runs == [("done",), ("done",)]


async def test_a_run_that_finds_a_ledger_busy_goes_back_to_its_queue(home: Home, server: ModelServer) -> None:
    """Another process is frozen in the middle of a write, and thaws after a while."""
    server.script(Turn("Hi", faults=[Hold(gate="answer")]))
    config = replace(settings(server), ledgers=LedgersConfig(busy_timeout_ms=100))
    async with App(home, config) as app:
        run = await app.send("Hello")
        await server.until(lambda: server.gate("answer").waiting, 30_000)
        frozen = holding(home.ledger("agents"))
        server.gate("answer").open()
        while (await app.engine.show(run.id)).starts < 3:
            await asyncio.sleep(0.05)
        server.always("Hi")
        frozen.communicate("go on")
        result = await run.result()
        states = await rows(app, "runtime", "SELECT status, error FROM requests")
        turns = await rows(app, "agents", "SELECT status FROM agent_turns")
    assert result.response.content == "Hi"
    assert (states, turns) == ([("done", None)], [("done",)])


def _no_room(connection: apsw.Connection) -> None:
    connection.execute("PRAGMA max_page_count = 1").fetchall()


def _room(connection: apsw.Connection) -> None:
    connection.execute("PRAGMA max_page_count = 1000000").fetchall()


@pytest.mark.parametrize("ledger", ["agents", "runtime"])
async def test_a_run_that_finds_the_disk_full_goes_back_to_its_queue(
    home: Home, server: ModelServer, ledger: str
) -> None:
    answer = " ".join(f"word{number}" for number in range(8_000))
    server.script(Turn(answer, faults=[Hold(gate="answer")]))
    server.always(answer)
    async with app_on(home, server) as app:
        run = await app.send("Hello")
        await server.until(lambda: server.gate("answer").waiting, 30_000)
        await app.ledgers[ledger].write(_no_room)
        server.gate("answer").open()
        while (await app.engine.show(run.id)).starts < 2:
            await asyncio.sleep(0.05)
        await app.ledgers[ledger].write(_room)
        result = await run.result()
        await quiet(app)
        states = await rows(app, "runtime", "SELECT status, error FROM requests")
        turns = await rows(app, "agents", "SELECT status FROM agent_turns")
    assert result.response.content == answer
    assert (states, turns) == ([("done", None)], [("done",)])


async def test_steered_and_collected_messages_end_with_the_run_that_answered_them(
    home: Home, server: ModelServer
) -> None:
    slow = Turn("", [send("status")], faults=[Hold(gate="slow")])
    server.script(slow, "All of it")
    server.always("Both")
    async with app_on(home, server) as app:
        run = await app.send("First")
        await server.until(lambda: server.gate("slow").waiting, 30_000)
        steered = await app.send("And this", mode="steer")
        server.gate("slow").open()
        assert (await run.result()).response.content == (await steered.result()).response.content
        collected = [await app.send(text, session_label="other", mode="collect") for text in ("One", "Two")]
        for each in collected:
            await each.result()
        await quiet(app)
        states = await rows(app, "runtime", "SELECT DISTINCT status FROM requests")
    assert states == [("done",)]


async def test_a_message_that_is_cancelled_while_it_waits_ends_its_request(
    home: Home, server: ModelServer
) -> None:
    server.script(Turn("Hi", faults=[Hold(gate="answer")]))
    async with app_on(home, server) as app:
        run = await app.send("First")
        await server.until(lambda: server.gate("answer").waiting, 30_000)
        waiting = await app.send("Second")
        assert await waiting.cancel()
        server.gate("answer").open()
        await run.result()
        states = await rows(app, "runtime", "SELECT status FROM requests ORDER BY created_at")
    assert states == [("done",), ("cancelled",)]


async def test_a_message_whose_sender_leaves_before_its_run_is_recorded_ends(
    home: Home, server: ModelServer
) -> None:
    begun = asyncio.Event()

    async def slow(ctx: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with app_on(home, server) as app:
        await register(app, "slow", "after:resolveAccess", slow, timeout_ms=60_000)
        sending = asyncio.create_task(app.receive("Hello"))
        await begun.wait()
        sending.cancel()
        await asyncio.wait({sending})
        states = await rows(app, "runtime", "SELECT status, error FROM requests")
    assert states == [("cancelled", "Cancelled before its run began.")]


async def test_requests_that_a_dead_process_left_are_ended_when_the_home_opens(
    home: Home, server: ModelServer
) -> None:
    orphan = "UPDATE requests SET status = 'running', ended_at = NULL"
    server.script("Hi")
    server.always(Turn("Later", faults=[Hold(gate="later")]))
    async with app_on(home, server) as app:
        await (await app.send("Answered")).result()
        await app.ledgers.runtime.write(lambda c: c.execute(orphan) and None)
        await app.send("Interrupted")
        await server.until(lambda: server.gate("later").waiting, 30_000)
    async with app_on(home, server) as app:
        states = await rows(app, "runtime", "SELECT status FROM requests ORDER BY created_at")
    assert states == [("done",), ("running",)]


async def test_requests_that_a_dead_owner_left_are_ended_by_the_process_that_takes_over(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_module, "LONGEST_INTAKE", timedelta(0))
    server.always("Hi")
    async with app_on(home, server) as app:
        await (await app.send("Answered")).result()
    owner = Ownership(Settings.of_home(home, settings(server).engine))
    assert owner.take()
    async with app_on(home, server) as app:
        orphan = "UPDATE requests SET status = 'running', ended_at = NULL"
        await app.ledgers.runtime.write(lambda c: c.execute(orphan) and None)
        owner.release()
        async with asyncio.timeout(60):
            while await rows(app, "runtime", "SELECT status FROM requests") != [("done",)]:
                await asyncio.sleep(0.01)


async def test_a_process_that_stands_by_serves_the_channels(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", "secret")
    server.always("Hi")
    hook = ChannelConfig(kind="webhook", secret="env:HOOK", owner=("hana",))
    owner = Ownership(Settings.of_home(home, settings(server).engine))
    assert owner.take()
    config = replace(settings(server), channels={"desk": hook})
    async with App(home, config, memory_socket=True) as app:
        async with asyncio.timeout(60):
            while app.channels.statuses() != {"desk": "connected"}:
                await asyncio.sleep(0.01)
        receipt = await app.accept(
            Incoming(channel="desk", sender="hana", thread="t", content="Hello", is_owner=True)
        )
        assert not app.engine.serving
        owner.release()
        await receipt.run.result()
        said = await rows(app, "events", "SELECT content FROM events WHERE direction = 'outbound'")
    assert said == [("Hi",)]


async def test_a_run_keeps_the_lane_in_which_it_was_queued(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message of the owner's, in a session that belongs to a channel after a restart."""
    for name in ("_AHEAD_S", "_AT_ONCE_S"):
        monkeypatch.setattr(pace, name, 3_600.0)
    hook = ChannelConfig(kind="webhook", secret="env:HOOK")
    server.always(Turn("Hi", faults=[Hold(gate="answer")]))
    async with app_on(home, server) as app:
        await app.send("Hello", session_label="desk:t")
        await server.until(lambda: server.gate("answer").waiting, 30_000)
    async with App(home, replace(settings(server), channels={"desk": hook})) as app:
        await server.until(lambda: len(server.exchanges) == 2, 30_000)
        assert not app.broker.pace.is_clear, "it still goes ahead of messages of channels"


async def test_a_process_that_takes_over_while_it_starts_ends_what_the_owner_left_when_the_ledger_is_free(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server.always("Hi")
    async with app_on(home, server) as app:
        await (await app.send("Answered")).result()
        orphan = "UPDATE requests SET status = 'running', ended_at = NULL"
        await app.ledgers.runtime.write(lambda c: c.execute(orphan) and None)
    config = replace(settings(server), ledgers=LedgersConfig(busy_timeout_ms=10))
    owner = Ownership(Settings.of_home(home, config.engine))
    assert owner.take()

    class Successor(App):
        async def _start_work(self, opening: AsyncExitStack) -> None:
            owner.release()
            await self.engine.taken_over.wait()
            await super()._start_work(opening)
            # What it took in until now could be anybody's: that time is over.
            monkeypatch.setattr(broker_module, "LONGEST_INTAKE", timedelta(0))

    # Somebody else has the home open, and could be taking the request in.
    async with App(home, config, serve=False), Successor(home, config) as app:
        with closing(apsw.Connection(str(home.ledger("runtime")))) as other:
            other.execute("BEGIN IMMEDIATE")
            async with asyncio.timeout(60):
                while "are ended later" not in caplog.text:
                    await asyncio.sleep(0.01)
        async with asyncio.timeout(60):
            while await rows(app, "runtime", "SELECT status FROM requests") != [("done",)]:
                await asyncio.sleep(0.01)


async def test_a_message_that_a_run_took_on_which_crashed_too_often_is_answered(
    home: Home, server: ModelServer
) -> None:
    slow = Turn("", [send("status")], faults=[Hold(gate="slow")])
    server.script(slow, Turn("Never", faults=[Hold(gate="never")]))
    async with app_on(home, server) as app:
        asked = await app.send("First")
        await server.until(lambda: server.gate("slow").waiting, 30_000)
        steered = await app.send("And this", mode="steer")
        server.gate("slow").open()
        await server.until(lambda: server.gate("never").waiting, 30_000)
        assert (await app.queue.run(steered.id).state()).taken_by == asked.id
    give_up(home, asked.id)
    server.reset()
    server.always("Hi")
    async with app_on(home, server) as app:
        assert (await app.broker.run(steered.id).result()).response.content == "Hi"
        await quiet(app)
        states = await rows(app, "runtime", "SELECT status FROM requests ORDER BY rowid")
    assert states == [("failed",), ("done",)]


async def test_a_message_that_crashed_too_often_is_settled_and_can_be_retried(
    home: Home, server: ModelServer
) -> None:
    server.script(Turn("Never", faults=[Hold(gate="never")]))
    async with app_on(home, server) as app:
        asked = await app.send("Hello")
        await server.until(lambda: server.gate("never").waiting, 30_000)
    give_up(home, asked.id)
    server.reset()
    server.always("Hi")
    async with app_on(home, server) as app:
        run = app.broker.run(asked.id)
        with pytest.raises(WorkFailedError, match="crashed each time"):
            await run.result()
        assert await rows(app, "runtime", "SELECT status, error FROM requests") == [("failed", GAVE_UP)]
        assert await rows(app, "agents", "SELECT status FROM agent_turns") == [("failed",)]
        (letter,) = records.list_dead_letters(app.engine.database)
        assert letter.execution_id == asked.id
        again = await app.queue.retry(asked.id)
        assert (await again.result())["response"]["content"] == "Hi"
        assert records.list_dead_letters(app.engine.database) == []
        assert await rows(app, "runtime", "SELECT status FROM requests") == [("done",)]
