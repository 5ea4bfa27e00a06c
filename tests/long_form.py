"""How often random tests repeat: a few times in `scripts/check`, often with NEXUS_LONG=1."""

import os

_IS_LONG = bool(os.environ.get("NEXUS_LONG"))


def times(short: int, *, long: int) -> int:
    """A number of repetitions, kills or examples."""
    return long if _IS_LONG else short
