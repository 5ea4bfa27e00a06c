"""Messages of channels wait for whoever talks to the agent directly, and never for long."""

import asyncio

import pytest

from nexus.broker import pace
from nexus.broker.pace import Pace


async def test_a_turn_waits_for_who_goes_ahead_and_comes_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pace, "_LONGEST_S", 3_600.0)
    monkeypatch.setattr(pace, "_MOST_LATE_S", 3_600.0)
    paced = Pace()
    begun: list[int] = []

    async def begin(number: int) -> None:
        await paced.turn()
        begun.append(number)

    with paced.ahead():
        tasks = [asyncio.create_task(begin(number)) for number in range(3)]
        for _ in range(5):
            await asyncio.sleep(0.01)
        assert begun == []
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert begun == [0, 1, 2]


async def test_who_goes_ahead_for_long_holds_up_nobody() -> None:
    paced = Pace()
    with paced.ahead():
        await asyncio.wait_for(paced.turn(), 60)
