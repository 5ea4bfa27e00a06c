"""The owner's profile: a short, versioned summary that every agent of the owner is told."""

from nexus.memory.profile.profile import OwnerProfile
from nexus.memory.profile.versions import MAX_TOKENS, Line, NewVersion, Version, newest

__all__ = ["MAX_TOKENS", "Line", "NewVersion", "OwnerProfile", "Version", "newest"]
