"""Making an automation out of a role: its script, its workspace and its row, from what a person says.

These functions wait for the disk: in a program with an event loop they belong on a thread.
"""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from nexus.automations import hook_points, registration, template
from nexus.automations.registration import Registered, Write
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


def create(home: Home, write: Write, wish: Wish) -> Registered:
    """Write its script from the template, make its workspace and register it."""
    point = hook_points.get(wish.hook_point)
    if not wish.role.strip():
        raise AutomationError("An agent needs a role", hint="Say in ROLE.md what it is to do, and how.")
    new = _settings(home, wish)
    registration.check(new)
    if write(lambda connection: automations.get(connection, wish.name)) is not None:
        raise AutomationError(
            f"There is an automation `{wish.name}` already",
            hint=f"Choose another name, or edit the ROLE.md of its workspace at {new.workspace_dir}.",
        )
    folder = Path(tempfile.mkdtemp())
    try:
        file = folder / f"{wish.name}.py"
        file.write_text(template.agent(wish.name, point), encoding="utf-8")
        brought = registration.bring_in(home, wish.name, file)
    finally:
        shutil.rmtree(folder)
    workspace.bootstrap(home.meeseeks / wish.name, wish.role.rstrip() + "\n")
    new = replace(new, script_path=str(brought.path), script_hash=brought.hash)
    return registration.register(home, write, new)


def _settings(home: Home, wish: Wish) -> NewAutomation:
    return NewAutomation(
        name=wish.name,
        script_path="",
        script_hash=None,
        hook_point=wish.hook_point,
        description=wish.description or None,
        workspace_dir=registration.workspace_dir(home, wish.name),
        peer_workspaces=tuple(registration.workspace_dir(home, peer) for peer in wish.peers),
        blocking=wish.blocking,
    )
