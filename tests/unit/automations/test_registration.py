"""Registering: versions, what is refused, going back, and what is loaded at startup."""

import asyncio
import importlib.util
import py_compile
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from migration.old_hooks import OLD_ROWS, old_database
from nexus.automations import registration
from nexus.automations.loading import Loaded, Plugin, load
from nexus.automations.registration import Registered
from nexus.config import LedgersConfig
from nexus.errors import AutomationError, ScriptError, UnknownHookPointError
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation, NewAutomation
from unit.automations.stage import Stage, staged

_V1 = "def run(ctx):\n    return {'enrich': {'v': 1}}\n"
_V2 = "def run(ctx):\n    return {'enrich': {'v': 2}}\n"


@pytest.fixture
async def stage(opened: Ledgers, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(opened, tmp_path) as made:
        yield made


async def _registered(ledgers: Ledgers, new: NewAutomation) -> Registered:
    return await asyncio.to_thread(registration.register, ledgers.home, registration.writer(ledgers), new)


async def _loaded(ledgers: Ledgers, *bundled: Plugin) -> Loaded:
    return await asyncio.to_thread(load, ledgers.home, registration.writer(ledgers), bundled)


async def _row(ledgers: Ledgers, name: str) -> Automation | None:
    return await ledgers.runtime.read(automations.get, name=name)


async def test_a_changed_script_is_a_new_version_and_the_same_one_is_not(stage: Stage) -> None:
    first = await stage.script("tea", _V1)
    assert (await stage.script("tea", _V1)).id == first.id
    second = await stage.script("tea", _V2)
    assert (second.version, second.previous_version_id) == (2, first.id)
    assert (await stage.fire()).enrich == {"v": 2}
    assert len(await stage.rows("tea")) == 1


async def test_going_back_restores_script_and_settings(stage: Stage) -> None:
    await stage.script("tea", _V1, timeout_ms=21_111)
    await stage.script("tea", _V2, timeout_ms=22_222)
    write = registration.writer(stage.ledgers)
    made = await asyncio.to_thread(registration.roll_back, stage.home, write, "tea", None)
    assert (made.version, made.timeout_ms) == (3, 21_111)
    assert (await stage.fire()).enrich == {"v": 1}


async def test_what_was_removed_can_be_brought_back(stage: Stage) -> None:
    await stage.script("tea", _V1)
    await stage.ledgers.runtime.write(automations.remove, name="tea")
    assert await _row(stage.ledgers, "tea") is None
    write = registration.writer(stage.ledgers)
    await asyncio.to_thread(registration.roll_back, stage.home, write, "tea", None)
    assert (await stage.fire()).enrich == {"v": 1}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"name": "../x"}, AutomationError),
        ({"hook_point": "after:lunch"}, UnknownHookPointError),
        ({"triggers": {"moon": "full"}}, AutomationError),
        ({"self_improvement": True}, AutomationError),
        ({"peer_workspaces": ("x/other/",)}, AutomationError),
    ],
)
async def test_what_could_never_run_as_meant_is_refused(
    opened: Ledgers, changes: dict[str, Any], error: type[Exception]
) -> None:
    new = NewAutomation(name="tea", script_path="x.py", script_hash="0")
    with pytest.raises(error):
        await _registered(opened, replace(new, **changes))


@pytest.mark.parametrize("source", ["def run(ctx:\n", "def go(ctx):\n    pass\n"])
def test_a_script_that_cannot_run_is_refused(home: Home, tmp_path: Path, source: str) -> None:
    (tmp_path / "bad.py").write_text(source)
    with pytest.raises(ScriptError):
        registration.bring_in(home, "bad", tmp_path / "bad.py")


def _hook(home: Home, name: str, matter: str, handler: str = _V1) -> Path:
    folder = home.state / "hooks" / name
    folder.mkdir()
    (folder / "HOOK.md").write_text(f"---\n{matter}\n---\n# {name}\n")
    (folder / "handler.py").write_text(handler)
    return folder


