"""Small, explicit factors beside relevance: how new, how stale, how sure and how trusted a thing is.

Each adds its weight times a number from 0 to 1 to the score. They are small against the ranker's scores:
they decide between things that answer equally well, and they never make an irrelevant one relevant.
"""

from datetime import datetime
from typing import Final

from nexus import clock
from nexus.memory.recall.item import Item

# After so long a thing's newness has halved.
_HALF_LIFE_DAYS: Final = 90.0
# How far a fact is believed by the way it was learned. What was said is itself; it needs no belief.
_TRUST: Final = {"self_disclosed": 1.0, "observed": 0.9, "mentioned": 0.8, "inferred": 0.5}


def of(item: Item, now: datetime, weights: dict[str, float]) -> dict[str, float]:
    """What each factor adds to the item's score."""
    values = {
        "recency": 0.5 ** (age_days(item, now) / _HALF_LIFE_DAYS),
        "stale": float(item.stale_since is not None),
        "unsure": 1.0 - item.confidence,
        "distrust": 1.0 - _TRUST.get(item.source_type or "self_disclosed", 0.8),
    }
    return {name: weight * values[name] for name, weight in weights.items()}


def age_days(item: Item, now: datetime) -> float:
    """How old a thing is; what lies in the future is new."""
    return max(0.0, (now - clock.parse(item.at)).total_seconds() / 86_400)
