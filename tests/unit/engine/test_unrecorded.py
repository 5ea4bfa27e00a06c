"""What the engine's database does not take, or takes without telling, neither fails work nor holds it up."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from nexus.engine import Engine, Settings, StartedExecution, WorkContext
from nexus.engine.claims import Claimed, Claims
from nexus.engine.errors import FINAL

_STEPS = "BEFORE INSERT ON operation_outputs"
_OUTCOMES = "BEFORE UPDATE ON workflow_status WHEN NEW.status IN ('SUCCESS', 'ERROR')"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(Settings(database=tmp_path / "engine.db", poll_ms=50, stop_grace_ms=50))


@contextmanager
def full(engine: Engine, where: str) -> Generator[None]:
    """Let the disk have no room for one kind of write."""
    with engine.database.write() as connection:
        connection.exec_driver_sql(
            f"CREATE TRIGGER full {where} BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    yield
    with engine.database.write() as connection:
        connection.exec_driver_sql("DROP TRIGGER full")


async def waits(handle: StartedExecution, caplog: pytest.LogCaptureFixture) -> None:
    while "waits for room on its disk" not in caplog.text:
        assert (await handle.state()).state not in FINAL
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("where", [_STEPS, _OUTCOMES])
async def test_work_goes_on_when_the_full_disk_has_room_again(
    engine: Engine, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[str] = []

    async def part() -> str:
        runs.append("part")
        return "made"

    async def work(context: WorkContext, payload: Any) -> str:
        return await context.step("part", part)

    engine.register("work", work)
    async with engine:
        with full(engine, where):
            handle = await engine.start("work", None, key="k", lane="chat")
            await waits(handle, caplog)
        assert await handle.result() == "made"
    assert runs == ["part"]


async def test_an_engine_stops_while_its_disk_is_full(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(context: WorkContext, payload: Any) -> str:
        return "made"

    engine.register("work", work)
    async with engine:
        with full(engine, _OUTCOMES):
            handle = await engine.start("work", None, key="k", lane="chat")
            await waits(handle, caplog)
            await engine.close()
            await engine.open(serve=False)
        assert (await handle.state()).state == "queued"


async def test_work_runs_though_the_answer_to_its_claim_was_lost(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that breaks while a claim is committed leaves open whether it was."""
    take = Claims.take
    lost: list[str] = []

    def broken(claims: Claims, executor_id: str, room: int) -> Claimed:
        claimed = take(claims, executor_id, room)
        if claimed.ids and not lost:
            lost.extend(claimed.ids)
            raise OperationalError("COMMIT", {}, Exception("the connection is closed"))
        return claimed

    monkeypatch.setattr(Claims, "take", broken)

    async def work(context: WorkContext, payload: Any) -> str:
        return "made"

    engine.register("work", work)
    async with engine:
        handle = await engine.start("work", None, key="k", lane="chat")
        assert await handle.result() == "made"
    assert lost == [handle.id]
