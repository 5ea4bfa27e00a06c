"""Messages of channels wait for whoever talks to the agent directly, and never for long."""

import asyncio

import pytest

from nexus.broker import pace
from nexus.broker.pace import Pace, let_pass, waiting
from nexus.ledgers.database import without_yielding


async def test_answers_wait_for_who_goes_ahead_and_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_PASSING_S", 3_600.0)
    paced = Pace()
    begun: list[int] = []

    async def answer(number: int) -> None:
        async with paced.answer():
            begun.append(number)

    with paced.ahead():
        tasks = [asyncio.create_task(answer(number)) for number in range(10)]
        for _ in range(5):
            await asyncio.sleep(0.01)
        assert begun == []
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert begun == list(range(10))


async def test_who_goes_ahead_for_long_holds_up_nobody() -> None:
    paced = Pace()
    with paced.ahead():
        async with asyncio.timeout(60), paced.answer():
            pass


async def test_few_messages_are_taken_in_side_by_side_and_in_order() -> None:
    paced = Pace()
    begun: list[int] = []
    inside = most = 0

    async def take_in(number: int) -> None:
        nonlocal inside, most
        async with paced.reception(is_direct=True):
            begun.append(number)
            inside += 1
            most = max(most, inside)
            for _ in range(3):
                await asyncio.sleep(0)
            inside -= 1

    await asyncio.wait_for(asyncio.gather(*(take_in(number) for number in range(20))), 60)
    assert begun == list(range(20))
    assert most == 2


async def test_messages_of_channels_let_direct_ones_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_PASSING_S", 3_600.0)
    paced = Pace()
    begun: list[str] = []

    async def take_in(name: str, *, is_direct: bool) -> None:
        async with paced.reception(is_direct=is_direct):
            begun.append(name)

    with paced.ahead():
        flood = [asyncio.create_task(take_in("channel", is_direct=False)) for _ in range(10)]
        for _ in range(5):
            await asyncio.sleep(0.01)
        await asyncio.wait_for(take_in("direct", is_direct=True), 60)
        assert begun == ["direct"]
    await asyncio.wait_for(asyncio.gather(*flood), 60)
    assert begun == ["direct", *["channel"] * 10]


async def test_who_waits_for_a_model_keeps_no_place() -> None:
    paced, answered = Pace(), asyncio.Event()

    async def answer(number: int) -> None:
        async with paced.answer():
            with waiting():
                if number == 9:
                    answered.set()
                await answered.wait()

    await asyncio.wait_for(asyncio.gather(*(answer(number) for number in range(10))), 60)


async def test_whoever_waits_gives_up_every_place_that_it_holds() -> None:
    paced = Pace()
    async with paced.reception(is_direct=True):
        with paced.ahead():
            assert paced._direct._value == 1  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
            with waiting():
                assert paced._direct._value == 2  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


async def test_a_message_that_waits_for_something_gives_up_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_HELD_S", 0.001)
    paced, answered = Pace(), asyncio.Event()

    async def take_in(number: int) -> None:
        async with paced.reception(is_direct=True):
            if number == 9:
                answered.set()
            await answered.wait()

    await asyncio.wait_for(asyncio.gather(*(take_in(number) for number in range(10))), 60)
    # Every place is free again, and none is there twice.
    assert paced._direct._value == 2  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


async def test_work_of_channels_stops_for_direct_messages_between_its_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pace, "_PASSING_S", 3_600.0)
    paced, begun, direct = Pace(), asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def answer() -> None:
        async with paced.answer():
            begun.set()
            await direct.wait()
            await let_pass()
            done.append("channel")

    task = asyncio.create_task(answer())
    await begun.wait()
    with paced.ahead():
        direct.set()
        await let_pass()  # who is ahead waits for nobody
        for _ in range(5):
            await asyncio.sleep(0.01)
        done.append("direct")
    await asyncio.wait_for(task, 60)
    assert done == ["direct", "channel"]


async def test_a_message_of_a_channel_makes_way_for_a_limited_time_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pace, "_PASSING_S", 0.01)
    paced = Pace()
    with paced.ahead():
        async with asyncio.timeout(60), paced.answer():
            monkeypatch.setattr(pace, "_PASSING_S", 3_600.0)
            for _ in range(1_000):
                await let_pass()


async def test_who_waits_for_a_model_is_not_ahead() -> None:
    paced = Pace()
    with paced.ahead():
        with waiting(), waiting():
            assert not paced.is_clear, "the answer may come at once"
            async with asyncio.timeout(60):
                await paced.let_pass(60)
            assert paced.is_clear
        assert not paced.is_clear
    assert paced.is_clear
    with waiting():
        assert paced.is_clear


async def test_nobody_is_ahead_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_AHEAD_S", 0.001)
    paced = Pace()
    with paced.ahead():
        async with asyncio.timeout(60):
            while not paced.is_clear:
                await asyncio.sleep(0.001)


async def test_work_with_a_time_limit_lets_nobody_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_PASSING_S", 3_600.0)
    paced = Pace()
    async with paced.answer():
        with paced.ahead(), without_yielding():
            await asyncio.wait_for(let_pass(), 60)


async def test_a_direct_message_stays_ahead_until_its_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    paced = Pace()
    async with paced.reception(is_direct=True):
        paced.expect("exe_1")
    assert not paced.is_clear
    with paced.ahead("exe_1"):
        assert not paced.is_clear
    assert paced.is_clear
    async with paced.reception(is_direct=False):
        paced.expect("exe_2")
    assert paced.is_clear


async def test_a_run_that_does_not_begin_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_EXPECTED_S", 0.001)
    paced = Pace()
    async with paced.reception(is_direct=True):
        paced.expect("exe_1")
    async with asyncio.timeout(60):
        while not paced.is_clear:
            await asyncio.sleep(0.001)
