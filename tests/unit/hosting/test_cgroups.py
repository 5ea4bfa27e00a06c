"""Cgroups of homes: what is written where, and that nothing of a home runs outside of its own."""

import asyncio
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from automating import register, runs
from delegated import delegated
from hosts import LEASE_MS, make_homes, write_settings
from nexus import config
from nexus.app import App
from nexus.attachments import File
from nexus.automations import trial
from nexus.automations.context import Occasion
from nexus.automations.hook_points import get
from nexus.automations.registry import Entry
from nexus.automations.scripts import script
from nexus.broker.tools import sandbox
from nexus.errors import NexusError
from nexus.home import Home
from nexus.hosting import cgroups
from nexus.hosting.cgroups import CgroupError, Cgroups
from nexus.hosting.host import Host, HostSettings
from nexus.hosting.limits import Limits
from nexus.testing import ModelServer, ToolCall, Turn
from unit.hosting.test_confinement import port_of, spy

ID = "hom_1"
V1 = "25 20 0:22 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


def files(place: Path, **contents: str) -> Path:
    """A directory with files as a cgroup has them. What they do, only the kernel's have."""
    place.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (place / name.replace("__", ".")).write_text(content)
    return place


def in_files(place: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in place.iterdir() if file.is_file()}


def test_the_limits_of_a_home_are_what_is_written(tmp_path: Path) -> None:
    old = {"memory__max": "", "memory__swap__max": "", "pids__max": "", "cpu__max": ""}
    place = files(tmp_path / f"home-{ID}", **old)
    every = Cgroups(root=tmp_path, controllers=cgroups.CONTROLLERS)
    assert every.make(ID, Limits(memory_mib=100, processes=40, cpus=1.5)) == place
    assert in_files(place) == {
        "memory.max": "104857600",
        "memory.swap.max": "0",
        "pids.max": "40",
        "cpu.max": "150000 100000",
    }
    files(place, **old)
    every.make(ID, Limits(memory_mib=0, processes=0, cpus=0))
    assert set(in_files(place).values()) == {"max"}


def test_only_what_was_delegated_is_written(tmp_path: Path) -> None:
    place = files(tmp_path / f"home-{ID}", memory__max="", pids__max="", cpu__max="")
    Cgroups(root=tmp_path, controllers=("pids", "memory")).make(ID, Limits())
    # Without swap there is no file for it, and none is made.
    assert in_files(place) == {"memory.max": str(2048 * 1024**2), "pids.max": "512", "cpu.max": ""}


@pytest.mark.parametrize(
    ("cgroup", "mounts", "expected"),
    [
        ("0::/system.slice/nexus.service\n", V2, "/sys/fs/cgroup/system.slice/nexus.service"),
        ("8:pids:/\n0::/\n", V1 + V2.replace("cgroup rw", "cgroup/unified rw"), "/sys/fs/cgroup/unified"),
        ("0::/docker/a/b\n", V2.replace(" / /sys", " /docker/a /sys"), "/sys/fs/cgroup/b"),
    ],
)
def test_the_own_cgroup_is_found(tmp_path: Path, cgroup: str, mounts: str, expected: str) -> None:
    assert cgroups.own(files(tmp_path / "proc", cgroup=cgroup, mountinfo=mounts)) == Path(expected)


def test_a_system_without_them_says_so(tmp_path: Path) -> None:
    with pytest.raises(CgroupError, match="version 2"):
        cgroups.own(files(tmp_path / "proc", cgroup="8:pids:/\n", mountinfo=V1))


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        ({}, "root cgroup"),
        ({"cgroup__type": "domain", "cgroup__controllers": "io hugetlb"}, "no controllers"),
        ({"cgroup__type": "domain", "cgroup__controllers": "pids", "cgroup__procs": "1\n2\n"}, "shares"),
        ({"cgroup__type": "domain"}, "isn't delegated"),
    ],
)
def test_a_cgroup_that_was_not_delegated_is_left_alone(
    tmp_path: Path, contents: dict[str, str], reason: str
) -> None:
    place = files(tmp_path / "own", **contents)
    before = in_files(place)
    with pytest.raises(CgroupError, match=reason) as caught:
        cgroups.take_over(place)
    assert "Delegate=" in caught.value.hint
    assert in_files(place) == before
    assert [path for path in place.iterdir() if path.is_dir()] == []


@pytest.fixture
async def sandboxed() -> None:
    missing = await sandbox.availability()
    if missing is not None:
        pytest.skip(missing.reason)


