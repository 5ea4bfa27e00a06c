"""Scripts in the sandbox: what they can't reach, and that they work all the same."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from nexus.automations import loading, registration
from nexus.automations.scripts.script import SANDBOX
from nexus.errors import AutomationError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime.automations import IMPORTED, NewAutomation
from unit.automations.stage import Stage, staged

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is a program for Linux")

_PROBE = """
import os, pathlib, socket, subprocess

def tried(work):
    try:
        return repr(work())[:200]
    except Exception as error:
        return f"refused: {type(error).__name__}"

def run(ctx):
    settings = ctx.automation.config
    home = pathlib.Path(settings["home"])
    here = ctx.workspace.home / "note.txt" if ctx.workspace else None
    return {"enrich": {ctx.automation.name: {
        "ledger": tried(lambda: (home / "data" / "memory.db").read_bytes()[:10]),
        "listing": tried(lambda: [p.name for p in home.iterdir() if p.name not in ("meeseeks", "state")]),
        "passwords": tried(lambda: open("/etc/shadow").read()),
        "elsewhere": tried(lambda: (home.parent / f"planted-{ctx.automation.name}").write_text("x")),
        "network": tried(lambda: socket.create_connection(("127.0.0.1", settings["port"]), 2)),
        "workspace": tried(lambda: here.write_text(ctx.request.event.content)) if here else None,
        "setuid": tried(lambda: os.chmod(here, 0o4755)) if here else None,
        "program": tried(lambda: subprocess.check_output(["echo", "hi"])),
    }}}
"""


@pytest.fixture
async def stage(opened: Ledgers, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(opened, tmp_path) as made:
        yield made


async def test_a_sandboxed_script_reaches_its_workspace_and_nothing_else(stage: Stage) -> None:
    home = stage.ledgers.home
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = {"home": str(home.root), "port": server.getsockname()[1]}
        place = registration.workspace_dir(home, "inside")
        await stage.script(
            "inside", _PROBE, config={**config, SANDBOX: True}, workspace_dir=place, timeout_ms=30_000
        )
        await stage.script("outside", _PROBE, config=config, timeout_ms=30_000)
        seen = (await stage.fire(content="tea")).enrich
    inside, outside = seen["inside"], seen["outside"]

    assert inside.pop("workspace") == "3"
    assert (home.meeseeks / "inside" / "note.txt").read_text() == "tea"
    assert "hi" in inside.pop("program")
    assert inside.pop("listing") == "[]"
    # It may write to a temporary directory, which is its own.
    inside.pop("elsewhere")
    assert not (home.root.parent / "planted-inside").exists()
    assert all(told.startswith("refused") for told in inside.values()), inside
    # Without the sandbox each of them works: the probe can tell.
    assert "SQLite" in outside["ledger"]
    assert "socket" in outside["network"]
    assert (home.root.parent / "planted-outside").exists()


async def test_a_program_runs_in_the_sandbox_too(stage: Stage, tmp_path: Path) -> None:
    program = tmp_path / "look.sh"
    program.write_text(
        "#!/bin/sh\ncat > /dev/null\n"
        f"[ -e {stage.home.ledger('memory')} ] && seen=true || seen=false\n"
        """printf '{"enrich": {"seen": %s}}' "$seen"\n"""
    )
    program.chmod(0o755)
    brought = registration.bring_in(stage.home, "look", program)
    new = NewAutomation(
        name="look",
        script_path=str(brought.path),
        script_hash=brought.hash,
        timeout_ms=30_000,
        config={SANDBOX: True},
    )
    await asyncio.to_thread(registration.register, stage.home, registration.writer(stage.ledgers), new)
    assert (await stage.fire()).enrich == {"seen": False}


async def test_what_an_agent_wrote_is_sandboxed_unless_the_owner_says_otherwise(stage: Stage) -> None:
    source = "def run(ctx):\n    pass\n"
    assert (await stage.script("agents", source, created_by_agent="manager")).config == {SANDBOX: True}
    allowed = await stage.script("allowed", source, created_by_agent="manager", config={SANDBOX: False})
    assert allowed.config == {SANDBOX: False}
    assert (await stage.script("mine", source)).config == {}


@pytest.mark.parametrize("trust", [False, True])
async def test_an_imported_script_is_sandboxed_unless_it_is_trusted(stage: Stage, trust: bool) -> None:
    await stage.script("foreign", "def run(ctx):\n    pass\n", disabled_reason=IMPORTED)
    row, write = await stage.row("foreign"), registration.writer(stage.ledgers)
    assert row.status == "disabled"

    await asyncio.to_thread(partial(registration.approve, stage.home, write, row, trust=trust))

    approved = await stage.row("foreign")
    assert approved.status == "active"
    assert approved.config.get(SANDBOX, False) is not trust


async def test_code_of_a_package_cannot_be_sandboxed(stage: Stage) -> None:
    with pytest.raises(AutomationError, match="Only scripts can be sandboxed"):
        await stage.code("package", lambda ctx: None, config={SANDBOX: True})


def test_a_hook_folder_says_whether_it_is_sandboxed(tmp_path: Path) -> None:
    for line, wanted in (("", None), ("sandbox: true\n", True), ("sandbox: false\n", False)):
        (tmp_path / "HOOK.md").write_text(f"---\nname: one\nevents: [runAutomations]\n{line}---\n")
        assert loading.read(tmp_path / "HOOK.md").sandbox is wanted
    (tmp_path / "HOOK.md").write_text("---\nevents: [runAutomations]\nsandbox: please\n---\n")
    with pytest.raises(AutomationError, match="true or false"):
        loading.read(tmp_path / "HOOK.md")
