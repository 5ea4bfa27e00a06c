"""`nexus engine` shows and steers work."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nexus import config
from nexus.cli import program
from nexus.engine import Engine, Schedule, Schedules, Settings, WorkContext
from nexus.engine.errors import WorkFailedError
from nexus.errors import NexusError
from nexus.home import Home


def run(home: Home, *arguments: str) -> Result:
    return CliRunner().invoke(program, ["--home", str(home.root), "engine", *arguments])


def answer(home: Home, *arguments: str) -> Any:
    result = run(home, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def _fails(context: WorkContext, payload: Any) -> None:
    raise ValueError(f"cannot do {payload}")


async def _step(payload: str) -> str:
    return payload.upper()


async def _turn(context: WorkContext, payload: str) -> str:
    return await context.step("answer", _step, payload)


async def _some_work(home: Home) -> dict[str, str]:
    """A turn that is done, one that failed, one that was given up, and one more that waits."""
    engine = Engine(Settings.of_home(home, config.EngineConfig()))
    engine.register("turn", _turn)
    engine.register("fails", _fails)
    async with engine:
        done = await engine.start("turn", "hello", key="session-1", lane="chat")
        await done.result()
        failed, crashed = [
            await engine.start("fails", "x", key=key, lane="background") for key in ("fact-1", "fact-2")
        ]
        for execution in (failed, crashed):
            with pytest.raises(WorkFailedError):
                await execution.result()
        give_up = """UPDATE {t}workflow_status SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
        WHERE workflow_uuid = :id"""
        engine.database.change(engine.database.sql(give_up), {"id": crashed.id})
        await Schedules(engine.database, "1").put(
            Schedule(name="nightly", cron="0 3 * * *", work="w", payload={})
        )
    await engine.open(serve=False)
    waiting = await engine.start("turn", "later", key="session-1", lane="chat")
    await engine.close()
    return {"done": done.id, "failed": failed.id, "crashed": crashed.id, "waiting": waiting.id}


@pytest.fixture
def work(home: Home) -> dict[str, str]:
    return asyncio.run(_some_work(home))


def test_a_home_without_work_says_so(home: Home) -> None:
    result = run(home, "status")
    assert isinstance(result.exception, NexusError)
    assert "No work has run" in result.exception.message


def test_status_shows_lanes_schedules_and_dead_letters(home: Home, work: dict[str, str]) -> None:
    picture = answer(home, "status")
    assert picture["executors"] == []
    assert picture["dead_letters"] == 1
    assert picture["schedules"][0]["name"] == "nightly"
    (lane,) = picture["queues"]
    assert (lane["lane"], lane["queued"], lane["waiting_keys"]) == ("chat", 1, 1)
    assert "not served" in run(home, "status").output


def test_executions_are_listed_and_filtered(home: Home, work: dict[str, str]) -> None:
    assert {one["id"] for one in answer(home, "executions")} == set(work.values())
    assert [one["id"] for one in answer(home, "executions", "--state", "failed")] == [work["failed"]]
    assert [one["id"] for one in answer(home, "executions", "--state", "queued")] == [work["waiting"]]
    assert "cannot do x" in run(home, "executions", "--lane", "background").output


def test_show_tells_steps_result_and_error(home: Home, work: dict[str, str]) -> None:
    shown = answer(home, "show", work["done"])
    assert (shown["state"], shown["result"]) == ("done", "HELLO")
    assert [step["name"] for step in shown["steps"]] == ["answer"]
    assert "Traceback" in run(home, "show", work["failed"]).output


def test_a_waiting_execution_is_cancelled(home: Home, work: dict[str, str]) -> None:
    assert "while it waited" in answer(home, "cancel", work["waiting"])["outcome"]
    assert answer(home, "show", work["waiting"])["state"] == "cancelled"
    assert answer(home, "queues") == []
    assert "already finished" in answer(home, "cancel", work["done"])["outcome"]


def test_a_dead_letter_is_retried(home: Home, work: dict[str, str]) -> None:
    (letter,) = answer(home, "dead-letters")
    assert letter["execution_id"] == work["crashed"]
    new = answer(home, "retry", work["crashed"])["execution"]
    assert answer(home, "dead-letters") == []
    assert answer(home, "show", new)["state"] == "queued"


def test_an_unknown_execution_is_answered_plainly(home: Home, work: dict[str, str]) -> None:
    result = run(home, "show", "exe_nothing")
    assert isinstance(result.exception, NexusError)
    assert "nexus engine executions" in result.exception.hint


def test_the_database_is_readable_by_its_owner_alone(home: Home, work: dict[str, str]) -> None:
    assert (home.data / "engine.db").stat().st_mode & 0o777 == 0o600
    assert Path(home.data, "engine.db.lock").stat().st_mode & 0o777 == 0o600
