"""Which of the facts that a new one may replace it does replace. Pure functions, no ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nexus.memory.succession.judge import Judge
from nexus.memory.succession.pairs import Nearness, Statement, restates

# Being the nearest of a few facts says little: then the lead counts only so far.
_FEW_RIVALS: Final = 8
_LEAD_AMONG_FEW: Final = 1.0


@dataclass(frozen=True, slots=True)
class Link:
    """A fact's successor."""

    new_id: str
    confidence: float
    stated: bool = False


def links(
    fact: Statement,
    others: Sequence[Statement],
    closeness: Mapping[str, float],
    known: Mapping[str, Link],
    judge: Judge,
) -> dict[str, Link]:
    """The links that a fact adds or changes, by the id of the older fact.

    `others` are the facts that share an entity or a meaning with it, `known` their links so far. One that
    has a successor gets another only if that is likelier, and if it does not follow the first one anyway.
    """
    found: dict[str, Link] = {}
    chances: dict[str, float] = {}
    for other in others:
        old, new = (other, fact) if other.place < fact.place else (fact, other)
        chances[other.id] = judge.probability(old, new, nearness(fact, other, others, closeness, known))
    likely = {id_ for id_, chance in chances.items() if chance >= judge.threshold}
    for other in others:
        if other.id not in likely or other.place == fact.place:
            continue
        old, new = (other, fact) if other.place < fact.place else (fact, other)
        current = found.get(old.id) or known.get(old.id)
        chance = chances[other.id]
        if current is None or _overtakes(current, new, chance, others, likely, known):
            found[old.id] = Link(new.id, chance)
    return found


def nearness(
    fact: Statement,
    other: Statement,
    others: Sequence[Statement],
    closeness: Mapping[str, float],
    known: Mapping[str, Link],
) -> Nearness:
    """How near a fact is to another one, beside those on the same side of it that have no successor."""
    own, earlier = closeness[other.id], other.place < fact.place
    rivals = [
        rival
        for rival in others
        if rival.id != other.id and rival.id not in known and (rival.place < fact.place) == earlier
    ]
    # One that says the same as it doesn't speak against it.
    nearest = sorted(rivals, key=lambda rival: -closeness[rival.id])
    lead = next((own - closeness[rival.id] for rival in nearest if not _same(rival, other)), _LEAD_AMONG_FEW)
    if len(rivals) < _FEW_RIVALS:
        lead = min(lead, _LEAD_AMONG_FEW)
    rank = 1 + sum(closeness[rival.id] > own for rival in rivals)
    return Nearness(closeness=own, rank=rank, margin=lead)


def _overtakes(
    current: Link,
    new: Statement,
    chance: float,
    others: Sequence[Statement],
    likely: set[str],
    known: Mapping[str, Link],
) -> bool:
    if current.stated or chance <= current.confidence or current.new_id == new.id:
        return False
    following = known.get(current.new_id)
    first = next((other for other in others if other.id == current.new_id), None)
    chained = current.new_id in likely or (following is not None and following.new_id == new.id)
    return not chained and (first is None or not restates(first, new))


def _same(one: Statement, other: Statement) -> bool:
    return restates(one, other) or restates(other, one)
