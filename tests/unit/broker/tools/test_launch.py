"""A program in a sandbox on the streams of whoever started it."""

import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nexus.broker.tools import sandbox
from nexus.broker.tools.sandbox import Grant, Limits, Sandbox


@pytest.fixture(autouse=True)
async def sandboxed() -> None:
    missing = await sandbox.availability()
    if missing is not None:
        pytest.skip(missing.reason)


def started(inside: Sandbox, *argv: str) -> "subprocess.Popen[str]":
    command, environment = inside.command(argv)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_what_is_said_to_it_comes_back_and_its_end_is_ours() -> None:
    with started(Sandbox(environment={"WORD": "tea"}), "sh", "-c", "cat; echo $WORD; exit 3") as process:
        said, complaint = process.communicate("hello\n", timeout=60)
    assert (said, complaint, process.returncode) == ("hello\ntea\n", "", 3)


def test_it_sees_only_what_is_granted(tmp_path: Path) -> None:
    shown, kept = tmp_path / "shown", tmp_path / "kept"
    for place in (shown, kept):
        place.mkdir()
        (place / "file").write_text(place.name)
    inside = Sandbox(grants=(Grant(path=shown),))
    with started(inside, "sh", "-c", f"cat {shown}/file; cat {kept}/file; env | grep NEXUS") as process:
        said, complaint = process.communicate(timeout=60)
    assert said == "shown"
    assert "No such file" in complaint


def test_it_keeps_to_the_limits() -> None:
    inside = Sandbox(limits=Limits(processes=20))
    with started(inside, "sh", "-c", "for i in $(seq 100); do sleep 60 & done; wait") as process:
        _, complaint = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "processes" in complaint


def test_a_program_that_is_not_there_is_named() -> None:
    with started(Sandbox(), "no-such-program") as process:
        _, complaint = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "no-such-program" in complaint


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    inside = replace(Sandbox(), grants=(Grant(path=tmp_path, writable=True),))
    beat = tmp_path / "beat"
    with started(inside, "sh", "-c", f"while :; do date +%s%N > {beat}; sleep 0.05; done") as process:
        deadline = time.monotonic() + 60
        while not beat.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
        process.wait(timeout=60)
        # The kernel ends it after its parent.
        while time.monotonic() < deadline:
            before = beat.read_text()
            time.sleep(1)
            if beat.read_text() == before:
                return
    raise AssertionError("it goes on without its parent")
