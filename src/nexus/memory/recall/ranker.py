"""The order of the candidates and how sure each is: weighted sums of the named features, from weights.json.

Each kind of thing has weights of its own, because a feature says different things about a fact, a message and
a conclusion. A score orders the candidates of one question; a probability can be compared across questions.
bench/learning.py learned the weights from authored lives and from conversations that allow it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nexus.memory.recall.item import Kind
from nexus.memory.recall.pool import Floats, Whole

_WEIGHTS = Path(__file__).with_name("weights.json")
# Fewer cosines say nothing about how a model spreads them.
_ENOUGH = 10
# Kinds that nothing could be learned for go by what was learned for the one that they resemble.
LIKE: Final[Mapping[Kind, str]] = {
    "event": "event",
    "fact": "fact",
    "observation": "fact",
    "mental_model": "fact",
    "episode": "fact",
    "entity": "fact",
}


@dataclass(frozen=True, slots=True)
class Sum:
    """Named weights and a bias."""

    weights: dict[str, float]
    bias: float = 0.0

    def of(self, features: Mapping[str, Floats]) -> Floats:
        total = sum((weight * features[name] for name, weight in self.weights.items()), np.array(self.bias))
        return np.asarray(total, np.float64)

    def probability(self, features: Mapping[str, Floats]) -> Floats:
        return 1.0 / (1.0 + np.exp(-np.clip(self.of(features), -30, 30)))


@dataclass(frozen=True, slots=True)
class Ranker:
    """Everything that was learned."""

    order: dict[str, Sum]  # by kind
    strength: dict[str, Sum]  # by what there is to go by: reranked, meaning (multilingual), words
    strong: dict[str, dict[str, float]]  # from which probability a result is strong, also by language
    need: Sum  # that a task needs it
    told: float  # from which such probability something is worth telling
    beside: float  # and from which other things are told beside it
    scales: dict[str, tuple[float, float]]  # mean and spread of each known model's cosines
    threads: dict[str, float]
    factors: dict[str, float]
    fit: float  # what a reranker's word weighs

    def scores(self, features: Mapping[str, Floats], rows: Whole, kinds: Sequence[Kind]) -> Floats:
        """How well each candidate answers, beside the other candidates of the question."""
        like = np.array([LIKE[kind] for kind in kinds])
        total = np.zeros(len(rows))
        for kind, weighted in self.order.items():
            own = np.flatnonzero(like == kind)
            total[own] = weighted.of({name: features[name][rows[own]] for name in weighted.weights})
        return total

    def strong_from(self, given: str, language: str) -> float:
        """From which probability a result is strong; a language that nothing was learned of is like all."""
        limits = self.strong[given]
        return limits.get(language, limits[""])

    def knows(self, model_id: str | None) -> bool:
        """Whether it was learned what this model's cosines mean."""
        return model_id is not None and model_id.partition("@")[0] in self.scales

    def scaled(self, cosines: NDArray[Any], model_id: str) -> Floats:
        """Cosines in spreads above the mean of unrelated texts, so that those of all models mean the same.

        What has no vector yet, whose cosine is exactly 0, lies at the mean.
        """
        known = cosines[cosines != 0.0]
        mean, spread = self.scales.get(model_id.partition("@")[0]) or _own_scale(known)
        return np.where(cosines == 0.0, 0.0, (cosines - mean) / spread)


def _own_scale(cosines: NDArray[Any]) -> tuple[float, float]:
    """For a model that nothing was learned for: what was found for this question tells."""
    if len(cosines) < _ENOUGH:
        return 0.0, 1.0
    low, middle = np.quantile(cosines, (0.16, 0.5))
    return float(middle), max(float(middle - low), 1e-3)


@cache
def load(path: Path = _WEIGHTS) -> Ranker:
    """The ranker whose weights lie beside this file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return Ranker(
        order={kind: Sum(**given) for kind, given in data["order"].items()},
        strength={name: Sum(**given) for name, given in data["strength"].items()},
        strong=data["strong"],
        need=Sum(**data["need"]),
        told=data["told"],
        beside=data["beside"],
        scales={model: _pair(given) for model, given in data["scales"].items()},
        threads=data["threads"],
        factors=data["factors"],
        fit=data["fit"],
    )


def _pair(given: list[Any]) -> tuple[float, float]:
    mean, spread = given
    return float(mean), float(spread)
