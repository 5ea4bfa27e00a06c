"""The folders in which automations keep their role, their skills and what they have learned."""

from nexus.automations.workspace.workspace import Folder, Peer, Workspace

__all__ = ["Folder", "Peer", "Workspace"]
