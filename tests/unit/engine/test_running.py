"""Bodies are stopped, and are waited for."""

import asyncio
from typing import Any

import pytest

from nexus.engine import running as module
from nexus.engine.running import Entry, Running
from nexus.engine.serializer import Ended


def _entry(execution_id: str = "e", key: str = "k") -> Entry:
    return Entry(id=execution_id, lane="chat", key=key)


async def test_a_result_comes_with_its_times() -> None:
    async def body() -> int:
        return 7

    outcome = await Running().run(_entry(), body, None)
    assert outcome["value"] == 7
    assert outcome["started_ms"] <= outcome["ended_ms"]


async def test_an_error_ends_as_failed_with_its_trace() -> None:
    async def body() -> None:
        raise LookupError("not there")

    with pytest.raises(Ended) as caught:
        await Running().run(_entry(), body, None)
    assert caught.value.end.kind == "failed"
    assert caught.value.end.type == "builtins.LookupError"
    assert "not there" in caught.value.end.trace


async def test_a_body_that_swallows_the_first_cancellation_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_ASK_AGAIN_S", 0.05)
    asked = 0

    async def body() -> None:
        nonlocal asked
        while asked < 2:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                asked += 1
        raise asyncio.CancelledError

    with pytest.raises(Ended) as caught:
        await Running().run(_entry(), body, 10)
    assert caught.value.end.kind == "timeout"
    assert asked == 2


async def test_a_body_that_finishes_while_being_cancelled_keeps_its_result() -> None:
    running, entry = Running(), _entry()

    async def body() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "just made it"
        return "slept"

    task = asyncio.create_task(running.run(entry, body, None))
    await asyncio.sleep(0.01)
    entry.stop("cancelled")
    assert (await task)["value"] == "just made it"


async def test_a_fenced_body_ends_without_an_outcome() -> None:
    running, entry = Running(), _entry()
    task: asyncio.Task[Any] = asyncio.create_task(running.run(entry, lambda: asyncio.sleep(60), None))
    await asyncio.sleep(0.01)
    running.stop_all("fenced")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(running) == 0


async def test_a_key_waits_for_the_code_that_still_stops() -> None:
    running = Running()
    order: list[str] = []

    async def slow_to_stop() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            order.append("stopped")

    async def following() -> None:
        order.append("following")

    first, second = _entry("a"), _entry("b")
    one = asyncio.create_task(running.run(first, slow_to_stop, None))
    await asyncio.sleep(0.01)
    first.stop("fenced")
    await running.run(second, following, None)
    assert order == ["stopped", "following"]
    with pytest.raises(asyncio.CancelledError):
        await one
