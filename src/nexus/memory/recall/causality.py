"""Why: causes right behind what they caused."""

from collections.abc import Sequence
from dataclasses import replace

from nexus.memory.recall.selection import Ranked

# What is far down the order does not pull its causes up.
_EFFECTS = 10
_BEHIND = 1e-6


def order(ranked: Sequence[Ranked], *, asks_why: bool) -> list[Ranked]:
    """The same candidates; asked why, the causes of each of the best come right behind it.

    A cause that is ahead of its effect stays there. The two answer together: both are strong if one is.
    """
    if not asks_why:
        return list(ranked)
    by_id = {entry.item.id: entry for entry in ranked}
    ordered: dict[str, Ranked] = {}
    for place, entry in enumerate(ranked):
        here = ordered.setdefault(entry.item.id, entry)
        for link in here.item.caused_by if place < _EFFECTS else ():
            cause = by_id.get(link.id)
            if cause is None or link.id in ordered:
                continue
            surest = max(here.probability, cause.probability)
            is_strong = here.strong or cause.strong
            here = ordered[here.item.id] = replace(here, probability=surest, strong=is_strong)
            score = max(cause.score, here.score - _BEHIND)
            ordered[link.id] = replace(cause, score=score, probability=surest, strong=is_strong)
    return list(ordered.values())
