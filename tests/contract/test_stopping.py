"""Cancel and timeout: the code of an execution has stopped before the next of its session starts."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from contract import promises
from contract.harness import Harness, Harnesses
from contract.workload import Evidence, engine
from nexus.engine import Engine, running
from nexus.engine.errors import WorkCancelledError, WorkTimeoutError
from nexus.engine.serializer import End, Ended


@pytest.fixture
def harness(harnesses: Harnesses) -> Harness:
    return harnesses()


@pytest.fixture
async def opened(harness: Harness) -> AsyncIterator[Engine]:
    made = engine({"database": harness.database, "lease_ms": 20_000}, Evidence(str(harness.evidence)))
    await made.open()
    yield made
    await made.close()


async def stop_one_and_run_the_next(opened: Engine, key: str, *, by: str) -> None:
    """A body that takes its time to stop, and one behind it in the same session."""
    limit_ms = 40 if by == "timeout" else None
    slow = {"producer": 0, "seq": 0, "ms": 60_000, "cleanup_ms": 30}
    first = await opened.start("stubborn", slow, key=key, lane="chat", timeout_ms=limit_ms)
    second = await opened.start("plain", {"producer": 0, "seq": 1}, key=key, lane="chat")
    if by == "cancel":
        while (await first.state()).state != "running":
            await asyncio.sleep(0.01)
        await first.cancel()
    with pytest.raises(WorkTimeoutError if by == "timeout" else WorkCancelledError):
        await first.result()
    await second.result()


async def noted(harness: Harness, what: str, times: int) -> None:
    """Wait until the bodies have noted something so often."""
    async with asyncio.timeout(60):
        while sum(line["what"] == what for line in harness.lines()) < times:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("by", ["cancel", "timeout"])
async def test_the_code_has_stopped_before_the_next_starts(harness: Harness, opened: Engine, by: str) -> None:
    await asyncio.gather(*[stop_one_and_run_the_next(opened, f"{by}-{n}", by=by) for n in range(12)])
    assert promises.overlaps(harness) == []


async def test_not_waiting_for_the_code_is_seen(
    harness: Harness, opened: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(task: "asyncio.Task[object]") -> None:
        task.cancel()

    def outcome(entry: running.Entry) -> dict[str, object]:
        raise Ended(End(kind="timeout"))

    monkeypatch.setattr(running, "_wait_until_stopped", at_once)
    monkeypatch.setattr(running, "_outcome", outcome)
    first = await opened.start(
        "stubborn",
        {"producer": 0, "seq": 0, "ms": 60_000, "cleanup_ms": 5_000},
        key="k",
        lane="chat",
        timeout_ms=40,
    )
    second = await opened.start("stubborn", {"producer": 0, "seq": 1, "ms": 500}, key="k", lane="chat")
    with pytest.raises(WorkTimeoutError):
        await first.result()
    await noted(harness, "stopped", 2)
    with pytest.raises(WorkTimeoutError):
        await second.result()
    assert promises.overlaps(harness) != []


async def test_a_cancelled_execution_that_waits_never_begins(harness: Harness, opened: Engine) -> None:
    first = await opened.start("plain", {"producer": 0, "seq": 0, "ms": 60_000}, key="k", lane="chat")
    second = await opened.start("plain", {"producer": 0, "seq": 1}, key="k", lane="chat")
    third = await opened.start("plain", {"producer": 0, "seq": 2}, key="k", lane="chat")
    await second.cancel()
    with pytest.raises(WorkCancelledError):
        await second.result()
    await noted(harness, "begin", 1)
    await first.cancel()
    with pytest.raises(WorkCancelledError):
        await first.result()
    await third.result()
    begun = [line["seq"] for line in harness.lines() if line["what"] == "begin"]
    assert begun == [0, 2]


async def test_an_execution_is_cancelled_from_another_process(harness: Harness) -> None:
    (worker,) = await asyncio.to_thread(harness.workers, 1)
    made = engine({"database": harness.database}, Evidence(str(harness.evidence)))
    await made.open(serve=False)
    handle = await made.start("stubborn", {"producer": 0, "seq": 0, "ms": 60_000}, key="k", lane="chat")
    await asyncio.to_thread(harness.await_line, worker, "begin")
    await handle.cancel()
    with pytest.raises(WorkCancelledError):
        await asyncio.wait_for(handle.result(), 20)
    await made.close()