@pytest.mark.usefixtures("sandboxed")
async def test_nothing_of_a_home_runs_outside_of_its_cgroup(home: Home, tmp_path: Path) -> None:
    """Where the cgroup can't be entered, nothing runs: no tool, script, trial or parser."""
    gone = replace(home, cgroup=tmp_path / "gone")
    with ModelServer() as server:
        server.script(Turn("", [ToolCall("bash", {"command": "echo it-$((40 + 2))"})]), Turn("Done."))
        settings = config.load(write_settings(tmp_path, server))
        automations = replace(settings.automations, sandbox_all=True)
        async with App(gone, replace(settings, automations=automations)) as app:
            await (await app.send("Hello")).result()
            said = str(server.requests[-1].json)
            assert "can't enter the cgroup" in said
            assert "it-42" not in said

            await register(app, "counts", "def run(ctx):\n    pass\n", tmp_path, hook_point="runAutomations")
            server.always(Turn("Hello."))
            await (await app.send("Again")).result()
            [invocation] = await runs(app, "counts")
            assert invocation.status == "failed"

            entry = Entry(trial.unregistered_record("trial", get("runAutomations")), None)
            code = script.read(tmp_path / "counts.py")
            occasion = Occasion(request=trial.sample_request("Hello"))
            tried = await trial.replay(gone, entry, code, occasion, trial.Replayed(), 30_000)
            assert (tried.status, "can't enter the cgroup" in tried.output) == ("failed", True)

            with pytest.raises(NexusError, match="can't enter the cgroup"):
                await app.receive("Read", files=[File(name="a.pdf", data=b"%PDF-1.4 nothing")])


@pytest.mark.usefixtures("sandboxed")
async def test_an_mcp_server_starts_in_the_cgroup_or_not_at_all(home: Home, tmp_path: Path) -> None:
    with ModelServer() as server:
        server.always(Turn("Hello."))
        settings = config.load(write_settings(tmp_path, server))
        mcp = {name: replace(each, sandbox=True) for name, each in spy(tmp_path, port_of(server)).items()}
        offered: list[bool] = []
        for cgroup in (tmp_path / "gone", None):
            async with App(replace(home, cgroup=cgroup), replace(settings, mcp=mcp)) as app:
                await (await app.send("Hello")).result()
            offered.append("spy__look" in str(server.requests[-1].json.get("tools")))
        assert offered == [False, True]


async def pid_of(command: list[str]) -> int:
    """The process with that command line, once there is one."""
    line = b"".join(word.encode() + b"\0" for word in command)
    async with asyncio.timeout(60):
        while True:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    if path.read_bytes() == line:
                        return int(path.parent.name)
                except OSError:
                    continue
            await asyncio.sleep(0.02)


def inside(place: Path) -> list[int]:
    return list(map(int, (place / "cgroup.procs").read_text().split()))


@pytest.mark.usefixtures("sandboxed")
async def test_tools_and_scripts_run_in_the_cgroup_of_their_home_and_end_with_it(tmp_path: Path) -> None:
    root = tmp_path / "host"
    tool, waits = ["sleep", "86399.1"], ["sleep", "86399.2"]
    with delegated() as place, ModelServer() as server:
        server.script(Turn("", [ToolCall("bash", {"command": f"exec {' '.join(tool)}"})]))
        ids = make_homes(root, write_settings(tmp_path, server), "ada", "bob")
        own = Cgroups(root=place, controllers=())
        async with Host(HostSettings(root=root, lease_ms=LEASE_MS, cgroups=own)) as host:
            async with host.pool.use(ids["ada"]) as ada, host.pool.use(ids["bob"]):
                source = f"import subprocess\n\ndef run(ctx):\n    subprocess.run({waits!r})\n"
                await ada.app.send("Wait")
                first = await pid_of(tool)
                await register(ada.app, "waits", source, tmp_path, hook_point="runAutomations")
                sending = asyncio.create_task(ada.app.send("Wait again"))
                second = await pid_of(waits)
                found, others = inside(place / f"home-{ids['ada']}"), inside(place / f"home-{ids['bob']}")
                assert {first, second} <= set(found)
                assert others == []
                sending.cancel()
                await asyncio.wait({sending})
                await host.engine.stop_home(ids["ada"])
            await host.pool.evict(ids["ada"])
            assert [each.name for each in place.glob("home-*")] == [f"home-{ids['bob']}"]
            assert not any(Path(f"/proc/{pid}").exists() for pid in (first, second))
        assert list(place.glob("home-*")) == []


def test_what_a_killed_host_left_behind_is_ended_and_removed() -> None:
    with delegated() as place:
        left = place / f"home-{ID}"
        left.mkdir()
        join = 'echo 0 > "$0/cgroup.procs" && exec sleep 86399.3'
        with subprocess.Popen(["/bin/sh", "-c", join, str(left)]) as process:
            deadline = time.monotonic() + 60
            while inside(left) != [process.pid]:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            Cgroups(root=place, controllers=()).tidy()
            assert process.wait(60) < 0
        assert not left.exists()
        assert os.getpid() not in inside(place)
