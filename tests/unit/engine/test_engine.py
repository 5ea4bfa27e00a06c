"""What the engine refuses before anything is recorded, and what it records once."""

from pathlib import Path

import pytest

from nexus.engine import Context, Engine, Settings
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

    async def work(context: Context, payload: int) -> int:
        runs.append(payload)
        return payload

    engine.register("work", work)
    async with engine:
        results = [
            await (await engine.start("work", number, key="k", lane="chat", execution_id="exe_1")).result()
            for number in (1, 2)
        ]
    assert (results, runs) == ([1, 1], [1])
