"""Loading at startup: everything that may run becomes a row of the one table, or says why it cannot.

This waits for the disk: in a program with an event loop it belongs on a thread.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import ParamSpec

from nexus.automations import registration
from nexus.automations.context import Handler
from nexus.automations.loading import hook_md, hooks, plugin
from nexus.automations.loading.plugin import Plugin
from nexus.automations.registration import Write
from nexus.automations.scripts import checked, script
from nexus.automations.scripts.checked import IN_PROCESS
from nexus.automations.workspace import workspace
from nexus.errors import AutomationError
from nexus.home import Home
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation
from nexus.skills import folder

P = ParamSpec("P")


@dataclass(kw_only=True)
class Loaded:
    """What was loaded: the code that may run in this process, and what could not be loaded."""

    handlers: dict[str, Handler] = field(default_factory=dict[str, Handler])
    off: dict[str, str] = field(default_factory=dict[str, str])
    """Code that does not run in this process, by its script path, and why."""
    problems: list[str] = field(default_factory=list[str])


def load(home: Home, write: Write, bundled: Iterable[Plugin] = ()) -> Loaded:
    """Bring the table up to date with what lies in the home and what is installed."""
    loaded = Loaded()
    plugins, problems = plugin.installed()
    loaded.problems += problems
    for each in (*bundled, *plugins):
        loaded.handlers[each.script_path] = each.run
        if each.off is not None:
            loaded.off[each.script_path] = each.off
        _attempt(loaded, f"plugin {each.name}", _seed, home, write, each)
    found, problems = hook_md.found(home.state / "hooks")
    loaded.problems += problems
    for hook in found:
        _attempt(loaded, str(hook.folder), hooks.sync, home, write, hook)
    for row in write(automations.listed):
        _attempt(loaded, row.name, _adopt, home, write, row)
    return loaded


def _attempt(
    loaded: Loaded, what: str, step: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs
) -> None:
    try:
        step(*args, **kwargs)
    except AutomationError as error:
        loaded.problems.append(f"{what}: {error.message}")


def _seed(home: Home, write: Write, each: Plugin) -> None:
    """Once; later only where nobody has changed, disabled or removed it."""
    versions: list[Automation] = write(automations.versions, name=each.name)
    standing = next((row for row in versions if row.status != "superseded"), None)
    peers = tuple(registration.workspace_dir(home, name) for name in each.peers)
    new = each.registration(registration.workspace_dir(home, each.name), peers)
    if each.workspace and each.role is not None:
        # Before the registration, which lays a ROLE.md that says less where there is none.
        folder.seed_files(home.meeseeks / each.name, {workspace.ROLE: each.role})
    if not versions:
        off = None if each.enabled else "off by default"
        registration.register(home, write, replace(new, disabled_reason=off))
    elif standing is not None and plugin.is_as_seeded(standing) and standing.script_hash != new.script_hash:
        registration.register(home, write, replace(new, disabled_reason=standing.disabled_reason))


def _adopt(home: Home, write: Write, row: Automation) -> None:
    """A row from before hashes were kept: its script is taken as it lies there."""
    path = row.script_path or ""
    if row.status == "active" and row.script_hash is None and path and not path.startswith(IN_PROCESS):
        found = script.read(checked.place(home, path))
        write(automations.adopt, automation_id=row.id, script_hash=found.hash)
