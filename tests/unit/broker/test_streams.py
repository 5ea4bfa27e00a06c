"""Answers while they are written: what subscribers see, here and in another process."""

import asyncio
import os
import resource
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nexus import clock
from nexus.broker import streams as streams_module
from nexus.broker.streams import Streams
from nexus.runs import Delta

ID = "exe_1"
ANSWER = [Delta(kind="begin"), Delta(kind="text", text="Hello."), Delta(kind="done")]


@pytest.fixture
def streams(tmp_path: Path) -> Streams:
    return Streams(tmp_path / "run")


async def _collected(deltas: AsyncIterator[Delta]) -> list[Delta]:
    async with asyncio.timeout(60):
        return [delta async for delta in deltas]


async def test_progress_is_described_by_what_came_last(streams: Streams) -> None:
    assert streams.describe_progress(ID) == ""
    began = clock.timestamp(clock.now() - timedelta(seconds=12.5))
    with streams.open(ID) as stream:
        stream.publish(Delta(kind="status", doing="waiting for the model (memory writer)", at=began))
    assert streams.describe_progress(ID) == "waiting for the model (memory writer, 12 s)"
    with streams.open(ID) as stream:
        stream.publish(Delta(kind="tool_call", tool="bash", text="{}"))
    assert streams.describe_progress(ID) == "using bash"
    with streams.open(ID) as stream:
        stream.publish(Delta(kind="text", text="Once"))
    assert streams.describe_progress(ID) == "writing"


async def test_a_subscriber_sees_every_delta_until_the_end(streams: Streams) -> None:
    seen = asyncio.ensure_future(_collected(streams.subscribe(ID)))
    await asyncio.sleep(0.05)
    stream = streams.open(ID)
    for delta in ANSWER:
        stream.publish(delta)
        await asyncio.sleep(0.05)
    streams.finish(ID, stream)
    assert await seen == [*ANSWER, Delta(kind="end")]


async def test_a_run_goes_on_though_nobody_can_watch_it(tmp_path: Path) -> None:
    (tmp_path / "streams").write_text("no folder")
    streams = Streams(tmp_path)
    stream = streams.open(ID)
    stream.publish(Delta(kind="begin"))
    stream.publish(Delta(kind="text", text="Once"))
    assert stream.partial == "Once"
    streams.finish(ID, stream)


async def test_a_late_subscriber_sees_everything_from_the_start(streams: Streams) -> None:
    stream = streams.open(ID)
    for delta in ANSWER:
        stream.publish(delta)
    streams.finish(ID, stream)
    assert await _collected(streams.subscribe(ID)) == [*ANSWER, Delta(kind="end")]


async def test_pieces_that_come_together_are_written_together(streams: Streams) -> None:
    stream = streams.open(ID)
    for letter in "abc":
        stream.publish(Delta(kind="text", text=letter))
    stream.publish(Delta(kind="thinking", text="x"))
    stream.publish(Delta(kind="text", text="d"))
    streams.finish(ID, stream)
    texts = [(delta.kind, delta.text) for delta in await _collected(streams.subscribe(ID))]
    assert texts == [("text", "abc"), ("thinking", "x"), ("text", "d"), ("end", "")]


async def test_a_piece_is_shown_though_no_other_follows(streams: Streams) -> None:
    with streams.open(ID) as stream:
        stream.publish(Delta(kind="text", text="a"))
        async with asyncio.timeout(30):
            deltas = streams.subscribe(ID)
            assert await anext(deltas) == Delta(kind="text", text="a")


async def test_an_answer_that_a_process_left_open_is_begun_again_as_a_restart(streams: Streams) -> None:
    with streams.open(ID) as first:
        for delta in [*ANSWER, Delta(kind="begin"), Delta(kind="text", text="Half an ans")]:
            first.publish(delta)
    with streams.open(ID) as second:
        assert second.answers == 1
        second.publish(Delta(kind="begin"))
        second.publish(Delta(kind="done"))
        assert second.answers == 2
        streams.finish(ID, second)
    kinds = [delta.kind for delta in await _collected(streams.subscribe(ID))]
    assert kinds == ["begin", "text", "done", "begin", "text", "restart", "done", "end"]


async def test_a_subscriber_of_a_run_whose_file_is_gone_stops_when_the_run_has_ended(
    streams: Streams,
) -> None:
    async def ended() -> bool:
        return True

    assert await _collected(streams.subscribe(ID, ended)) == []


async def test_another_process_sees_it_while_it_is_written(streams: Streams, tmp_path: Path) -> None:
    program = f"""
        import asyncio, pathlib
        from nexus.broker.streams import Streams

        async def main():
            async for delta in Streams(pathlib.Path({str(tmp_path / "run")!r})).subscribe({ID!r}):
                print(delta.kind, delta.text, flush=True)

        asyncio.run(main())
    """
    reader = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    stream = streams.open(ID)
    stream.publish(Delta(kind="text", text="first"))
    await asyncio.sleep(0.1)
    assert await asyncio.to_thread(reader.stdout.readline) == "text first\n"
    stream.publish(Delta(kind="text", text="second"))
    streams.finish(ID, stream)
    said, _ = await asyncio.to_thread(reader.communicate, timeout=60)
    assert said == "text second\nend \n"


