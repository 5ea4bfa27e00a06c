"""Registering an automation: its script kept, its settings checked, a new version where something changed.

Every registered version of a script is kept under its hash, so that one can go back to it.

These functions wait for the disk: in a program with an event loop they belong on a thread.
"""

import ast
import asyncio
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

import apsw

from nexus import config, ids
from nexus.automations import hook_points, registry, workspace
from nexus.automations.scripts import script
from nexus.automations.scripts.script import IN_PROCESS, Script
from nexus.config import AutomationsConfig
from nexus.errors import AutomationError, ScriptError, UnknownAutomationError
from nexus.home import PRIVATE_DIRECTORY, Home
from nexus.ledgers import Ledgers
from nexus.ledgers.database import Work
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation, NewAutomation

P = ParamSpec("P")
T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,79}")
MOST_RETRIES = 20
_NOT_KEPT = shutil.ignore_patterns("__pycache__", ".git")


@dataclass(frozen=True, kw_only=True)
class Registered:
    """What came of a registration."""

    automation: Automation
    is_new: bool
    """False: nothing had changed, and the version that was there stands."""
    replaced_role: bool = False
    """Whether another ROLE.md was in its workspace before."""


class Write(Protocol):
    """Runs a query in a transaction, and waits for it."""

    def __call__(self, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...


def writer(ledgers: Ledgers) -> Write:
    """Writes to the runtime ledger, for a thread beside the event loop that this is called in."""
    loop = asyncio.get_running_loop()

    def write(work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return asyncio.run_coroutine_threadsafe(ledgers.runtime.write(work, *args, **kwargs), loop).result()

    return write


def check(new: NewAutomation, settings: AutomationsConfig | None = None) -> None:
    """Refuse what could never run or would run otherwise than it was meant."""
    if not _NAME.fullmatch(new.name):
        raise AutomationError(
            f"Invalid automation name: {new.name!r}",
            hint="Use up to 80 letters, digits and `-`.",
        )
    hook_points.get(new.hook_point)
    hook_points.check(new)
    script.read_variables(new.config)
    if script.is_sandboxed(new) and new.script_path.startswith(IN_PROCESS):
        raise AutomationError(
            "Only scripts can be sandboxed; this is code of an installed package",
            hint="Leave out `--sandbox`.",
        )
    if script.reads_ledgers(new) and new.workspace_dir is None:
        raise AutomationError(
            "Only agents of an automation with a workspace read the ledgers", hint="Add `--workspace`."
        )
    if new.self_improvement and new.workspace_dir is None:
        raise AutomationError("Self-improvement needs a workspace", hint="Add `--workspace`.")
    if new.peer_workspaces and new.workspace_dir is None:
        raise AutomationError("Peers need a workspace", hint="Add `--workspace`.")
    if not 0 <= new.retries <= MOST_RETRIES:
        raise AutomationError(f"An automation may have 0 to {MOST_RETRIES} retries, not {new.retries}")
    if new.timeout_ms is not None and new.timeout_ms < 1:
        raise AutomationError("The timeout must be at least 1 ms")
    if settings is not None and (cut := cut_timeout(new, settings)):
        point = hook_points.get(new.hook_point)
        raise AutomationError(
            f"{cut}: all blocking automations there share that time",
            hint=f"Choose a shorter --timeout, raise `{point.budget}` below [automations] in config.toml, "
            "or register it with --async.",
        )


def cut_timeout(automation: NewAutomation | Automation, settings: AutomationsConfig) -> str | None:
    """By which numbers its own time-out would be cut short; None where it would not."""
    point = hook_points.find(automation.hook_point)
    if point is None or not automation.blocking or automation.timeout_ms is None:
        return None
    budget_ms = point.budget_ms(settings)
    if automation.timeout_ms <= budget_ms:
        return None
    return f"Its time-out of {automation.timeout_ms:,} ms exceeds the {budget_ms:,} ms of {point.name}"


def bring_in(home: Home, name: str, file: Path) -> Script:
    """Put a script into the home, unless it lies there already; returns it as it will run."""
    found = script.read(file.expanduser().absolute())
    check_source(found)
    if not found.path.is_relative_to(home.state / "hooks"):
        target = home.scripts / f"{name}{found.path.suffix}"
        if found.folder is not None:
            target = home.state / "hooks" / name / found.path.name
            _replace_tree(found.folder, target.parent)
        else:
            _replace_file(found.path, target)
        found = script.read(target)
    _keep_version(home, found)
    return found


def check_source(found: Script) -> None:
    """Refuse a Python script that cannot be loaded or has no `run`."""
    if found.source is None:
        return
    try:
        body = ast.parse(found.source, str(found.path)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ScriptError(f"{found.path.name} is not valid Python: {error}") from error
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    imported = {
        alias.asname or alias.name
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    if "run" not in defined | imported:
        raise ScriptError(
            f"{found.path.name} has no function `run(ctx)`",
            hint="See an example with `nexus automations new NAME`.",
        )


def register(home: Home, write: Write, new: NewAutomation) -> Registered:
    """Record a version where it differs from the one that stands.

    A script that an agent wrote runs in a sandbox, unless the registration says otherwise.
    """
    if new.created_by_agent and script.SANDBOX not in new.config:
        new = replace(new, config={**new.config, script.SANDBOX: True})
    is_own = new.script_path.startswith(IN_PROCESS)
    check(new, None if is_own else config.load(home.config_file).automations)
    registered: Registered = write(_register, new=new)
    if new.workspace_dir is not None:
        place = workspace.locate(home.meeseeks, new.workspace_dir)
        workspace.bootstrap(place, f"# {new.name}\n\n{new.description or ''}".rstrip() + "\n")
    if registered.is_new:
        registry.touch(home)
    return registered


def _register(connection: apsw.Connection, new: NewAutomation) -> Registered:
    standing = automations.get(connection, new.name)
    if standing is not None and is_same(standing, new) and standing.disabled_reason == new.disabled_reason:
        return Registered(automation=standing, is_new=False)
    return Registered(automation=automations.register(connection, new), is_new=True)


def is_same(standing: Automation, new: NewAutomation) -> bool:
    """Whether a version is registered as this would be."""
    return settings_of(standing) == replace(new, disabled_reason=None)


def settings_of(automation: Automation) -> NewAutomation:
    """A version's settings, to be registered again, whole or with changes."""
    names = [field.name for field in fields(NewAutomation) if field.name != "disabled_reason"]
    values: dict[str, Any] = {name: getattr(automation, name) for name in names}
    return NewAutomation(**values)


def workspace_dir(home: Home, name: str) -> str:
    """Under which path the workspace of an automation is recorded."""
    return f"{home.meeseeks / name}/"


def peer_dirs(home: Home, peers: Iterable[str]) -> tuple[str, ...]:
    """Under which paths the workspaces of peers are recorded; a peer that has none is refused."""
    for peer in peers:
        place = home.meeseeks / peer
        if not _NAME.fullmatch(peer) or not place.is_dir():
            known = sorted(each.name for each in home.meeseeks.glob("*/") if not each.name.startswith("."))
            raise AutomationError(
                f"No automation workspace named `{peer}`",
                hint=f"Known: {', '.join(known) or 'none'}. Register that one first, with `--workspace`.",
            )
    return tuple(workspace_dir(home, peer) for peer in peers)


def roll_back(home: Home, write: Write, name: str, version: int | None) -> Automation:
    """Register an older version anew: its script, as it was kept, and its settings."""
    versions: list[Automation] = write(automations.versions, name=name)
    if not versions:
        raise unknown_automation(name)
    # One that was removed comes back as it was; otherwise the version that stands is not an older one.
    earlier = versions if versions[0].status == "superseded" else versions[1:]
    older = [each for each in earlier if version is None or each.version == version]
    if not older:
        wanted = "an older version" if version is None else f"a version {version} before the one that stands"
        raise AutomationError(
            f"`{name}` has not got {wanted}",
            hint=f"See `nexus automations history {name}`.",
        )
    new = settings_of(older[0])
    if new.script_hash and not new.script_path.startswith(IN_PROCESS):
        _restore_version(home, script.locate(home, new.script_path), new.script_hash)
    made: Automation = write(automations.register, new=new)
    registry.touch(home)
    return made


def approve(home: Home, write: Write, row: Automation, *, trust: bool = False) -> None:
    """Enable an imported automation, if its script is still the one that was imported.

    Without `trust` its script runs in a sandbox from now on.
    """
    if not (row.script_path or "").startswith(IN_PROCESS):
        if row.script_hash is None:
            found = script.read(script.locate(home, row.script_path or ""))
            write(automations.adopt, automation_id=row.id, script_hash=found.hash)
        else:
            script.read_registered(home, row)
    write(automations.enable, automation_id=row.id)
    if not trust and not (row.script_path or "").startswith(IN_PROCESS):
        standing = write(automations.get, name=row.name) or row
        config = {**standing.config, script.SANDBOX: True}
        write(automations.register, new=replace(settings_of(standing), config=config))
    registry.touch(home)


def kept_source(home: Home, version: Automation) -> str:
    """The text of a version's script, as it was kept when it was registered."""
    recorded = version.script_path or ""
    if not version.script_hash or recorded.startswith(IN_PROCESS):
        raise AutomationError(f"`{version.name}` runs code of an installed package")
    folder = kept_folder(home, version.script_hash)
    file = folder / script.locate(home, recorded).name
    if not file.is_file() and not (folder / script.HOOK_FILE).is_file():
        # Kept under the name of another automation with the same text.
        file = next(folder.iterdir(), file)
    return file.read_text(encoding="utf-8")


def check_approved(row: Automation) -> None:
    """Refuse one that an agent proposed or an import brought until somebody has approved it."""
    if row.disabled_reason in {automations.IMPORTED, automations.PROPOSED}:
        hint = f"Approve it with `nexus automations approve {row.name}`."
        raise AutomationError(f"`{row.name}` waits for approval", hint=hint)


def unknown_automation(name: str) -> UnknownAutomationError:
    return UnknownAutomationError(
        f"Unknown automation `{name}`", hint="To see the names: `nexus automations list`."
    )


def kept_folder(home: Home, hash_: str) -> Path:
    """Where the version of a script with that hash is kept."""
    return home.state / "hooks" / ".versions" / hash_


def _keep_version(home: Home, found: Script) -> None:
    place = kept_folder(home, found.hash)
    if place.exists():
        return
    place.parent.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    building = place.with_name(ids.new("new"))
    if found.folder is not None:
        shutil.copytree(found.folder, building, ignore=_NOT_KEPT)
    else:
        building.mkdir(mode=PRIVATE_DIRECTORY)
        shutil.copy2(found.path, building / found.path.name)
    building.rename(place)


def _restore_version(home: Home, path: Path, hash_: str) -> None:
    folder = kept_folder(home, hash_)
    if not folder.is_dir():
        raise AutomationError(f"The script of that version was not kept at {folder}")
    if (folder / script.HOOK_FILE).is_file():
        _replace_tree(folder, path.parent)
    else:
        _replace_file(next(folder.iterdir()), path)
    if script.read(path).hash != hash_:
        raise AutomationError(f"The copy at {folder} doesn't match the registered version")


def _replace_file(source: Path, target: Path) -> None:
    building = target.with_name(f".{ids.new('new')}")
    shutil.copy2(source, building)
    building.replace(target)


def _replace_tree(source: Path, target: Path) -> None:
    building = target.with_name(f".{ids.new('new')}")
    shutil.copytree(source, building, ignore=_NOT_KEPT)
    if target.exists():
        gone = target.with_name(f".{ids.new('old')}")
        target.rename(gone)
        building.rename(target)
        shutil.rmtree(gone)
    else:
        building.rename(target)
