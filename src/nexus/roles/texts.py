"""What a role is told to be: its ROLE.md, in the package and, for people to edit, in its workspace."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from nexus.automations.workspace import Folder
from nexus.automations.workspace.workspace import ROLE
from nexus.errors import WorkspaceError
from nexus.skills.folder import seed_files

if TYPE_CHECKING:
    from nexus.home import Home

WITHOUT_AUTOMATION: Final[Mapping[str, str]] = {
    name: f"nexus.roles.{name}" for name in ("consolidation", "reflection")
}
"""The roles that are no automations, and their packages. A workspace is seeded for each all the same."""


@cache
def role_text(package: str) -> str:
    """The ROLE.md of a package."""
    return resources.files(package).joinpath("ROLE.md").read_text(encoding="utf-8").strip()


def role_of(home: "Home", name: str) -> str:
    """The ROLE.md of a role that is no automation, as its workspace has it. Waits for the disk."""
    try:
        text = Folder(home.meeseeks / name).read(ROLE).strip()
    except WorkspaceError:
        text = ""
    return text or role_text(WITHOUT_AUTOMATION[name])


def seed_roles(home: "Home") -> None:
    """Lay the ROLE.md of these roles into their workspaces; one that was edited stays. Waits for the disk."""
    for name, package in WITHOUT_AUTOMATION.items():
        seed_files(home.meeseeks / name, {ROLE: role_text(package)})
