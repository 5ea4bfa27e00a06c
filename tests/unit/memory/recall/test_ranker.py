"""The trees are read as they were written, and name features that exist."""

import json
from pathlib import Path

import numpy as np

from nexus.memory.recall import ranker


def written(tmp_path: Path) -> Path:
    data = {
        "features": ["a", "b"],
        "trees": [
            [[0, 0.5, 1, 2], [-1, -1.0, 0, 0], [1, 2.0, 3, 4], [-1, 1.0, 0, 0], [-1, 3.0, 0, 0]],
            [[-1, 0.25, 0, 0]],
        ],
        "relevance": {"weights": {"a": 2.0}, "bias": -1.0},
        "relevance_by_words": {"weights": {"b": 1.0}, "bias": 0.0},
        "threads": {"best": 1.0},
    }
    file = tmp_path / "weights.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def test_each_row_gets_the_sum_of_its_leaves(tmp_path: Path) -> None:
    trees = ranker.load(written(tmp_path)).trees
    table = {"a": np.array([0.5, 0.6, 0.6]), "b": np.array([9.0, 2.0, 2.1])}
    assert trees.score(table, np.arange(3)).tolist() == [-0.75, 1.25, 3.25]


def test_relevance_is_a_probability(tmp_path: Path) -> None:
    relevance = ranker.load(written(tmp_path)).relevance
    chances = relevance.probability({"a": np.array([0.5, 100.0, -100.0])})
    assert chances[0] == 0.5
    assert 0.0 <= chances[2] < 0.001 < 0.999 < chances[1] <= 1.0
