"""Registering what a person or a program asks for: settings that are left out stay as they are.

The command line and the HTTP API both go through here, so both check the same things.

These functions wait for the disk: in a program with an event loop they belong on a thread.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nexus import config
from nexus.automations import hook_points, registration, workspace
from nexus.automations.loading import hooks
from nexus.automations.loading.hooks import Hook
from nexus.automations.registration import Registered, Write
from nexus.automations.scripts import script
from nexus.automations.workspace import Folder
from nexus.automations.workspace.history import History
from nexus.errors import AutomationError, UsageError
from nexus.home import Home
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation, NewAutomation

_PLAIN = (
    *("hook_point", "blocking", "self_improvement", "timeout_ms", "retries", "priority"),
    *("description", "mode"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """The settings to register. None, or an empty tuple: leave as it is."""

    hook_point: str | None = None
    blocking: bool | None = None
    workspace: bool | None = None
    role: str | None = None
    """The text of its ROLE.md; implies a workspace."""
    peers: tuple[str, ...] = ()
    self_improvement: bool | None = None
    timeout_ms: int | None = None
    retries: int | None = None
    priority: int | None = None
    description: str | None = None
    cron: str | None = None
    zone: str | None = None
    mode: str | None = None
    triggers: dict[str, Any] | None = None
    """Conditions and times; an empty one removes them all."""
    config: dict[str, Any] | None = None
    """Settings of its own; those not named are kept."""
    variables: tuple[str, ...] = ()
    sandbox: bool | None = None
    ledgers: bool | None = None


def register(
    home: Home,
    write: Write,
    given: str,
    changes: Changes,
    *,
    name: str | None = None,
    stays_disabled: bool = False,
) -> list[Registered]:
    """Register a file, a folder with a HOOK.md, or, by its name, the home's copy of an automation.

    A script that is registered again is enabled, unless what was disabled is to stay so.
    """
    folder = _find_hook_folder(home, write, given)
    if folder is not None:
        return _register_hook(home, write, folder, changes, name)
    path = Path(given).expanduser()
    standing = _find_row(write, name or (path.stem if path.is_file() else given))
    if not path.is_file():
        # Another name for the code of one that is there: a second registration of it.
        standing = standing or _find_row(write, given)
        if standing is None:
            raise UsageError(
                f"{given} is neither a file nor an automation",
                hint="List automations with `nexus automations list`.",
            )
        path = _locate_script(home, standing)
    name = name or (standing.name if standing else path.stem)
    new = (
        registration.settings_of(standing)
        if standing
        else NewAutomation(name=name, script_path="", script_hash=None)
    )
    new = replace(new, name=name)
    if stays_disabled and standing is not None:
        new = replace(new, disabled_reason=standing.disabled_reason)
    return [_register(home, write, new, changes, path)]


def register_text(
    home: Home, write: Write, name: str, source: str, changes: Changes, *, stays_disabled: bool = False
) -> list[Registered]:
    """Register a Python script by its text."""
    with tempfile.TemporaryDirectory(prefix="nexus-script-") as folder:
        file = Path(folder) / "script.py"
        file.write_text(source, encoding="utf-8")
        return register(home, write, str(file), changes, name=name, stays_disabled=stays_disabled)


def update(home: Home, write: Write, name: str, changes: Changes) -> Registered:
    """Change settings alone: the script must be the registered one, and what is disabled stays so."""
    standing = _find_row(write, name)
    if standing is None:
        raise registration.unknown_automation(name)
    if not (standing.script_path or "").startswith(script.IN_PROCESS):
        script.read_registered(home, standing)
    folder = _find_hook_folder(home, write, name)
    if folder is not None:
        _check_unstated(hooks.read(folder / script.HOOK_FILE), changes)
    new = replace(registration.settings_of(standing), disabled_reason=standing.disabled_reason)
    return _register(home, write, new, changes, Path())


def _register(home: Home, write: Write, new: NewAutomation, changes: Changes, path: Path) -> Registered:
    """Register settings with their changes; `path` is the script to bring in, if any.

    Everything is checked before anything is written: a refused registration leaves the script as it was.
    """
    new = _apply_changes(home, new, changes)
    if path != Path() and new.script_path.startswith(script.IN_PROCESS):
        new = replace(new, script_path="")
    is_own = new.script_path.startswith(script.IN_PROCESS)
    registration.check(new, None if is_own else config.load(home.config_file).automations)
    if path != Path():
        brought = registration.bring_in(home, new.name, path)
        new = replace(new, script_path=str(brought.path), script_hash=brought.hash)
    if changes.role is None:
        return registration.register(home, write, new)
    workspace.bootstrap(home.meeseeks / new.name, changes.role)
    registered = registration.register(home, write, new)
    return replace(registered, replaced_role=_replace_role(home, new.name, changes.role))


def _replace_role(home: Home, name: str, text: str) -> bool:
    """Put a ROLE.md into a workspace; the one that it replaces stays in the workspace's history."""
    folder = Folder(home.meeseeks / name)
    if folder.read(workspace.ROLE) == text:
        return False
    History(folder.path).commit(f"{name} before its role was replaced")
    folder.write(workspace.ROLE, text)
    History(folder.path).commit(f"{name} has another role")
    return True


