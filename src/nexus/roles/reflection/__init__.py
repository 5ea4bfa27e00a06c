"""Reflection: a question answered from the memory, with sources, and kept as a mental model if so wished."""

from nexus.roles.reflection.reflection import Asking, reflect, refresh

__all__ = ["Asking", "reflect", "refresh"]
