"""Weights are read as they were written, each kind by its own, and name features that exist."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from nexus.memory.recall import features, ranker
from nexus.memory.recall.item import Item, Stretch
from nexus.memory.recall.question import understand


def written(tmp_path: Path) -> Path:
    data = {
        "order": {
            "fact": {"weights": {"a": 2.0, "b": -1.0}, "bias": 0.5},
            "event": {"weights": {"a": 1.0}, "bias": 0.0},
        },
        "strength": {
            name: {"weights": {"a": 2.0}, "bias": -1.0} for name in ("words", "meaning", "reranked")
        },
        "strong": {"words": 0.5, "meaning": 0.5, "reranked": 0.5},
        "need": {"weights": {"a": 1.0}, "bias": 0.0},
        "need_threshold": 0.5,
        "need_threshold_beside": 0.5,
        "scales": {"known": [0.1, 0.2]},
        "threads": {"best": 1.0},
        "factors": {"recency": 0.1},
        "fit": 0.3,
    }
    file = tmp_path / "weights.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def test_each_kind_is_weighed_by_its_own_weights(tmp_path: Path) -> None:
    table = {"a": np.array([9.0, 1.0, 1.0, 1.0]), "b": np.array([9.0, 2.0, 2.0, 2.0])}
    scores = ranker.load(written(tmp_path)).scores(table, np.arange(1, 4), ["fact", "event", "observation"])
    assert scores.tolist() == [0.5, 1.0, 0.5]


def test_strength_is_a_probability(tmp_path: Path) -> None:
    chances = ranker.load(written(tmp_path)).strength["meaning"].probability({"a": np.array([0.5, 99, -99])})
    assert chances[0] == 0.5
    assert 0.0 <= chances[2] < 0.001 < 0.999 < chances[1] <= 1.0


def test_cosines_of_a_known_model_are_told_in_its_spreads(tmp_path: Path) -> None:
    cosines = np.array([[0.1, 0.5, 0.0]])
    scaled = ranker.load(written(tmp_path)).scaled(cosines, "known@123")
    assert scaled[0].tolist() == pytest.approx([0.0, 2.0, 0.0])


def test_cosines_of_an_unknown_model_are_told_in_spreads_of_what_was_found(tmp_path: Path) -> None:
    cosines = np.linspace(0.70, 0.90, 101)[None, :]
    scaled = ranker.load(written(tmp_path)).scaled(cosines, "another@1")
    assert scaled[0, 50] == pytest.approx(0.0)
    assert scaled[0, -1] == pytest.approx(0.1 / 0.068)


def test_the_weights_name_features_that_exist() -> None:
    learned = ranker.load()
    asked = understand("Who is Ada?", datetime(2026, 1, 1, tzinfo=UTC))
    item = Item(kind="fact", id="fact_1", text="Ada is a mathematician", at="2026-01-01T00:00:00.000Z")
    known = features.table(asked, features.build_pool(asked, [Stretch([item], [True])], {}, {}))
    for weighted in (*learned.order_weights.values(), *learned.strength.values()):
        assert set(weighted.weights) <= {*known, "fit"}
    use = ranker.columns(
        asked.text, [item], known | {"score_gap": np.zeros(1)}, named={}, now=datetime(2026, 1, 1, tzinfo=UTC)
    )
    assert set(learned.need.weights) <= {*known, "score_gap", *use}
    assert set(learned.strong) == set(learned.strength) == {"words", "meaning", "multilingual", "reranked"}


def test_each_language_has_its_own_line_for_strong_and_any_other_one_the_common_line() -> None:
    learned = ranker.load()
    for given, limits in learned.strong.items():
        assert learned.strong_from(given, "eo") == limits[""]
        for language, limit in limits.items():
            assert learned.strong_from(given, language) == limit
