import asyncio

import pytest

from nexus.broker.agent.slots import Slots


async def _asks(slots: Slots, name: str, priority: int, log: list[str], let_go: asyncio.Event) -> None:
    async with slots.taken("local", 1, priority):
        log.append(name)
        await let_go.wait()


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_person_is_next_whoever_waits_already() -> None:
    slots, log, let_go = Slots(), list[str](), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for name, priority in (("running", 2), ("writer", 2), ("worker", 1), ("person", 0)):
            group.create_task(_asks(slots, name, priority, log, let_go))
            await _settle()
        assert log == ["running"], "one at a time"
        let_go.set()
    assert log == ["running", "person", "worker", "writer"]


async def test_who_stops_waiting_keeps_nobody_from_a_place() -> None:
    slots, log, let_go = Slots(), list[str](), asyncio.Event()
    running = asyncio.create_task(_asks(slots, "running", 0, log, let_go))
    await _settle()
    waiting = asyncio.create_task(_asks(slots, "waiting", 0, log, let_go))
    last = asyncio.create_task(_asks(slots, "last", 1, log, let_go))
    await _settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    let_go.set()
    await asyncio.gather(running, last)
    assert log == ["running", "last"]


async def test_who_is_stopped_in_the_moment_of_its_turn_hands_it_on() -> None:
    slots, log, let_go = Slots(), list[str](), asyncio.Event()
    running = asyncio.create_task(_asks(slots, "running", 0, log, let_go))
    await _settle()
    waiting = asyncio.create_task(_asks(slots, "waiting", 0, log, asyncio.Event()))
    last = asyncio.create_task(_asks(slots, "last", 1, log, let_go))
    await _settle()
    let_go.set()
    await running
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(10):
        await last


async def test_providers_without_a_limit_do_not_wait() -> None:
    slots, log, let_go = Slots(), list[str](), asyncio.Event()

    async def ask() -> None:
        async with slots.taken("cloud", None, 0):
            log.append("in")
            await let_go.wait()

    tasks = [asyncio.create_task(ask()) for _ in range(3)]
    await _settle()
    assert len(log) == 3
    let_go.set()
    await asyncio.gather(*tasks)
