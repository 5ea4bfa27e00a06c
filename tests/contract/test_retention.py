"""What the engine keeps of work that has ended, over both databases."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nexus.engine import Engine, Settings, WorkContext, forgetting, records
from nexus.engine.errors import UnknownExecutionError, WorkCancelledError
from nexus.engine.forgetting import Forgetting
from nexus.errors import CareError

SECRET = "zebrafinch"


class Work:
    """Two steps, of which one fails, and then a wait for a gate."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.stepped = asyncio.Event()
        self.stubborn = False

    async def __call__(self, context: WorkContext, payload: str) -> None:
        await context.step("recall", self._recall)
        try:
            await context.step("tool", self._fail)
        except ValueError:
            self.stepped.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            if self.stubborn:
                await self.gate.wait()
            raise

    async def _recall(self) -> str:
        return SECRET

    async def _fail(self) -> None:
        raise ValueError(SECRET)


@pytest.fixture
def settings(database: str) -> Settings:
    is_url = database.startswith("postgres")
    return Settings(database=database if is_url else Path(database), poll_ms=200, stop_grace_ms=200)


@pytest.fixture
async def engine(settings: Settings) -> AsyncIterator[Engine]:
    made = Engine(settings)
    await made.open()
    yield made
    await made.close()


def _stored(engine: Engine) -> str:
    """Everything that the tables of executions and steps hold, as text."""
    found: list[Any] = []
    with engine.database.read() as connection:
        for table in ("workflow_input", "workflow_output", "operation_outputs"):
            found += connection.execute(engine.database.sql(f"SELECT * FROM {{t}}{table}")).fetchall()
    return repr([tuple(row) for row in found])


async def _at_the_gate(engine: Engine, work: Work) -> str:
    engine.register("work", work)
    handle = await engine.start("work", "x", key="k", lane="chat")
    await asyncio.wait_for(work.stepped.wait(), 20)
    return handle.id


async def test_results_of_steps_stay_until_the_end_and_then_go(engine: Engine) -> None:
    work = Work()
    id_ = await _at_the_gate(engine, work)
    assert forgetting.drop_step_results(engine.database) == 0
    assert SECRET in _stored(engine)

    work.gate.set()
    await engine.wait_for_end(id_)
    forgetting.drop_step_results(engine.database)  # unless the engine has done so already
    assert SECRET not in _stored(engine)
    steps = records.steps(engine.database, id_)
    assert [(step["name"], step["failed"]) for step in steps] == [("recall", False), ("tool", True)]


async def test_what_runs_is_stopped_before_it_is_forgotten(engine: Engine, settings: Settings) -> None:
    id_ = await _at_the_gate(engine, Work())
    waiting = await engine.start("work", "y", key="k", lane="chat")
    result = asyncio.ensure_future(engine.execution(id_).result())

    await Forgetting(settings).remove([id_, waiting.id])

    # Whoever waits for it hears that it was cancelled, or that it is no more.
    with pytest.raises((WorkCancelledError, UnknownExecutionError)):
        await asyncio.wait_for(result, 20)
    assert records.recent(engine.database) == []
    assert SECRET not in _stored(engine)


async def test_forgetting_refuses_while_code_does_not_stop(engine: Engine, settings: Settings) -> None:
    work = Work()
    work.stubborn = True
    id_ = await _at_the_gate(engine, work)

    with pytest.raises(CareError, match=id_):
        await Forgetting(settings, stop_within_s=1).remove([id_])

    work.gate.set()
    await engine.wait_for_end(id_)
    await Forgetting(settings).remove([id_])
    assert SECRET not in _stored(engine)
