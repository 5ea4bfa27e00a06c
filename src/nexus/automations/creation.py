"""Making an automation out of a role: its script, its workspace and its row, from what a person says.

These functions wait for the disk: in a program with an event loop they belong on a thread.
"""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from nexus import config
from nexus.automations import hook_points, registration, template
from nexus.automations.hook_points import HookPoint
from nexus.automations.registration import Registered, Write
from nexus.automations.scripts import checked
from nexus.automations.workspace import workspace
from nexus.errors import AutomationError
from nexus.home import Home
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import NewAutomation


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What somebody wants: an agent with a role, that runs at a hook point."""

    name: str
    role: str
    """The text of its ROLE.md."""
    hook_point: str
    blocking: bool
    peers: tuple[str, ...] = ()
    description: str | None = None
    result: str = ""
    """Where its answer goes: one of `template.results`. Empty: what most people mean there."""
    timeout_ms: int | None = None
    self_improvement: bool = False
    ledgers: bool = False
    """Whether it reads the ledgers."""
    cron: str | None = None
    """When it runs by the clock, at the hook point `schedule`."""
    zone: str | None = None


def create(home: Home, write: Write, wish: Wish) -> Registered:
    """Write its script from the template, make its workspace and register it."""
    point = hook_points.get(wish.hook_point)
    if not wish.role.strip():
        raise AutomationError("The role is empty", hint="Describe its task in ROLE.md.")
    result = _result(wish, point)
    new = _settings(home, wish)
    registration.check(new, config.load(home.config_file).automations)
    if write(automations.get, wish.name) is not None:
        raise AutomationError(
            f"Automation `{wish.name}` already exists",
            hint=f"Choose another name, or edit the ROLE.md of its workspace at {new.workspace_dir}.",
        )
    folder = Path(tempfile.mkdtemp())
    try:
        file = folder / f"{wish.name}.py"
        file.write_text(template.agent(wish.name, point, result), encoding="utf-8")
        brought = registration.bring_in(home, wish.name, file)
    finally:
        shutil.rmtree(folder)
    workspace.bootstrap(home.meeseeks / wish.name, wish.role.rstrip() + "\n")
    new = replace(new, script_path=str(brought.path), script_hash=brought.hash)
    return registration.register(home, write, new)


def _result(wish: Wish, point: HookPoint) -> template.Result:
    possible = template.results(point)
    usual: template.Result = possible[0] if wish.blocking or possible[0] != "context" else "file"
    named: list[template.Result] = [each for each in possible if each == wish.result]
    chosen = usual if not wish.result else named[0] if named else None
    if chosen is None:
        raise AutomationError(
            f"An agent's answer at {point.name} can't go to `{wish.result}`",
            hint=f"Choose one of {', '.join(possible)}.",
        )
    if chosen == "context" and not wish.blocking:
        raise AutomationError(
            "An agent's answer reaches another agent only if that one waits for it",
            hint="Make it blocking, or choose another result.",
        )
    return chosen


def _settings(home: Home, wish: Wish) -> NewAutomation:
    return NewAutomation(
        name=wish.name,
        script_path="",
        script_hash=None,
        hook_point=wish.hook_point,
        triggers={key: value for key, value in (("cron", wish.cron), ("zone", wish.zone)) if value},
        config={checked.LEDGERS: True} if wish.ledgers else {},
        timeout_ms=wish.timeout_ms,
        self_improvement=wish.self_improvement,
        description=wish.description or None,
        workspace_dir=registration.workspace_dir(home, wish.name),
        peer_workspaces=registration.peer_dirs(home, wish.peers),
        blocking=wish.blocking,
    )
