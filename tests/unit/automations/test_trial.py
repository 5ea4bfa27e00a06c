"""What an automation would have done: nothing lasts, and nothing blocks."""

import socket
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from nexus.automations import hook_points, trial
from nexus.automations.context import Context, Occasion
from nexus.automations.registry import Entry
from nexus.automations.scripts import child, script
from nexus.broker.tools import sandbox
from nexus.home import Home


async def _replayed(home: Home, handler: object, timeout_ms: int) -> trial.Trial:
    automation = trial.unregistered_record("writer", hook_points.get("runAutomations"))
    entry = Entry(automation=automation, handler=handler)  # pyright: ignore[reportArgumentType]
    occasion = Occasion(request=trial.sample_request("hello"))
    return await trial.replay(home, entry, None, occasion, trial.Replayed(), timeout_ms)


async def test_a_blocking_handler_is_given_up_at_its_time_limit(home: Home) -> None:
    may_end, ended = threading.Event(), threading.Event()

    def blocks(ctx: Context) -> None:
        may_end.wait(30)
        ended.set()

    found = await _replayed(home, blocks, 200)
    assert (found.status, found.error) == ("timeout", "timed out after 200 ms")
    assert not ended.is_set()
    may_end.set()


async def test_what_a_handler_raises_is_what_it_would_have_done(home: Home) -> None:
    def fails(ctx: Context) -> None:
        raise TimeoutError(ctx.request.event.content)

    found = await _replayed(home, fails, 60_000)
    assert (found.status, found.error) == ("failed", "TimeoutError: hello")


_SPY = """
import pathlib, socket

def tried(work):
    try:
        return bool(work() or True)
    except OSError:
        return False

def run(ctx):
    with socket.socket(socket.AF_UNIX) as unix:
        return {{"log": {{
            "token": tried(lambda: pathlib.Path({token!r}).read_text()),
            "beside": tried(lambda: pathlib.Path({beside!r}).read_text()),
            "socket": tried(lambda: unix.connect({listening!r})),
            "port": tried(lambda: socket.create_connection(("127.0.0.1", {port}), 5).close()),
        }}}}
"""


@pytest.fixture
async def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary directory beside the home, so that hiding the usual one hides nothing else."""
    missing = await sandbox.availability()
    if missing is not None:
        pytest.skip(missing.reason)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("is_folder", [True, False])
async def test_a_trial_reaches_neither_the_home_nor_sockets_nor_files_beside_it(
    home: Home, tmp_path: Path, is_folder: bool
) -> None:
    """The home lies in the very folder of the script, which a trial of a whole folder may read."""
    home.token()
    beside, path = tmp_path / "diary.txt", tmp_path / "spy.py"
    beside.write_text("Dear diary")
    if is_folder:
        (tmp_path / "HOOK.md").write_text("---\nevents: [runAutomations]\n---\n")
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as server:
        listening, port = str(home.root / "s"), server.getsockname()[1]
        path.write_text(
            _SPY.format(token=str(home.token_file), beside=str(beside), listening=listening, port=port)
        )
        code = script.read(path)
        unix.bind(listening)
        unix.listen(4)
        entry = Entry(trial.unregistered_record("spy", hook_points.get("runAutomations")), None)
        occasion = Occasion(request=trial.sample_request("hello"))
        found = await trial.replay(home, entry, code, occasion, trial.Replayed(), 60_000)
        # Outside of the sandbox it reaches all of them: the probe can tell.
        context = Context(
            request=occasion.request, automation=entry.automation, hook_point="", invocation_id=""
        )
        spied: Any = child.load_handler(code.source or "", path, None)(context)
        assert all(spied["log"].values())
    assert found.status == "done", found
    assert found.value["log"] == {"token": False, "beside": is_folder, "socket": False, "port": False}


@pytest.mark.usefixtures("temporary")
async def test_a_program_is_tried_without_what_lies_beside_it(home: Home, tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("Dear diary")
    program = tmp_path / "look"
    program.write_text(
        f"#!/bin/sh\ncat > /dev/null\n[ -e {tmp_path / 'diary.txt'} ] && seen=true || seen=false\n"
        """printf '{"log": {"seen": %s}}' "$seen"\n"""
    )
    program.chmod(0o755)
    entry = Entry(trial.unregistered_record("look", hook_points.get("runAutomations")), None)
    occasion = Occasion(request=trial.sample_request("hello"))
    found = await trial.replay(home, entry, script.read(program), occasion, trial.Replayed(), 60_000)
    assert (found.status, found.value) == ("done", {"log": {"seen": False}}), found
