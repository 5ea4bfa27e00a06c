"""The order of the candidates: small regression trees over the named features, read from weights.json.

The weights were learned on one half of the benchmark's conversations (see the documentation of
recall); a score orders the candidates of one question, a probability can be compared across questions.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nexus.memory.recall.pool import Floats, Whole

_LEAF = -1
_WEIGHTS = Path(__file__).with_name("weights.json")


@dataclass(frozen=True, slots=True)
class Trees:
    """All nodes of all trees in one row: go left where the feature is at most the threshold.

    A leaf leads to itself, so that every walk may take as many steps as the deepest tree needs.
    """

    names: tuple[str, ...]
    roots: Whole
    feature: Whole
    threshold: Floats
    left: Whole
    right: Whole
    value: Floats
    depth: int

    def score(self, features: dict[str, Floats], rows: NDArray[Any]) -> Floats:
        """The sum of the leaves that each row falls into."""
        matrix = np.stack([features[name][rows] for name in self.names], axis=1)
        start = (np.arange(len(matrix)) * matrix.shape[1])[:, None]
        flat: Floats = matrix.ravel()
        node = np.broadcast_to(self.roots, (len(matrix), len(self.roots)))
        for _ in range(self.depth):
            split = self.feature.take(node)
            limit = self.threshold.take(node)
            goes_left = flat[start + split] <= limit
            node = np.where(goes_left, self.left.take(node), self.right.take(node))
        return self.value.take(node).sum(axis=1)


@dataclass(frozen=True, slots=True)
class Logistic:
    """Named weights and a bias to a probability."""

    weights: dict[str, float]
    bias: float

    def probability(self, features: dict[str, Floats]) -> Floats:
        total = sum((weight * features[name] for name, weight in self.weights.items()), np.array(self.bias))
        return 1.0 / (1.0 + np.exp(-np.clip(total, -30, 30)))


@dataclass(frozen=True, slots=True)
class Chance:
    """Two probabilities: that one candidate is relevant, and that any is."""

    relevance: Logistic
    answerable: Logistic  # over the best value of each feature

    def of(self, features: dict[str, Floats], rows: Whole) -> tuple[Floats, float]:
        single = self.relevance.probability({name: features[name][rows] for name in self.relevance.weights})
        best = {name: features[name][rows].max(keepdims=True) for name in self.answerable.weights}
        return single, float(self.answerable.probability(best)[0])


@dataclass(frozen=True, slots=True)
class Ranker:
    """Everything that was learned."""

    trees: Trees
    by_meaning: Chance
    by_words: Chance  # for a home that has no vectors, or those of a model that nothing was learned for
    models: tuple[str, ...]
    threads: dict[str, float]
    factors: dict[str, float]
    fit: float  # what a reranker's word weighs; it could not be learned here

    def chances(self, features: dict[str, Floats], rows: Whole, model_id: str | None) -> tuple[Floats, float]:
        """How likely each candidate is relevant, and how likely any of them is."""
        known = model_id is not None and model_id.partition("@")[0] in self.models
        return (self.by_meaning if known else self.by_words).of(features, rows)


@cache
def load(path: Path = _WEIGHTS) -> Ranker:
    """The ranker whose weights lie beside this file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return Ranker(
        trees=_trees(data["features"], data["trees"]),
        by_meaning=_chance(data["by_meaning"]),
        by_words=_chance(data["by_words"]),
        models=tuple(data["models"]),
        threads=data["threads"],
        factors=data["factors"],
        fit=data["fit"],
    )


def _chance(data: dict[str, Any]) -> Chance:
    return Chance(relevance=Logistic(**data["relevance"]), answerable=Logistic(**data["answerable"]))


def _trees(names: list[str], trees: list[list[list[float]]]) -> Trees:
    """Each node is written as [feature or -1, threshold or value, left, right]."""
    sizes = np.array([len(tree) for tree in trees])
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    table = np.array([node for tree in trees for node in tree])
    start = np.repeat(roots, sizes)
    leaf = table[:, 0] == _LEAF
    itself = np.arange(len(table))
    return Trees(
        names=tuple(names),
        roots=roots,
        feature=np.where(leaf, 0, table[:, 0]).astype(np.int64),
        threshold=np.where(leaf, 0.0, table[:, 1]),
        left=np.where(leaf, itself, start + table[:, 2]).astype(np.int64),
        right=np.where(leaf, itself, start + table[:, 3]).astype(np.int64),
        value=np.where(leaf, table[:, 1], 0.0),
        depth=max(_depth(tree, 0) for tree in trees),
    )


def _depth(tree: list[list[float]], node: int) -> int:
    feature, _, left, right = tree[node]
    return 0 if feature == _LEAF else 1 + max(_depth(tree, int(left)), _depth(tree, int(right)))
