"""Citations in the text of a conclusion: which sources it names, and which of them hold what it says."""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

from nexus.memory.conclusions import support

# `[fact_01…]` or `[fact_01…, obs_01…]`; and an id that stands in the text without brackets.
_CITATION: Final = re.compile(
    r"(?<![ \t])[ \t]*\[((?:fact|obs|mod)_[^\]\n]*)\]|(?<![\w\[])((?:fact|obs|mod)_[0-9A-Za-z]{8,})"
)
_BETWEEN: Final = re.compile(r"[\s,;]+")
_END: Final = re.compile(r"(?<=[.!?])\s+|\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cited:
    """An answer whose every citation leads to something that was retrieved."""

    text: str
    ids: tuple[str, ...]
    """In the order in which they are first cited."""
    removed: tuple[str, ...]
    """What was cited and not retrieved, and is not in the text any more."""


def cited_ids(text: str) -> tuple[str, ...]:
    """The ids that a text cites, each once, in order."""
    cited = (id_ for match in _CITATION.finditer(text) for id_ in _BETWEEN.split(match[1] or match[2]))
    return tuple(dict.fromkeys(filter(None, cited)))


def check_citations(text: str, retrieved: Mapping[str, str] | Set[str]) -> Cited:
    """The answer with only such citations as were retrieved.

    Given what each retrieved thing says, a citation must also support the names and numbers before it: one
    that is off is put right if exactly one retrieved thing fits, and taken out otherwise.
    """
    shown: Mapping[str, str] = retrieved if isinstance(retrieved, Mapping) else {}
    # An answer that recites an example says nothing about the memory.
    is_recited = support.copies_placeholder(text)
    kept: dict[str, None] = {}
    removed: dict[str, None] = {}
    ends = [0]

    def supported(statement: str, cited: list[str]) -> list[str]:
        known = [id_ for id_ in cited if id_ in retrieved]
        if is_recited or not shown or not known:
            return [] if is_recited else known
        right = support.repaired(statement, known, shown)
        return [] if right is None else list(right.fact_ids)

    def sorted_out(match: re.Match[str]) -> str:
        cited = [id_ for id_ in _BETWEEN.split(match[1] or match[2]) if id_]
        # What a citation stands behind: its sentence, after the citation before it.
        found = supported(_END.split(text[ends[-1] : match.start()])[-1], cited)
        ends.append(match.end())
        kept.update(dict.fromkeys(found))
        removed.update(dict.fromkeys(id_ for id_ in cited if id_ not in found))
        told = ", ".join(found)
        return f" [{told}]" if told and match[1] else told

    cleaned = _CITATION.sub(sorted_out, text)
    return Cited(text=cleaned.strip(), ids=tuple(kept), removed=tuple(removed))
