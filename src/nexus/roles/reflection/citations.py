"""The sources of an answer: what it cites and was retrieved stays, everything else is taken out."""

import re
from collections.abc import Set
from dataclasses import dataclass
from typing import Final

# `[fact_01…]` or `[fact_01…, obs_01…]`; and an id that stands in the text without brackets.
_CITATION: Final = re.compile(
    r"[ \t]*\[((?:fact|obs|mod)_[^\]\n]*)\]|(?<![\w\[])((?:fact|obs|mod)_[0-9A-Za-z]{8,})"
)
_BETWEEN: Final = re.compile(r"[\s,;]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cited:
    """An answer whose every citation leads to something that was retrieved."""

    text: str
    ids: tuple[str, ...]
    """In the order in which they are first cited."""
    removed: tuple[str, ...]
    """What was cited and not retrieved, and is not in the text any more."""


def checked(text: str, retrieved: Set[str]) -> Cited:
    """The answer with only such citations as were retrieved."""
    kept: dict[str, None] = {}
    removed: dict[str, None] = {}

    def sorted_out(match: re.Match[str]) -> str:
        cited = [id_ for id_ in _BETWEEN.split(match[1] or match[2]) if id_]
        for id_ in cited:
            (kept if id_ in retrieved else removed).setdefault(id_)
        found = ", ".join(id_ for id_ in cited if id_ in retrieved)
        return f" [{found}]" if found and match[1] else found

    cleaned = _CITATION.sub(sorted_out, text)
    return Cited(text=cleaned.strip(), ids=tuple(kept), removed=tuple(removed))
