"""The folders in which automations keep their role, their skills and what they have learned."""

from nexus.automations.workspace.folder import Folder
from nexus.automations.workspace.workspace import Peer, Workspace

__all__ = ["Folder", "Peer", "Workspace"]
