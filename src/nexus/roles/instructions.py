"""What a role is told of itself: its ROLE.md, what it has learned, and the notes of its peers."""

import contextlib
from collections.abc import Iterator

from nexus.automations.workspace import Peer, Workspace
from nexus.automations.workspace.workspace import ERRORS, PATTERNS, SKILLS, notes_for
from nexus.context.wrapping import wrapped
from nexus.errors import WorkspaceError

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
