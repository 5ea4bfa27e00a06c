import asyncio
import gc
import logging
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from nexus import watch
from nexus.errors import UsageError
from nexus.watch import Watch, finish, repeat

_APPEND = "import sys; open(sys.argv[1], 'a').write('more')"


@pytest.fixture(params=["reported", "compared"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With inotify, and without it."""
    if request.param == "compared":
        monkeypatch.setattr(watch, "_open_inotify", lambda: -1)
    return request.param


@pytest.mark.usefixtures("kind")
async def test_a_file_that_another_process_writes_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    with closing(Watch([path], pause_s=0.01)) as watched:
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", _APPEND, str(path)], check=True)
        await asyncio.wait_for(watched.wait(), 30)


@pytest.mark.usefixtures("kind")
async def test_every_later_change_is_reported_too(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    with closing(Watch([path], pause_s=0.01)) as watched:
        for time_ns in range(1_000_000_000, 4_000_000_000, 1_000_000_000):
            os.utime(path, ns=(time_ns, time_ns))
            await asyncio.wait_for(watched.wait(), 30)


@pytest.mark.usefixtures("kind")
async def test_a_file_that_is_made_later_is_reported_and_then_followed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with closing(Watch([path], pause_s=0.01)) as watched:
        path.write_text("made", encoding="utf-8")
        await asyncio.wait_for(watched.wait(), 30)
        path.write_text("changed again", encoding="utf-8")
        await asyncio.wait_for(watched.wait(), 30)


@pytest.mark.usefixtures("kind")
async def test_each_change_is_reported_a_second_time(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    with closing(Watch([path], pause_s=0.01)) as watched:
        os.utime(path, ns=(1_000_000_000, 1_000_000_000))
        for _ in range(2):
            await asyncio.wait_for(watched.wait(), 30)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watched.wait(), 0.1)


async def test_other_files_of_the_folder_wake_nobody(tmp_path: Path) -> None:
    reports: list[None] = []
    path, other = tmp_path / "log", tmp_path / "other"
    path.touch()
    with closing(Watch([path], lambda: reports.append(None), pause_s=0.0)):
        other.write_text("made", encoding="utf-8")
        for _ in range(10):
            await asyncio.sleep(0)
        assert not reports


async def test_closing_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(40):  # more than are open at a time
        Watch([tmp_path / "log"], pause_s=0.01).close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_work_that_must_not_stop_halfway_ends_before_a_caller_who_is_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def work() -> None:
        begun.set()
        await go_on.wait()
        done.append("halfway")
        await asyncio.sleep(0)
        done.append("done")
        raise OSError("the disk is full")

    caller = asyncio.ensure_future(finish(work()))
    await begun.wait()
    for _ in range(3):
        caller.cancel()
        await asyncio.sleep(0)
    assert not caller.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert done == ["halfway", "done"]
    del caller
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_who_is_not_cancelled_hears_how_work_ended() -> None:
    async def work(answer: str) -> str:
        if not answer:
            raise OSError("the disk is full")
        return answer

    assert await finish(work("42")) == "42"
    with pytest.raises(OSError, match="full"):
        await finish(work(""))


async def test_what_is_repeated_survives_any_error_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[Exception] = [OSError("no space left"), UsageError("not now"), ValueError("odd")]
    is_done = asyncio.Event()

    async def work() -> None:
        if failures:
            raise failures.pop()
        is_done.set()

    task = asyncio.create_task(repeat(work, logging.getLogger("nexus.host"), "it failed", pause_s=0.001))
    await asyncio.wait_for(is_done.wait(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [each.getMessage() for each in caplog.records] == ["it failed", "it failed: not now", "it failed"]
