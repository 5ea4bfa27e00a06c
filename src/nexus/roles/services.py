"""What a home offers to the roles that work for it."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final, Protocol

from nexus.automations.workspace import ERRORS, PATTERNS, ROLE, SKILLS, Folder, Peer, Workspace, notes_for
from nexus.context.wrapping import wrapped
from nexus.errors import WorkspaceError
from nexus.skills.folder import install_files

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from nexus.broker.broker import Broker
    from nexus.config import Config
    from nexus.engine import Engine
    from nexus.home import Home
    from nexus.ledgers import Ledgers
    from nexus.memory.gate import Rules
    from nexus.memory.operations import Memory
    from nexus.memory.recall.recall import Recall
    from nexus.memory.writing import Provenance
    from nexus.request import Visibility
    from nexus.skills.memory_socket import MemorySocket

# For types alone: a command that only lists automations loads neither the engine nor the agent library.


class OpenRecall(Protocol):
    """Gives the memory, ready to be asked, as far as it may be seen, without some messages."""

    def __call__(self, visible: "Visibility" = ..., without: frozenset[str] = ...) -> "Awaitable[Recall]": ...


class OpenMemorySocket(Protocol):
    """A socket of its own for one principal, through which it writes and recalls."""

    def __call__(
        self,
        name: str,
        provenance: "Provenance",
        *,
        writes: bool = True,
        rules: "Rules | None" = None,
        visible: "Visibility" = ...,
    ) -> "MemorySocket": ...


@dataclass(frozen=True, kw_only=True)
class Services:
    """The services of an open home."""

    home: "Home"
    config: "Config"
    ledgers: "Ledgers"
    engine: "Engine"
    memory: "Memory"
    broker: "Broker"
    open_recall: OpenRecall
    memory_socket: OpenMemorySocket


WITHOUT_AUTOMATION: Final[Mapping[str, str]] = {
    name: f"nexus.roles.{name}" for name in ("consolidation", "reflection")
}
"""The roles that are no automations, and their packages. A workspace is seeded for each all the same."""


@cache
def role_text(package: str) -> str:
    """Load the ROLE.md of a package."""
    return resources.files(package).joinpath("ROLE.md").read_text(encoding="utf-8").strip()


def load_role(home: "Home", name: str) -> str:
    """Load the ROLE.md of a role that is no automation, as its workspace has it. Waits for the disk."""
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


def write_role_context(workspace: Workspace, name: str, *, is_owners: bool, further: str = "") -> str:
    """Write the text between the shared prompt and the task. Reads files: call it on a thread.

    What was learned and noted may quote the owner's conversations: it is told in these alone.
    """
    role = "\n\n".join(filter(None, (workspace.role.strip(), further)))
    return "\n\n".join(
        filter(None, (wrapped("role", role), load_lessons(workspace, name) if is_owners else ""))
    )


def load_lessons(workspace: Workspace, name: str) -> str:
    """Load what a role has learned of its work, and what its peers left for it. Reads files."""
    lessons = [
        wrapped("learned", text, file=file)
        for file in (SKILLS, PATTERNS, ERRORS)
        if (text := _read_text(workspace, file))
    ]
    notes = [
        wrapped("notes", text, of=peer.name, file=file)
        for peer in workspace.peers.values()
        for file in (notes_for(name), *_OF_PEERS)
        if (text := _read_text(peer, file))
    ]
    return "\n\n".join([*lessons, *notes])


def _read_text(folder: Workspace | Peer, file: str) -> str:
    """Read a file's text; nothing for one that is missing or holds no more than its heading."""
    with contextlib.suppress(WorkspaceError):
        text = folder.read_file(file).strip()
        return text[:_MOST_CHARACTERS] if len(text.splitlines()) > 1 else ""
    return ""
