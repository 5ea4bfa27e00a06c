"""Whether one fact replaces another: a calibrated sum over the features of the pair.

The weights are learned from the lives in `bench/lives` by `bench/successions.py`, which also measures them
on each life after learning from the others.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from nexus.memory.succession.pairs import Nearness, Statement, features, restates

# The lives don't have relation types, so these weights are not learned.
_SAME_RELATION: Final = 1.0
_OTHER_RELATION: Final = -1.5
_SAME_RELATION_AND_TARGET: Final = -0.5
# A fact that was said to hold until then needs less to be replaced.
_ENDED: Final = 2.0


@dataclass(frozen=True, slots=True)
class Judge:
    """Weights by the name of the feature, and from which probability a pair is a replacement."""

    version: str
    bias: float
    weights: Mapping[str, float]
    threshold: float

    def probability(self, old: Statement, new: Statement, near: Nearness) -> float:
        """How likely it is that `new` replaces `old`, the earlier one of the two."""
        if restates(old, new) or (old.event_id is not None and old.event_id == new.event_id):
            return 0.0
        values = features(old, new, near)
        logit = self.bias + sum(weight * values[name] for name, weight in self.weights.items())
        logit += _by_relation(old, new)
        if old.valid_until is not None and old.valid_until <= new.at:
            logit += _ENDED
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))


@cache
def load() -> Judge:
    """The judge that ships with Nexus."""
    data = json.loads(Path(__file__).with_name("weights.json").read_text(encoding="utf-8"))
    return Judge(data["version"], data["bias"], data["weights"], data["threshold"])


def _by_relation(old: Statement, new: Statement) -> float:
    one, two = old.relation_type, new.relation_type
    if one is None or two is None:
        return 0.0
    if one.casefold() != two.casefold():
        return _OTHER_RELATION
    same_target = old.target is not None and old.target == new.target
    return _SAME_RELATION + (_SAME_RELATION_AND_TARGET if same_target else 0.0)
