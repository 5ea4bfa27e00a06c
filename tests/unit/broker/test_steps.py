"""Recorded steps: done once, kept in the home and not in the engine, gone when the run has ended."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nexus.broker.queue import ActiveRun, SessionQueue
from nexus.engine import Engine, Settings
from nexus.engine.errors import WorkFailedError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import executions
from nexus.ledgers.runtime.executions import Step

Body = Callable[[ActiveRun], Awaitable[Any]]


class OddError(Exception):
    """An error that pickle cannot bring back: it says other words than it was made of."""

    def __init__(self, code: int, name: str) -> None:
        super().__init__(f"{name} gave {code}")


@asynccontextmanager
async def queue(
    opened: Ledgers, folder: Path, body: Body, *, serve: bool = True
) -> AsyncGenerator[SessionQueue]:
    engine = Engine(Settings(database=folder / "engine.db", stop_grace_ms=50))
    made = SessionQueue(engine, opened)
    made.register("work", body)
    await opened.runtime.write(
        lambda c: c.execute("INSERT OR IGNORE INTO requests (id, root_request_id) VALUES ('req_1', 'req_1')")
    )
    await engine.open(serve=serve)
    try:
        yield made
    finally:
        await engine.close()


async def start(made: SessionQueue) -> Any:
    return await made.start_execution(
        "work", None, session_label="s", request_id="req_1", execution_id="exe_1"
    )


async def recorded(opened: Ledgers) -> list[Step]:
    return await opened.runtime.read(executions.find_steps, execution_id="exe_1")


def bytes_of_engine(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("engine.db*"))


class Doing:
    """Steps that count how often they are done, and a gate that the run waits at after some of them."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.waits = asyncio.Event()
        self.gate = asyncio.Event()

    async def step(self, name: str) -> dict[str, str]:
        self.done.append(name)
        if name.startswith("odd"):
            raise OddError(7, name)
        return {"said": f"Quorblat {name}"}

    async def two_and_two(self, turn: ActiveRun) -> list[Any]:
        first = [await turn.steps.run("do", self.step, name) for name in ("a", "b")]
        self.waits.set()
        await self.gate.wait()
        return first + await asyncio.gather(*(turn.steps.run("do", self.step, name) for name in ("c", "d")))

    async def fails(self, turn: ActiveRun) -> None:
        try:
            await turn.steps.run("do", self.step, "odd")
        finally:
            self.waits.set()
            await self.gate.wait()


async def test_a_restarted_run_uses_what_its_steps_gave(opened: Ledgers, tmp_path: Path) -> None:
    doing = Doing()
    async with queue(opened, tmp_path, doing.two_and_two) as made:
        await start(made)
        await asyncio.wait_for(doing.waits.wait(), 20)
        assert [step.number for step in await recorded(opened)] == [0, 1]
    doing.gate.set()
    async with queue(opened, tmp_path, doing.two_and_two) as made:
        result = await made.run("exe_1").result()

    assert result == [{"said": f"Quorblat {name}"} for name in "abcd"]
    assert sorted(doing.done) == ["a", "b", "c", "d"]


async def test_the_engines_database_holds_nothing_of_what_was_said(opened: Ledgers, tmp_path: Path) -> None:
    doing = Doing()
    async with queue(opened, tmp_path, doing.two_and_two) as made:
        handle = await start(made)
        await asyncio.wait_for(doing.waits.wait(), 20)
        assert "Quorblat" in (await recorded(opened))[0].outcome
        doing.gate.set()
        await handle.result()
        assert b"exe_1" in bytes_of_engine(tmp_path)
        assert b"Quorblat" not in bytes_of_engine(tmp_path)

    assert await recorded(opened) == []


async def test_a_crash_between_the_two_records_does_not_repeat_a_step(
    opened: Ledgers, tmp_path: Path
) -> None:
    doing = Doing()
    doing.gate.set()
    async with queue(opened, tmp_path, doing.two_and_two, serve=False) as made:
        await start(made)
    step = Step(execution_id="exe_1", number=0, name="do", failed=False, outcome='"before the crash"')
    await opened.runtime.write(executions.record_step, step=step)
    async with queue(opened, tmp_path, doing.two_and_two) as made:
        result = await made.run("exe_1").result()

    assert result[0] == "before the crash"
    assert sorted(doing.done) == ["b", "c", "d"]


