"""Which fact replaced which: links derived from the log, beside it, and rebuilt from it at any time."""

from nexus.memory.succession.derivation import Rival, State, derive, find_rivals, rebuild, state

__all__ = ["Rival", "State", "derive", "find_rivals", "rebuild", "state"]
