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
        "by_meaning": {
            "relevance": {"weights": {"a": 2.0}, "bias": -1.0},
            "answerable": {"weights": {"a": 1.0}, "bias": 0.0},
        },
        "by_words": {
            "relevance": {"weights": {"b": 1.0}, "bias": 0.0},
            "answerable": {"weights": {"b": 1.0}, "bias": 0.0},
        },
        "models": ["known"],
        "threads": {"best": 1.0},
        "factors": {"recency": 0.1},
        "fit": 2.0,
    }
    file = tmp_path / "weights.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def test_each_row_gets_the_sum_of_its_leaves(tmp_path: Path) -> None:
    trees = ranker.load(written(tmp_path)).trees
    table = {"a": np.array([0.5, 0.6, 0.6]), "b": np.array([9.0, 2.0, 2.1])}
    assert trees.score(table, np.arange(3)).tolist() == [-0.75, 1.25, 3.25]


def test_relevance_is_a_probability_of_each_and_of_any(tmp_path: Path) -> None:
    table = {"a": np.array([0.5, 100.0, -100.0]), "b": np.zeros(3)}
    chances, any_ = ranker.load(written(tmp_path)).chances(table, np.arange(3), "known@123")
    assert chances[0] == 0.5
    assert 0.0 <= chances[2] < 0.001 < 0.999 < chances[1] <= 1.0
    assert any_ > 0.999


def test_cosines_of_a_model_that_nothing_was_learned_for_count_for_nothing(tmp_path: Path) -> None:
    table = {"a": np.array([100.0]), "b": np.zeros(1)}
    for model_id in ("another@1", None):
        chances, _ = ranker.load(written(tmp_path)).chances(table, np.arange(1), model_id)
        assert chances[0] == 0.5
