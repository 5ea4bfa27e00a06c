"""Waiting for an execution: each waiter has its own turn, and a run put back wakes nobody for ever."""

# pyright: reportPrivateUsage=false

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from nexus.engine import Engine, Settings, WorkContext

_WATCHED_S = 1.0
_MOST_LOOKS = _WATCHED_S / 0.02
"""A waiter sleeps at least 20 ms between two looks, on any machine."""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(Settings(database=tmp_path / "engine.db"))


def count_looks(engine: Engine) -> list[str]:
    looks: list[str] = []

    def note(_c: Any, _k: Any, statement: str, *_: Any) -> None:
        if "CASE status" in statement and "workflow_uuid IN" in statement:
            looks.append(statement)

    event.listen(engine.database.engine, "before_cursor_execute", note)
    return looks


async def test_a_waiter_does_not_spin_while_a_run_that_was_put_back_is_repeated(engine: Engine) -> None:
    begun, is_back, go_on = asyncio.Queue[str](), asyncio.Event(), asyncio.Event()

    async def work(context: WorkContext, payload: Any) -> str:
        await begun.put(context.id)
        if not is_back.is_set():
            is_back.set()
            raise context.put_back()
        await go_on.wait()
        return "done"

    engine.register("work", work)
    async with engine, asyncio.timeout(60):
        handle = await engine.start("work", None, key="k", lane="chat")
        waiter = asyncio.create_task(handle.result())
        await begun.get()
        await begun.get()
        looks = count_looks(engine)
        await asyncio.sleep(_WATCHED_S)
        assert len(looks) <= _MOST_LOOKS
        go_on.set()
        assert await waiter == "done"


async def test_a_waiter_that_leaves_does_not_take_the_others_along(engine: Engine) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work(context: WorkContext, payload: Any) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    engine.register("work", work)
    async with engine, asyncio.timeout(60):
        handle = await engine.start("work", None, key="k", lane="chat")
        staying, leaving = (asyncio.create_task(handle.result()) for _ in range(2))
        await begun.wait()
        await asyncio.sleep(0.1)
        assert len(engine._waiters[handle.id]) == 2
        leaving.cancel()
        await asyncio.wait({leaving})
        assert len(engine._waiters[handle.id]) == 1
        go_on.set()
        assert await staying == "done"
        assert not engine._waiters
