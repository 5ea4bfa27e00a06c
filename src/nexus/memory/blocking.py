"""The keys by which near names are found among very many: how each of their words begins and ends.

Two names that differ by one slip of the pen share at least one key, unless it sits in the middle of
their only, short word.
"""

import re
from typing import Final

_WORD = re.compile(r"\w+")
_LETTERS: Final = 3


def keys(normalized: str) -> set[str]:
    """The keys of a normalised name: `^sar` and `rah$` of `sarah`; the whole of a short word."""
    found: set[str] = set()
    for word in _WORD.findall(normalized):
        if len(word) < _LETTERS:
            found.add(f"^{word}$")
        else:
            found |= {f"^{word[:_LETTERS]}", f"{word[-_LETTERS:]}$"}
    return found
