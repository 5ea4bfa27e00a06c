"""What a role is told to be: its ROLE.md, in the package and, for people to edit, in its workspace."""

import contextlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from nexus.automations.workspace import Folder, Peer, Workspace
from nexus.automations.workspace.workspace import ERRORS, PATTERNS, ROLE, SKILLS, notes_for
from nexus.context.wrapping import wrapped
from nexus.errors import WorkspaceError
from nexus.skills.folder import install_files

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
        install_files(home.meeseeks / name, {ROLE: role_text(package)})


# What a peer has learned of its own work is worth knowing; the rest of its folder can be read.
_OF_PEERS = (SKILLS, ERRORS)
_MOST_CHARACTERS = 6_000


def role_context(workspace: Workspace, name: str, *, is_owners: bool, further: str = "") -> str:
    """The text between the shared prompt and the task. Reads files: call it on a thread.

    What was learned and noted may quote the owner's conversations: it is told in these alone.
    """
    role = "\n\n".join(filter(None, (workspace.role.strip(), further)))
    return "\n\n".join(filter(None, (wrapped("role", role), learned(workspace, name) if is_owners else "")))


def learned(workspace: Workspace, name: str) -> str:
    """What a role has learned of its work, and what its peers left for it. Reads files."""
    return "\n\n".join([*_learned(workspace), *_noted(workspace, name)])


def _learned(workspace: Workspace) -> Iterator[str]:
    for file in (SKILLS, PATTERNS, ERRORS):
        text = _text(workspace, file)
        if text:
            yield wrapped("learned", text, file=file)


def _noted(workspace: Workspace, name: str) -> Iterator[str]:
    for peer in workspace.peers.values():
        for file in (notes_for(name), *_OF_PEERS):
            text = _text(peer, file)
            if text:
                yield wrapped("notes", text, of=peer.name, file=file)


def _text(folder: Workspace | Peer, file: str) -> str:
    """A file's text; nothing for one that is missing or holds no more than its heading."""
    with contextlib.suppress(WorkspaceError):
        text = folder.read_file(file).strip()
        return text[:_MOST_CHARACTERS] if len(text.splitlines()) > 1 else ""
    return ""
