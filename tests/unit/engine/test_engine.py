"""What the engine refuses before anything is recorded, and what it records once."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from nexus.engine import Engine, Settings, WorkContext
from nexus.engine.errors import EngineError


async def test_work_without_a_key_is_refused_because_it_would_never_run(tmp_path: Path) -> None:
    database = tmp_path / "engine.db"
    engine = Engine(Settings(database=database))
    with pytest.raises(EngineError, match="without a key") as caught:
        await engine.start("greet", {}, key="", lane="chat")
    assert "key of its own" in caught.value.hint
    assert not database.exists()


async def test_an_execution_that_is_started_again_under_its_id_runs_once(tmp_path: Path) -> None:
    engine = Engine(Settings(database=tmp_path / "engine.db", poll_ms=50))
    runs: list[int] = []

    async def work(context: WorkContext, payload: int) -> int:
        runs.append(payload)
        return payload

    engine.register("work", work)
    async with engine:
        results = [
            await (await engine.start("work", number, key="k", lane="chat", execution_id="exe_1")).result()
            for number in (1, 2)
        ]
    assert (results, runs) == ([1, 1], [1])


async def test_no_thread_of_dbos_polls_the_database(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    async with Engine(Settings(database=tmp_path / "engine.db")):
        polls = {"queue_thread", "queue-worker", "timeout", "scheduler", "notif"}

        def polling() -> list[str]:
            names = [each.name for each in threading.enumerate() if each not in before]
            return [name for name in names if any(part in name for part in polls)]

        async with asyncio.timeout(30):
            while polling():
                await asyncio.sleep(0.05)
        assert any("dbos" in each.name for each in threading.enumerate())


async def test_delayed_work_begins_when_its_time_has_come(tmp_path: Path) -> None:
    """Not at the next poll, which is far away here."""

    async def note(context: WorkContext, payload: Any) -> float:
        return time.time()

    engine = Engine(Settings(database=tmp_path / "engine.db", poll_ms=3_600_000))
    engine.register("note", note)
    async with engine:
        due_ms = time.time_ns() // 1_000_000 + 400
        handle = await engine.start("note", None, key="k", lane="chat", delay_until_ms=due_ms)
        async with asyncio.timeout(60):
            assert await handle.result() >= due_ms / 1000