async def test_files_are_private_and_go_when_their_run_has_ended(streams: Streams, tmp_path: Path) -> None:
    ended = streams.open("exe_ended")
    streams.finish("exe_ended", ended)
    with streams.open("exe_open") as under_way:
        under_way.publish(Delta(kind="begin"))
    folder = tmp_path / "run" / "streams"
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    Streams(tmp_path / "run").sweep()
    assert [file.name for file in folder.iterdir()] == ["exe_open.jsonl"]


async def test_a_file_that_nobody_wrote_to_for_days_is_removed(streams: Streams, tmp_path: Path) -> None:
    with streams.open(ID) as stream:
        stream.publish(Delta(kind="begin"))
    file = tmp_path / "run" / "streams" / f"{ID}.jsonl"
    os.utime(file, (0, time.time() - 3 * 86_400))
    streams.sweep()
    assert not file.exists()


async def test_a_run_goes_on_though_its_stream_cannot_be_written(streams: Streams) -> None:
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    with streams.open(ID) as stream:
        stream.publish(Delta(kind="begin"))
        await asyncio.sleep(0.05)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, most[1]))
        try:
            stream.publish(Delta(kind="done"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, most)


async def test_with_many_answers_at_once_each_is_delivered_in_larger_pieces(streams: Streams) -> None:
    alone_s = streams.gather_s()
    many = [streams.open(f"exe_{number}") for number in range(200)]
    crowded_s = streams.gather_s()
    for stream in many:
        stream.close()
    assert alone_s < crowded_s / 5 < 0.05
    assert streams.gather_s() == alone_s


async def test_nobody_asks_whether_an_answer_has_ended_while_it_flows(streams: Streams) -> None:
    asked = 0

    async def ended() -> bool:
        nonlocal asked
        asked += 1
        return False

    seen = asyncio.ensure_future(_collected(streams.subscribe(ID, ended)))
    stream = streams.open(ID)
    pauses, last = 0, time.monotonic()
    for _ in range(150):
        stream.publish(Delta(kind="text", text="word "))
        await asyncio.sleep(0.02)
        pauses, last = pauses + (time.monotonic() - last > 0.2), time.monotonic()
    streams.finish(ID, stream)
    await seen
    # It lasted three seconds, and is asked after a pause of half a one: a machine that is held up makes some.
    assert asked <= pauses


async def test_fifty_that_stream_at_once_do_not_hold_up_the_loop(streams: Streams) -> None:
    """Every run of a process shares one loop, so a writer must never keep it for long."""
    slowest_s = 0.0

    async def one(number: int) -> None:
        stream = streams.open(f"exe_{number}")
        for _ in range(100):
            stream.publish(Delta(kind="text", text="word "))
            await asyncio.sleep(0.005)
        streams.finish(f"exe_{number}", stream)

    async def watched() -> None:
        nonlocal slowest_s
        loop = asyncio.get_running_loop()
        while True:
            before, cpu = loop.time(), time.thread_time()
            await asyncio.sleep(0.005)
            # The machine may be busy with others: what this thread itself computed is what counts.
            slowest_s = max(slowest_s, min(loop.time() - before, time.thread_time() - cpu))

    began_s = time.thread_time()
    watch = asyncio.ensure_future(watched())
    readers = [asyncio.ensure_future(_collected(streams.subscribe(f"exe_{n}"))) for n in range(50)]
    await asyncio.gather(*(one(number) for number in range(50)))
    texts = ["".join(d.text for d in await reader) for reader in readers]
    watch.cancel()
    assert texts == ["word " * 100] * 50
    # A hundred rounds of publishing: none takes as much as half of all, however slow the machine is.
    assert slowest_s < max(0.1, (time.thread_time() - began_s) / 2)


async def test_a_subscriber_of_a_run_that_will_be_written_here_looks_only_when_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    read = streams_module._Reader.read  # pyright: ignore[reportPrivateUsage]

    def counted(self: Any) -> list[Delta]:
        nonlocal looks
        looks += 1
        return read(self)

    monkeypatch.setattr(streams_module._Reader, "read", counted)  # pyright: ignore[reportPrivateUsage]
    streams = Streams(tmp_path / "run", lambda: True)
    seen = asyncio.ensure_future(_collected(streams.subscribe(ID)))
    await asyncio.sleep(0.3)
    assert looks == 1
    stream = streams.open(ID)
    for delta in ANSWER:
        stream.publish(delta)
    streams.finish(ID, stream)
    assert await seen == [*ANSWER, Delta(kind="end")]
