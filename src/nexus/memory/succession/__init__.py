"""Which fact replaced which: links derived from the log, beside it, and rebuilt from it at any time."""

from nexus.memory.succession.derivation import State, derive, rebuild, state

__all__ = ["State", "derive", "rebuild", "state"]
