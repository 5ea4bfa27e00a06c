"""How a sandbox is started, fed and ended, and what is said when it cannot be had."""

import asyncio
import hashlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from nexus.broker.tools import Grant, Limits, Sandbox, availability
from nexus.errors import SandboxError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is a program for Linux")

MIB = 1024 * 1024


def running(marker: str) -> bool:
    """Whether any process of the host has these words on its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


async def until(marker: str, *, there: bool) -> bool:
    deadline = time.monotonic() + 30
    while running(marker) != there and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return running(marker) == there


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def children() -> set[str]:
    """The processes that this one started, also those that ended and that nobody waited for."""
    found = set[str]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # After the name in brackets: the state, then the parent.
            if path.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.add(path.parent.name)
    return found


async def test_input_reaches_the_program_whole() -> None:
    data = os.urandom(3 * MIB)

    hashed = await Sandbox().run(["sha256sum"], stdin=data)
    ignored = await Sandbox().run(["true"], stdin=data)

    assert hashed.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert ignored.exit_code == 0


async def test_output_and_exit_code_come_back() -> None:
    done = await Sandbox().run(["bash", "-c", "echo out; echo err >&2; exit 7"])

    assert (done.exit_code, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert (done.killed_by, done.truncated) == (None, False)


async def test_a_program_that_is_not_there_is_told_apart_from_one_that_fails() -> None:
    with pytest.raises(SandboxError, match="no-such-program"):
        await Sandbox().run(["no-such-program"])


async def test_a_working_directory_that_was_not_granted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="working directory"):
        await Sandbox().run(["true"], directory=tmp_path)


async def test_a_daemon_dies_with_the_command_that_started_it() -> None:
    daemon = "import os, time\nif not os.fork():\n os.setsid()\n if not os.fork(): time.sleep(75319)"

    done = await Sandbox().run(
        ["bash", "-c", f"python3 -c '{daemon}'; (setsid nohup sleep 75319 >/dev/null 2>&1 &); echo done"]
    )

    assert (done.exit_code, done.stdout) == (0, b"done\n")
    assert await until("75319", there=False)


async def test_a_daemon_that_keeps_the_output_open_does_not_keep_the_run_open() -> None:
    done = await Sandbox().run(["bash", "-c", "(setsid sleep 31975 &); echo done"])

    assert (done.exit_code, done.stdout) == (0, b"done\n")
    assert done.duration_ms < 20_000
    assert await until("31975", there=False)


async def test_cancelling_kills_at_once() -> None:
    task = asyncio.ensure_future(Sandbox().run(["bash", "-c", "(setsid sleep 64208 &); sleep 64208"]))
    assert await until("64208", there=True)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await until("64208", there=False)


async def test_cancelling_at_any_moment_leaves_nothing() -> None:
    await Sandbox().run(["true"])
    before = descriptors()
    for moment_ms in range(0, 30, 2):
        task = asyncio.ensure_future(Sandbox().run(["sleep", "53197"]))
        await asyncio.sleep(moment_ms / 1000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert await until("53197", there=False)
    await asyncio.sleep(0.1)
    assert descriptors() <= before


async def test_a_killed_runtime_takes_its_sandboxes_along() -> None:
    script = (
        "import asyncio; from nexus.broker.tools import Sandbox;"
        "asyncio.run(Sandbox().run(['bash', '-c', 'exec sleep 420${X}86']))"
    )
    runtime = subprocess.Popen([sys.executable, "-c", script])
    assert await until("42086", there=True)

    runtime.send_signal(signal.SIGKILL)
    runtime.wait()

    assert await until("42086", there=False)


async def test_many_runs_leave_no_descriptor_thread_or_child() -> None:
    await Sandbox().run(["true"])
    before, threads, processes = descriptors(), threading.active_count(), children()

    outcomes = await asyncio.gather(*(Sandbox().run(["echo", str(number)]) for number in range(12)))

    assert [outcome.stdout for outcome in outcomes] == [f"{number}\n".encode() for number in range(12)]
    await asyncio.sleep(0.3)
    assert descriptors() <= before
    assert threading.active_count() <= threads
    assert children() <= processes


async def test_ending_one_sandbox_leaves_another_alone() -> None:
    long, short = Limits(), Limits(timeout_ms=300)

    ended, done = await asyncio.gather(
        Sandbox(limits=short).run(["sleep", "600"]),
        Sandbox(limits=long).run(["bash", "-c", "sleep 1; echo done"]),
    )

    assert (ended.exit_code, ended.killed_by) == (None, "timeout")
    assert (done.exit_code, done.stdout) == (0, b"done\n")


async def test_the_loop_goes_on_while_a_sandbox_prints_and_computes() -> None:
    longest = 0.0
    task = asyncio.ensure_future(
        Sandbox(limits=Limits(timeout_ms=1_000)).run(["bash", "-c", "while :; do echo; done"])
    )
    while not task.done():
        begin = time.thread_time()
        await asyncio.sleep(0.005)
        # What this thread itself computed: the machine may be busy with others.
        longest = max(longest, time.thread_time() - begin)

    assert longest < 0.5


@pytest.mark.parametrize(
    "path", ["/", "/usr", "/etc", "/tmp", "/proc", "/proc/1", "/dev/shm", "/sys", "relative", "/home/../etc"]
)
async def test_a_directory_of_the_system_cannot_be_granted(path: str) -> None:
    with pytest.raises(SandboxError, match="cannot be granted"):
        await Sandbox(grants=(Grant(path=Path(path)),)).run(["true"])


async def test_a_directory_that_is_missing_or_a_file_cannot_be_granted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("missing", "file"):
        with pytest.raises(SandboxError, match="cannot be granted"):
            await Sandbox(grants=(Grant(path=tmp_path.resolve() / name),)).run(["true"])


async def test_a_refused_start_leaves_no_descriptor() -> None:
    before = descriptors()
    for _ in range(3):
        with pytest.raises(SandboxError):
            await Sandbox(environment={"NAME": "zero\0byte"}).run(["true"])
        with pytest.raises(SandboxError):
            await Sandbox().run(["echo", "x" * 4 * MIB])

    assert descriptors() == before


async def test_without_bubblewrap_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    grant = Grant(path=tmp_path.resolve(), writable=True)

    with pytest.raises(SandboxError) as caught:
        await Sandbox(grants=(grant,)).run(["touch", str(tmp_path / "ran")])

    assert "apt-get install bubblewrap" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
    told = await availability()
    assert told is not None
    assert "bubblewrap" in told.reason
    assert "apt-get install bubblewrap" in told.hint


@pytest.mark.parametrize(
    ("complaint", "message"),
    [
        ("bwrap: setting up uid map: Permission denied", "uid map"),
        ("bwrap: No permissions to create new namespace", "Can't set up"),
        ("bwrap: Unknown option --bind-fd", "too old"),
        ("", "without a word"),
    ],
)
async def test_a_bubblewrap_that_fails_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: str, message: str
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho '{complaint}' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    told = await availability()

    assert told is not None
    assert message in told.reason
    assert told.hint


async def test_the_command_line_that_others_see_tells_no_path_and_no_variable(tmp_path: Path) -> None:
    sandbox = Sandbox(grants=(Grant(path=tmp_path.resolve()),), environment={"TOKEN": "not-for-others"})
    task = asyncio.ensure_future(sandbox.run(["sleep", "19753"]))
    assert await until("19753", there=True)

    seen = running("not-for-others") or running(str(tmp_path.resolve()))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not seen


async def test_a_sandbox_whose_limits_cannot_be_set_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_pid: int, _kind: int, _limits: tuple[int, int] | None = None) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(resource, "prlimit", refuse)
    sandbox = Sandbox(grants=(Grant(path=tmp_path.resolve(), writable=True),))

    with pytest.raises(SandboxError, match="limits"):
        await sandbox.run(["touch", str(tmp_path.resolve() / "ran")])

    await asyncio.sleep(0.2)
    assert list(tmp_path.iterdir()) == []
