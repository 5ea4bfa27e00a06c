"""Schedules, retries, upgrades and retention, over both databases."""

# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nexus.engine import (
    Engine,
    Lane,
    Schedule,
    Schedules,
    Settings,
    WorkContext,
    forgetting,
    records,
    store,
)
from nexus.engine.errors import EngineStateError, WorkFailedError

LANES = (Lane(name="chat", limit=8, priority=0), Lane(name="background", limit=8))


class Counted:
    """A work that counts its runs by key, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.runs: list[str] = []
        self._failures = failures
        self.gate = asyncio.Event()
        self.gate.set()

    async def work(self, context: WorkContext, payload: str) -> str:
        self.runs.append(payload)
        await self.gate.wait()
        if self._failures:
            self._failures -= 1
            raise ValueError(f"{payload} did not work")
        return payload


@pytest.fixture
async def engine(database: str) -> AsyncIterator[Engine]:
    is_url = database.startswith("postgres")
    settings = Settings(database=database if is_url else Path(database), lanes=LANES, poll_ms=200)
    made = Engine(settings)
    await made.open()
    yield made
    await made.close()


async def until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    async with asyncio.timeout(timeout_s):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.02)


def idle(engine: Engine) -> Callable[[], bool]:
    """Whether nothing waits, runs, or waits for its next attempt."""
    return lambda: not records.queues(engine.database)


async def test_ended_work_is_run_again_on_request(engine: Engine) -> None:
    counted = Counted(failures=1)
    engine.register("turn", counted.work)
    handle = await engine.start("turn", "hello", key="s", lane="chat")
    with pytest.raises(WorkFailedError, match="hello did not work"):
        await handle.result()
    again = await asyncio.to_thread(records.retry, engine.database, handle.id)
    assert await engine.execution(again).result() == "hello"


async def test_work_that_waits_or_runs_cannot_be_retried(engine: Engine) -> None:
    counted = Counted()
    counted.gate.clear()
    engine.register("turn", counted.work)
    runs = await engine.start("turn", "first", key="s", lane="chat")
    await until(lambda: counted.runs == ["first"])
    waits = await engine.start("turn", "second", key="s", lane="chat")
    for handle, state in ((runs, "running"), (waits, "queued")):
        with pytest.raises(EngineStateError, match=f"is {state}; only finished"):
            await asyncio.to_thread(records.retry, engine.database, handle.id)
    counted.gate.set()
    await until(idle(engine))
    assert counted.runs == ["first", "second"]


def _moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("skip", []),
        ("once", ["2026-03-01T05:00:00.000Z"]),
        (
            "all",
            ["2026-03-01T03:00:00.000Z", "2026-03-01T04:00:00.000Z", "2026-03-01T05:00:00.000Z"],
        ),
    ],
)
async def test_missed_runs_are_treated_as_the_schedule_says(
    engine: Engine, missed: Any, expected: list[str]
) -> None:
    seen: list[str] = []

    async def work(context: WorkContext, payload: dict[str, Any]) -> None:
        seen.append(payload["scheduled_at"])

    engine.register("nightly", work)
    schedules = Schedules(engine.database, "other")
    hourly = Schedule(name="hourly", cron="0 * * * *", work="nightly", payload={}, missed=missed)
    assert engine._service is not None
    await engine._service.upkeep.stop()  # its own look at the clock would start it first
    await schedules.put(hourly, after=datetime(2026, 3, 1, 2, 30, tzinfo=UTC))
    started = await asyncio.to_thread(Schedules(engine.database, "1").start_due, _moment("2026-03-01T05:30"))
    assert started == len(expected)
    engine.announce()
    await until(lambda: seen == expected)


async def test_two_processes_start_a_due_moment_once(engine: Engine) -> None:
    schedules = Schedules(engine.database, "nobody serves this version")
    await schedules.put(Schedule(name="s", cron="0 * * * *", work="w", payload={}))
    later = _moment("2099-01-01T00:30")
    counts = await asyncio.gather(*[asyncio.to_thread(schedules.start_due, later) for _ in range(4)])
    assert sum(counts) == 1


async def test_work_of_another_version_is_taken_over_and_starts_over(engine: Engine) -> None:
    engine.register("turn", Counted().work)
    old = store.new_execution("turn", "x", key="s", lane="chat", version="old", delay_until_ms=2**52)
    step = """INSERT INTO {t}operation_outputs (workflow_uuid, function_id, function_name)
    VALUES (:id, 1, 'old')"""
    with engine.database.write() as connection:
        store.insert(engine.database, connection, [old])
        connection.execute(engine.database.sql(step), {"id": old.id})
    await engine.close()
    await engine.open()
    found = await engine.show(old.id)
    assert found.version == engine.settings.version
    assert records.steps(engine.database, old.id) == []


async def test_old_ended_work_is_forgotten_and_dead_letters_are_kept(engine: Engine) -> None:
    counted = Counted()
    engine.register("turn", counted.work)
    done, crashed = [await engine.start("turn", name, key=name, lane="chat") for name in ("done", "crashed")]
    await done.result()
    await crashed.result()
    give_up = """UPDATE {t}workflow_status SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
    WHERE workflow_uuid = :id"""
    with engine.database.write() as connection:
        connection.execute(engine.database.sql("UPDATE {t}workflow_status SET completed_at = 1"))
        connection.execute(engine.database.sql(give_up), {"id": crashed.id})
    # Unless the engine has done so already.
    await asyncio.to_thread(forgetting.forget_old, engine.database, 30)
    with engine.database.read() as connection:
        left = connection.execute(engine.database.sql("SELECT workflow_uuid FROM {t}workflow_status")).all()
    assert [row[0] for row in left] == [crashed.id]
    (letter,) = records.list_dead_letters(engine.database)
    assert (letter.execution_id, letter.work, letter.key) == (crashed.id, "turn", "crashed")
    again = await asyncio.to_thread(records.retry, engine.database, crashed.id)
    assert await engine.execution(again).result() == "crashed"
    assert records.list_dead_letters(engine.database) == []