async def test_a_hook_folder_becomes_a_row_and_fires(stage: Stage) -> None:
    _hook(stage.home, "greet", 'name: greet\ndescription: "hi"\nevents: [runAutomations]\ntimeout_ms: 20000')
    await _loaded(stage.ledgers)
    row = await stage.row("greet")
    assert (row.hook_point, row.description, row.timeout_ms) == ("runAutomations", "hi", 20_000)
    assert (await stage.fire()).enrich == {"v": 1}
    await _loaded(stage.ledgers)
    assert (await stage.row("greet")).version == 1


async def test_a_handler_may_use_what_lies_beside_it_and_an_edit_of_that_is_noticed(stage: Stage) -> None:
    handler = "from beside import VALUE\ndef run(ctx):\n    return {'enrich': {'v': VALUE}}\n"
    folder = _hook(stage.home, "greet", "events: runAutomations", handler)
    (folder / "beside.py").write_text("VALUE = 7\n")
    await _loaded(stage.ledgers)
    assert (await stage.fire()).enrich == {"v": 7}
    (folder / "beside.py").write_text("VALUE = 8\n")
    assert not (await stage.fire()).enrich


async def test_bytecode_beside_a_handler_never_runs(stage: Stage, tmp_path: Path) -> None:
    handler = "from beside import VALUE\ndef run(ctx):\n    return {'enrich': {'v': VALUE}}\n"
    folder = _hook(stage.home, "greet", "events: runAutomations", handler)
    (folder / "beside.py").write_text("VALUE = 7\n")
    await _loaded(stage.ledgers)
    (tmp_path / "planted.py").write_text("VALUE = 'planted'\n")
    planted = Path(importlib.util.cache_from_source(str(folder / "beside.py")))
    py_compile.compile(
        str(tmp_path / "planted.py"),
        cfile=str(planted),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )

    assert (await stage.fire()).enrich == {"v": 7}
    planted.unlink()
    assert (await stage.fire()).enrich == {"v": 7}
    assert not planted.exists()


async def test_a_folder_of_several_events_becomes_several_rows(stage: Stage) -> None:
    matter = 'metadata: {"openclaw": {"events": ["command:new", "message:received", "moon:rise"]}}'
    _hook(stage.home, "greet", matter)
    await _loaded(stage.ledgers)
    assert (await stage.row("greet@command:new")).hook_point == "command:new"
    assert (await stage.row("greet@after:receiveEvent")).hook_point == "after:receiveEvent"
    unknown = await stage.row("greet@moon:rise")
    assert (unknown.status, unknown.disabled_reason) == (
        "disabled",
        "not yet: unknown hook point `moon:rise`",
    )


