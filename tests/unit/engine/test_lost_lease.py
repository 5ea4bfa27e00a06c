"""What a process claimed before its lease was lost stays lost, though it has a new lease by then."""

# pyright: reportPrivateUsage=false

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nexus.engine import Context, Engine, Settings
from nexus.engine.claims import Claimed, Claims


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(Settings(database=tmp_path / "engine.db"))


async def _when_thawed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next claim lose its lease and get a new one before its bodies start, as after a freeze."""
    parts = engine._parts
    assert parts is not None
    original, once = parts.dbos.run, iter([parts.leases._replace])

    def run(claimed: list[str], owner: str) -> list[str]:
        next(once, lambda: None)()
        return original(claimed, owner)

    monkeypatch.setattr(parts.dbos, "run", run)


async def test_a_body_does_not_begin_under_a_lease_that_was_lost(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    async def note(context: Context, payload: Any) -> None:
        names.append(context.executor_id)

    engine.register("note", note)
    async with engine:
        await _when_thawed(engine, monkeypatch)
        handle = await engine.start("note", None, key="k", lane="chat")
        assert engine._parts is not None
        async with asyncio.timeout(30):
            await handle.result()
        assert names == [engine._parts.leases.executor_id]


async def test_nothing_is_claimed_while_the_lease_is_not_valid(tmp_path: Path) -> None:
    async def note(context: Context, payload: Any) -> str:
        return "done"

    # Renewed every two minutes: the lease is what this test makes it.
    engine = Engine(Settings(database=tmp_path / "engine.db", lease_ms=600_000, poll_ms=20))
    engine.register("note", note)
    async with engine:
        assert engine._parts is not None
        leases, sweeper = engine._parts.leases, engine._parts.sweeper
        until, leases._valid_until_s = leases._valid_until_s, 0.0
        handle = await engine.start("note", None, key="k", lane="chat")
        sweeps, look, swept = iter(range(3)), sweeper._look, asyncio.Event()
        loop = asyncio.get_running_loop()

        def counted() -> set[str]:
            if next(sweeps, None) is None:
                loop.call_soon_threadsafe(swept.set)
            return look()

        sweeper._look = counted
        await swept.wait()
        assert (await engine.show(handle.id)).state == "queued"
        leases._valid_until_s = until
        assert await handle.result() == "done"


async def test_what_was_claimed_while_the_lease_was_lost_is_not_begun(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def note(context: Context, payload: Any) -> str:
        return context.executor_id

    engine.register("note", note)
    async with engine:
        assert engine._parts is not None
        leases, dbos = engine._parts.leases, engine._parts.dbos
        take, run, lost, begun = Claims.take, dbos.run, [leases.executor_id], list[str]()

        def late(self: Claims, executor_id: str, room: int) -> Claimed:
            claimed = take(self, executor_id, room)
            if claimed.ids and leases.executor_id in lost:
                leases._replace()
            return claimed

        def begin(claimed: list[str], owner: str) -> list[str]:
            begun.append(leases.executor_id)
            return run(claimed, owner)

        monkeypatch.setattr(Claims, "take", late)
        monkeypatch.setattr(dbos, "run", begin)
        handle = await engine.start("note", None, key="k", lane="chat")
        assert await handle.result() == leases.executor_id
        assert begun == [leases.executor_id] != lost


async def test_a_step_does_not_begin_under_a_lease_that_was_lost(engine: Engine) -> None:
    ran: list[str] = []

    async def late(context: Context, payload: Any) -> None:
        async def step() -> None:
            ran.append(context.executor_id)

        if not ran and len(attempts) == 0:
            attempts.append(context.executor_id)
            assert engine._parts is not None
            # The event loop has not heard of it yet: only the names tell.
            engine._parts.leases._valid_until_s = 0.0
            await asyncio.to_thread(engine._parts.leases.acquire)
        await context.step("late", step)

    attempts: list[str] = []
    engine.register("late", late)
    async with engine:
        handle = await engine.start("late", None, key="k", lane="chat")
        async with asyncio.timeout(60):
            await handle.result()
        assert engine._parts is not None
        assert ran == [engine._parts.leases.executor_id] != attempts


async def test_a_lease_that_is_lost_while_a_record_is_looked_for_stops_the_step(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    async def work(context: Context, payload: Any) -> None:
        async def step() -> None:
            ran.append(context.executor_id)

        if not lost:
            lost.append(context.executor_id)
            leases = context.leases
            answers = iter([True])

            def held_by(executor_id: str) -> bool:
                return next(answers, False)

            monkeypatch.setattr(leases, "held_by", held_by)
            losing.append(asyncio.create_task(_lose(engine, monkeypatch)))
        await context.step("work", step)

    lost: list[str] = []
    losing: list[asyncio.Task[None]] = []
    engine.register("work", work)
    async with engine:
        handle = await engine.start("work", None, key="k", lane="chat")
        async with asyncio.timeout(60):
            await handle.result()
    assert len(ran) == 1
    assert ran != lost


async def _lose(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    await asyncio.sleep(0.5)
    monkeypatch.undo()
    assert engine._parts is not None
    await asyncio.to_thread(engine._parts.leases._replace)
