"""Reflection: a question answered from the memory, with sources, and kept as a mental model if so wished."""

from nexus.roles.reflection.reflection import Asking, Reflected, Source, reflect, refresh

__all__ = ["Asking", "Reflected", "Source", "reflect", "refresh"]