async def test_a_hook_waits_for_what_it_needs(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    _hook(stage.home, "greet", "events: runAutomations\nrequires: {env: [NEXUS_TEST_TOKEN]}")
    await _loaded(stage.ledgers)
    assert (
        await stage.row("greet")
    ).disabled_reason == "not yet: missing environment variable NEXUS_TEST_TOKEN"
    monkeypatch.setenv("NEXUS_TEST_TOKEN", "x")
    await _loaded(stage.ledgers)
    assert (await stage.row("greet")).status == "active"


async def test_a_broken_folder_is_told_of_and_keeps_nobody_else(stage: Stage) -> None:
    _hook(stage.home, "broken", "events: [", _V1)
    _hook(stage.home, "fine", "events: runAutomations")
    loaded = await _loaded(stage.ledgers)
    assert "is not YAML" in loaded.problems[0]
    assert (await stage.fire()).enrich == {"v": 1}


def _plugin(**settings: Any) -> Plugin:
    given: dict[str, Any] = {"name": "bundled", "hook_point": "runAutomations", "description": "d"}
    return Plugin(run=lambda ctx: {"enrich": {"bundled": True}}, **{**given, **settings})


async def test_a_bundled_one_is_seeded_once_and_upgraded_where_nobody_changed_it(stage: Stage) -> None:
    stage.handlers |= (await _loaded(stage.ledgers, _plugin(timeout_ms=10_000))).handlers
    assert (await stage.fire()).enrich == {"bundled": True}
    await _loaded(stage.ledgers, _plugin(timeout_ms=20_000))
    row = await stage.row("bundled")
    assert (row.version, row.timeout_ms) == (2, 20_000)

    changed = replace(registration.settings_of(row), priority=1)
    await _registered(stage.ledgers, changed)
    await _loaded(stage.ledgers, _plugin(timeout_ms=30_000))
    row = await stage.row("bundled")
    assert (row.version, row.timeout_ms, row.priority) == (3, 20_000, 1)


async def test_a_bundled_one_that_was_removed_or_switched_off_stays_so(stage: Stage) -> None:
    await _loaded(stage.ledgers, _plugin(), _plugin(name="other"))
    await stage.ledgers.runtime.write(automations.remove, name="bundled")
    off = (await stage.row("other")).id
    await stage.ledgers.runtime.write(automations.disable, automation_id=off, reason="no")
    await _loaded(stage.ledgers, _plugin(timeout_ms=9), _plugin(name="other", timeout_ms=9))
    assert await _row(stage.ledgers, "bundled") is None
    other = await stage.row("other")
    assert (other.version, other.timeout_ms, other.status) == (2, 9, "disabled")


async def test_one_that_ships_switched_off_is_listed_and_does_not_run(stage: Stage) -> None:
    stage.handlers |= (await _loaded(stage.ledgers, _plugin(enabled=False))).handlers
    assert (await stage.row("bundled")).disabled_reason == "off by default"
    assert not (await stage.fire()).enrich


async def test_a_plugin_of_an_installed_package_becomes_a_row_and_fires(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin(tmp_path / "site")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    stage.handlers |= (await _loaded(stage.ledgers)).handlers
    assert (await stage.fire()).enrich == {"plugin": "greets"}
    del sys.modules["tea_plugin"]

    monkeypatch.undo()
    assert (await _loaded(stage.ledgers)).problems == [
        "tea-plugin: its package is not installed. Install it again, or run "
        "`nexus automations remove tea-plugin`"
    ]


def install_plugin(site: Path) -> None:
    """A package with an entry point, as an installer lays it down."""
    information = site / "tea_plugin-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tea-plugin\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[nexus.automations]\ntea = tea_plugin:tea_plugin\n")
    (site / "tea_plugin.py").write_text(
        "from nexus import automation\n"
        "@automation('runAutomations')\n"
        "def tea_plugin(ctx):\n"
        "    'greets'\n"
        "    return {'enrich': {'plugin': ctx.automation.description}}\n"
    )


async def test_a_row_without_code_of_an_installed_package_runs_nothing(stage: Stage) -> None:
    await _registered(
        stage.ledgers, NewAutomation(name="sly", script_path="python:os:system", script_hash=None)
    )
    await stage.fire()
    (row,) = await stage.rows("sly")
    assert (row.status, row.error) == ("failed", "The package of `sly` is not installed")


async def test_an_old_hook_without_a_hash_fires_after_the_upgrade(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create_files()
    script = home.scripts / "old.py"
    script.write_text(_V1)
    row = list(OLD_ROWS[0])
    row[0], row[1], row[5], row[6], row[13] = "h9", "old", "~/.nexus/state/hooks/scripts/old.py", None, None
    old_database(home.ledger("runtime"), [tuple(row)])
    async with Ledgers(home, LedgersConfig()) as ledgers, staged(ledgers, tmp_path) as stage:
        await _loaded(ledgers)
        assert (await stage.fire()).enrich == {"v": 1}
        (invocation,) = await stage.rows("old")
        assert (invocation.automation_id, invocation.automation_version) == ("h9", 2)