def _find_row(write: Write, name: str) -> Automation | None:
    return write(automations.get, name=name)


def _locate_script(home: Home, standing: Automation) -> Path:
    """The script of an automation, to be registered as it lies there; nothing for code of a package."""
    recorded = standing.script_path or ""
    return Path() if recorded.startswith(script.IN_PROCESS) else script.locate(home, recorded)


def _find_hook_folder(home: Home, write: Write, given: str) -> Path | None:
    """The folder with a HOOK.md that is meant by a path or by the name of one of its rows."""
    path = Path(given).expanduser().absolute()
    row = None if path.exists() else _find_row(write, given)
    if row is not None and not (row.script_path or "").startswith(script.IN_PROCESS):
        path = script.locate(home, row.script_path or "").parent
    elif path.name == script.HOOK_FILE:
        path = path.parent
    return path if (path / script.HOOK_FILE).is_file() else None


def _register_hook(
    home: Home, write: Write, folder: Path, changes: Changes, name: str | None
) -> list[Registered]:
    """Register a folder's rows as its HOOK.md says, then change what it doesn't state."""
    hook = hooks.read(folder / script.HOOK_FILE)
    if hook.handler is None:
        raise AutomationError(f"{folder} has no handler.py and no executable handler")
    _check_unstated(hook, changes, name)
    brought = registration.bring_in(home, hook.name, hook.handler)
    assert brought.folder is not None  # noqa: S101 - an invariant, for the reader and the type checker
    hook = hooks.read(brought.folder / script.HOOK_FILE)
    made = hooks.sync(home, write, hook, by_hand=True)
    return [_change_row(home, write, each, changes) for each in made]


def _check_unstated(hook: Hook, changes: Changes, name: str | None = None) -> None:
    """Refuse what its HOOK.md decides."""
    given = {
        "name": name,
        "hook-point": changes.hook_point,
        "schedule": changes.cron,
        "zone": changes.zone,
        **{key.removesuffix("_ms").replace("_", "-"): getattr(changes, key, None) for key in hook.settings},
        **({} if hook.sandbox is None else {"sandbox": changes.sandbox}),
        **({} if hook.description is None else {"description": changes.description}),
    }
    for flag in (each for each, value in given.items() if value is not None):
        raise UsageError(f"HOOK.md decides about --{flag}", hint=f"Edit {hook.folder / script.HOOK_FILE}.")


def _change_row(home: Home, write: Write, registered: Registered, changes: Changes) -> Registered:
    if changes == Changes():
        return registered
    new = registration.settings_of(registered.automation)
    new = replace(new, disabled_reason=registered.automation.disabled_reason)
    return _register(home, write, new, changes, Path())


def _apply_changes(home: Home, new: NewAutomation, changes: Changes) -> NewAutomation:
    """Only what was said: the rest stays as it is."""
    values = {key: getattr(changes, key) for key in _PLAIN if getattr(changes, key) is not None}
    if changes.workspace or changes.role is not None:
        values["workspace_dir"] = registration.workspace_dir(home, new.name)
    if changes.peers:
        values["peer_workspaces"] = registration.peer_dirs(home, changes.peers)
    if changes.triggers is not None:
        values["triggers"] = changes.triggers
    said = {
        key: value for key, value in (("cron", changes.cron), ("zone", changes.zone)) if value is not None
    }
    if said:
        triggers = changes.triggers or new.triggers
        values |= {"hook_point": hook_points.SCHEDULE, "blocking": False, "triggers": {**triggers, **said}}
    own = {
        script.VARIABLES: list(changes.variables) or None,
        script.SANDBOX: changes.sandbox,
        script.LEDGERS: changes.ledgers,
    }
    stated = {key: value for key, value in own.items() if value is not None}
    return replace(new, **values, config={**new.config, **(changes.config or {}), **stated})
