"""A run of the tests ends when the last one has: whatever still runs then is named, and not waited for."""

import faulthandler
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import program_starter

_GRACE_S = 10.0
# Whatever else may keep Python from ending.
_END_S = 120.0
_status = pytest.StashKey[int]()


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """What a file left open is told of that file, and not of the test that runs when Python comes upon it."""
    yield
    gc.collect()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    session.config.stash[_status] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Python would join threads for ever, and whoever reads a pipe waits for every process that holds it."""
    if parsers := sys.modules.get("nexus.history.parser_process"):
        parsers.close()  # it stays for the next mail
    program_starter.close()
    for pid in _children():
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        _say(f"left running by a test, and killed: {pid} {command[:200]}")
        os.kill(pid, signal.SIGKILL)
    if not hasattr(config, "workerinput"):  # A worker stays until the others have ended too.
        faulthandler.dump_traceback_later(_END_S, exit=True, file=sys.__stderr__ or sys.stderr)
    deadline = time.monotonic() + _GRACE_S
    while _threads() and time.monotonic() < deadline:
        time.sleep(0.05)
    if _threads():
        _say(f"still running after the last test: {', '.join(thread.name for thread in _threads())}")
        faulthandler.dump_traceback(file=sys.__stderr__ or sys.stderr)
        sys.stdout.flush()
        os._exit(config.stash.get(_status, 1))


def _threads() -> list[threading.Thread]:
    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    return [thread for thread in others if not thread.daemon and not _idle(thread)]


def _idle(thread: threading.Thread) -> bool:
    """A pool's thread that waits for work ends when Python tells it to."""
    frame = sys._current_frames().get(thread.ident or 0)  # pyright: ignore[reportPrivateUsage]
    return frame is None or frame.f_code.co_name == "_worker"


def _children() -> list[int]:
    found = Path("/proc/self/task").glob("*/children")
    return [int(pid) for file in found for pid in file.read_text().split()]


def _say(text: str) -> None:
    print(text, file=sys.__stderr__, flush=True)
