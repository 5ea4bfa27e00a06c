"""The invariants of a home: each violation is found, and a healthy home has none."""

import asyncio
import shutil
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import apsw
import pytest

from apps import app_on, send, settings
from contents import execute
from new_homes import new_home
from nexus import ids
from nexus.app import App
from nexus.broker import invariants
from nexus.broker.invariants import check
from nexus.broker.queue import WORK
from nexus.config import Config, ModelsConfig
from nexus.demo.filling import Demo, fill
from nexus.demo.place import prepare
from nexus.engine import Engine, Settings
from nexus.home import Home
from nexus.ledgers.runtime import executions, invocations
from nexus.testing import Hold, ModelRequest, ModelServer, Turn


def _answer(request: ModelRequest) -> Turn:
    """Dispatch a worker for the first message; answer everything else."""
    if "delegate" in request.last_user and not request.tool_results:
        return Turn("", [send("dispatch", text="Count the lamps.")])
    return Turn("Noted.")


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home whose agent answered messages, heard of a worker and wrote its memory; nobody serves it now."""
    home = new_home(tmp_path_factory.mktemp("lived-in") / "home")
    asyncio.run(_live(home))
    return home


async def _live(home: Home) -> None:
    async with ModelServer() as server:
        server.when(model="large").always(_answer)
        server.when(model="worker").always("Seven lamps.")
        server.when(model="writer").always("Nothing to remember.")
        config = settings(server)
        models = ModelsConfig(manager=("test/large",), worker=("test/worker",), writer=("test/writer",))
        async with App(home, replace(config, models=models)) as app:
            await (await app.send("Please delegate this.")).result()
            await (await app.send("And this is for later.")).result()
            await _quiet(app)
            await (await app.send("That is all.")).result()
            await _quiet(app)


@pytest.fixture
def home(lived_in: Home, tmp_path: Path) -> Home:
    """A copy to break."""
    shutil.copytree(lived_in.root, tmp_path / "copy")
    return Home(tmp_path / "copy")


async def _quiet(app: App) -> None:
    """Wait until nothing is under way."""

    async def busy() -> bool:
        runtime = app.ledgers.runtime
        unfinished = await runtime.read(executions.list_unfinished) or await runtime.read(
            invocations.list_unfinished
        )
        return bool(unfinished)

    async with asyncio.timeout(60):
        while await busy():
            await asyncio.sleep(0.05)


def found(home: Home, *, strict: bool = False) -> set[str]:
    """Which invariants do not hold in a home that nobody serves."""
    verdict = check(home, Settings(database=home.engine_file), strict=strict)
    assert not verdict.is_served
    return {each.invariant for each in verdict.violations}


def engine(home: Home, statement: str) -> None:
    with sqlite3.connect(home.engine_file) as connection:
        connection.execute(statement)
    connection.close()


def run_of(home: Home, text: str) -> str:
    """The run that answered a message."""
    event = execute(home, "events", "SELECT id FROM events WHERE content = ?", (text,))
    found = execute(
        home,
        "runtime",
        "SELECT e.id FROM executions AS e JOIN requests AS r ON r.id = e.request_id WHERE r.event_id = ?"
        " AND e.session_label = 'main' ORDER BY e.rowid LIMIT 1",
        (event,),
    )
    assert isinstance(found, str)
    return found


def test_a_home_that_was_lived_in_is_healthy(home: Home) -> None:
    assert found(home, strict=True) == set()
    assert execute(home, "memory", "SELECT count(*) FROM processing_log WHERE target_type = 'execution'") >= 3
    assert execute(home, "runtime", "SELECT count(*) FROM dispatches WHERE delivered_to IS NOT NULL") == 1


async def test_a_demonstration_home_is_healthy(tmp_path: Path) -> None:
    home = Home(tmp_path / "demo")
    await prepare(home, Config())
    await fill(home, Config(), Demo(seed=5, until=datetime(2026, 5, 31, 18, tzinfo=UTC)))
    assert found(home) == set()


def test_a_request_that_nothing_works_on(home: Home) -> None:
    execute(home, "runtime", "UPDATE requests SET status = 'running', ended_at = NULL WHERE depth = 0")
    assert found(home) == {"requests"}


def test_a_turn_that_the_writer_took_for_written(home: Home) -> None:
    run = run_of(home, "And this is for later.")
    execute(home, "memory", "DELETE FROM processing_log WHERE target_id = ?", (run,))
    assert found(home) == set(), "its invocation says what became of it"
    execute(
        home,
        "runtime",
        """UPDATE invocations SET result_json = '{"enrich": {"waits": "no turn is due"}}'
        WHERE json_extract(input_json, '$.result.execution_id') = ?""",
        (run,),
    )
    assert found(home) == {"turns"}


def test_a_turn_that_the_writer_never_heard_of(home: Home) -> None:
    run = run_of(home, "And this is for later.")
    execute(home, "memory", "DELETE FROM processing_log WHERE target_id = ?", (run,))
    execute(
        home,
        "runtime",
        "DELETE FROM invocations WHERE json_extract(input_json, '$.result.execution_id') = ?",
        (run,),
    )
    assert found(home, strict=True) == {"turns"}
    assert found(home) == {"turns"}, "the writer was on before it and after it"
    execute(home, "runtime", "DELETE FROM invocations")
    execute(home, "memory", "DELETE FROM processing_log")
    assert found(home) == set(), "the writer may have been off"


@pytest.mark.parametrize(
    "change",
    ["delivered_to = NULL", "delivered_to = 'exe_nowhere'", "status = 'running', ended_at = NULL"],
    ids=["nobody-got-it", "its-message-was-never-sent", "its-run-has-ended"],
)
def test_a_result_that_reached_no_run(home: Home, change: str) -> None:
    execute(home, "runtime", f"UPDATE dispatches SET {change}")
    assert found(home) == {"dispatches"}


async def test_a_result_whose_message_a_crash_cut_off_is_sent_when_the_home_opens(home: Home) -> None:
    lost = ids.new("exe")
    execute(
        home,
        "runtime",
        "UPDATE executions SET status = 'cancelled' WHERE id = (SELECT delivered_to FROM dispatches)",
    )
    execute(home, "runtime", "UPDATE dispatches SET delivered_to = ?, delivered_call_id = NULL", (lost,))
    async with ModelServer() as server:
        server.always("I have heard of it.")
        async with app_on(home, server) as app:
            await _quiet(app)
            assert (await app.queue.run(lost).state()).status == "done"
    assert found(home) == set()


def test_an_answer_that_was_not_delivered(home: Home) -> None:
    run = run_of(home, "And this is for later.")
    execute(home, "events", "DROP TRIGGER events_are_not_deleted")
    execute(home, "events", "DELETE FROM events WHERE external_id = ?", (run,))
    assert found(home) == {"answers"}


def test_an_answer_without_usage(home: Home) -> None:
    run = run_of(home, "And this is for later.")
    execute(home, "runtime", "DELETE FROM usage WHERE execution_id = ?", (run,))
    assert found(home) == {"usage"}


def test_a_model_call_that_was_never_settled(home: Home) -> None:
    run = run_of(home, "And this is for later.")
    execute(
        home,
        "runtime",
        "INSERT INTO reservations (execution_id, usage_id, request_id, root_request_id, provider, model,"
        " input_tokens, output_tokens)"
        " SELECT id, 'use_1', request_id, root_request_id, 'test', 'large', 1, 1"
        " FROM executions WHERE id = ?",
        (run,),
    )
    assert found(home) == {"usage"}


def test_turns_that_are_out_of_order(home: Home) -> None:
    first, second = (run_of(home, text) for text in ("Please delegate this.", "And this is for later."))
    place = "SELECT position FROM agent_turns WHERE execution_id = ?"
    one, other = (execute(home, "agents", place, (run,)) for run in (first, second))
    move = "UPDATE agent_turns SET position = ? WHERE execution_id = ?"
    for position, run in ((-1, first), (one, second), (other, first)):
        execute(home, "agents", move, (position, run))
    assert found(home) == {"order"}


def test_a_message_that_was_worked_on_twice(home: Home) -> None:
    run = run_of(home, "And this is for later.")
    execute(
        home,
        "runtime",
        """INSERT INTO requests (id, root_request_id, event_id, channel, session_label, status)
        SELECT 'req_2', 'req_2', event_id, channel, session_label, 'done' FROM requests
        WHERE id = (SELECT request_id FROM executions WHERE id = ?)""",
        (run,),
    )
    assert found(home) == set(), "without a run, the second one did nothing"
    execute(
        home,
        "runtime",
        """INSERT INTO executions (id, request_id, root_request_id, session_label, work, status)
        VALUES ('exe_2', 'req_2', 'req_2', 'main', 'agent', 'failed')""",
    )
    assert found(home) == {"effects"}


def test_a_result_that_was_reported_twice(home: Home) -> None:
    execute(
        home,
        "runtime",
        """INSERT INTO executions
          (id, request_id, root_request_id, session_label, work, mode, input_json, status)
        SELECT 'exe_2', request_id, root_request_id, session_label, work, mode, input_json, 'failed'
        FROM executions WHERE id = (SELECT delivered_to FROM dispatches)""",
    )
    assert found(home) == {"effects"}


def test_a_run_that_was_never_handed_over(home: Home) -> None:
    execute(
        home,
        "runtime",
        """INSERT INTO executions (id, request_id, root_request_id, session_label)
        SELECT 'exe_new', id, id, 'main' FROM requests WHERE depth = 0 LIMIT 1""",
    )
    assert found(home) == {"queue"}


def test_a_run_whose_end_only_the_engine_knows(home: Home) -> None:
    run = run_of(home, "And this is for later.")
    execute(home, "runtime", "UPDATE executions SET status = 'running' WHERE id = ?", (run,))
    assert found(home) == {"queue"}


async def test_work_in_the_engine_that_belongs_to_nothing(home: Home) -> None:
    stray = Engine(Settings(database=home.engine_file))
    await stray.open(serve=False)
    await stray.start(WORK, {"home": ""}, key="main", lane="chat")
    await stray.close()
    assert found(home) == {"queue"}


def test_work_that_runs_in_no_process(home: Home) -> None:
    run = run_of(home, "And this is for later.")
    execute(home, "runtime", "UPDATE executions SET status = 'running' WHERE id = ?", (run,))
    engine(home, f"UPDATE workflow_status SET status = 'PENDING' WHERE workflow_uuid = '{run}'")
    assert found(home) == {"queue"}


def test_an_async_automation_that_never_ends(home: Home) -> None:
    execute(
        home,
        "runtime",
        """UPDATE invocations SET status = 'queued', ended_at = NULL
        WHERE id = (SELECT id FROM invocations WHERE blocking = 0 LIMIT 1)""",
    )
    assert found(home) == {"invocations"}


def _reopen(connection: apsw.Connection) -> None:
    connection.execute("UPDATE requests SET status = 'running', created_at = '2026-01-01T00:00:00.000Z'")


async def test_what_is_under_way_in_a_served_home_is_no_violation(home: Home) -> None:
    of_home = Settings(database=home.engine_file)
    look = partial(check, home, of_home, patience_s=0.0)
    async with ModelServer() as server:
        server.script(Turn("Soon.", faults=[Hold(gate="answer")]))
        async with app_on(home, server) as app:
            run = await app.send("One more.")
            await asyncio.to_thread(server.wait_until, lambda: server.exchanges, 30_000)
            assert await asyncio.to_thread(look) == invariants.Verdict(violations=[], is_served=True)

            server.gate("answer").open()
            await run.result()
            await _quiet(app)
            await app.ledgers.runtime.write(_reopen)
            verdict = await asyncio.to_thread(look)
    assert {each.invariant for each in verdict.violations} == {"requests"}