async def test_a_step_that_failed_fails_again_after_a_restart(opened: Ledgers, tmp_path: Path) -> None:
    doing = Doing()
    async with queue(opened, tmp_path, doing.fails) as made:
        await start(made)
        await asyncio.wait_for(doing.waits.wait(), 20)
    doing.gate.set()
    async with queue(opened, tmp_path, doing.fails) as made:
        with pytest.raises(WorkFailedError, match="OddError: odd gave 7"):
            await made.run("exe_1").result()

    assert doing.done == ["odd"]


@pytest.mark.parametrize(
    "damage",
    ["DELETE FROM steps", "UPDATE steps SET outcome = 'pickle:' WHERE number = 1"],
    ids=["deleted", "unreadable"],
)
async def test_a_run_whose_records_cannot_be_read_starts_over(
    opened: Ledgers, tmp_path: Path, damage: str
) -> None:
    doing = Doing()
    async with queue(opened, tmp_path, doing.two_and_two) as made:
        await start(made)
        await asyncio.wait_for(doing.waits.wait(), 20)
    await opened.runtime.write(lambda c: c.execute(damage))
    doing.gate.set()
    async with queue(opened, tmp_path, doing.two_and_two) as made:
        result = await made.run("exe_1").result()

    assert result == [{"said": f"Quorblat {name}"} for name in "abcd"]
    assert sorted(doing.done) == ["a", "a", "b", "b", "c", "d"]


async def test_another_version_finds_the_records_of_the_steps_that_it_shares(
    opened: Ledgers, tmp_path: Path
) -> None:
    doing = Doing()

    def body(*names: str) -> Body:
        async def work(turn: ActiveRun) -> list[Any]:
            given = [await turn.steps.run(name, doing.step, name) for name in names]
            doing.waits.set()
            await doing.gate.wait()
            return given

        return work

    async with queue(opened, tmp_path, body("before", "shared")) as made:
        await start(made)
        await asyncio.wait_for(doing.waits.wait(), 20)
    doing.gate.set()
    async with queue(opened, tmp_path, body("shared", "after")) as made:
        assert await made.run("exe_1").result() == [
            {"said": "Quorblat shared"},
            {"said": "Quorblat after"},
        ]

    assert doing.done == ["before", "shared", "after"]


async def test_the_engine_hears_where_a_run_failed_and_the_home_what_was_said(
    opened: Ledgers, tmp_path: Path
) -> None:
    async def body(turn: ActiveRun) -> None:
        raise ValueError("Quorblat is not a number")

    async with queue(opened, tmp_path, body) as made:
        with pytest.raises(WorkFailedError, match="Quorblat is not a number"):
            await (await start(made)).result()
        stored = bytes_of_engine(tmp_path)

    assert b"ValueError" in stored
    assert b"test_steps.py" in stored
    # The trace shows the line of the program that raised, and no value.
    assert b"ValueError: Quorblat" not in stored


async def test_what_keeps_its_own_record_is_marked_as_done_and_recorded_nowhere_else(
    opened: Ledgers, tmp_path: Path
) -> None:
    doing = Doing()

    async def keep(name: str) -> None:
        await doing.step(name)

    async def body(turn: ActiveRun) -> str:
        await turn.steps.run("keep", keep, "a", keeps_own_record=True)
        doing.waits.set()
        await doing.gate.wait()
        await turn.steps.run("keep", keep, "b", keeps_own_record=True)
        return "done"

    async with queue(opened, tmp_path, body) as made:
        await start(made)
        await asyncio.wait_for(doing.waits.wait(), 20)
        assert await recorded(opened) == []
    doing.gate.set()
    async with queue(opened, tmp_path, body) as made:
        assert await made.run("exe_1").result() == "done"

    assert doing.done == ["a", "b"]


async def test_a_marked_step_that_failed_fails_again_after_a_restart(opened: Ledgers, tmp_path: Path) -> None:
    doing = Doing()

    async def keep() -> None:
        await doing.step("odd")

    async def body(turn: ActiveRun) -> None:
        try:
            await turn.steps.run("keep", keep, keeps_own_record=True)
        finally:
            doing.waits.set()
            await doing.gate.wait()

    async with queue(opened, tmp_path, body) as made:
        await start(made)
        await asyncio.wait_for(doing.waits.wait(), 20)
        assert b"odd gave" not in bytes_of_engine(tmp_path)
    doing.gate.set()
    async with queue(opened, tmp_path, body) as made:
        with pytest.raises(WorkFailedError, match="OddError: odd gave 7"):
            await made.run("exe_1").result()

    assert doing.done == ["odd"]
