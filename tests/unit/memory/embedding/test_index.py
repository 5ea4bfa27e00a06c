"""The exact index: nearest first, replaced in place, allowed ids only."""

import numpy as np

from nexus.memory.embedding import ExactIndex


def unit(*values: float) -> np.ndarray:
    vector = np.array(values, np.float32)
    return vector / np.linalg.norm(vector)


def filled() -> ExactIndex:
    index = ExactIndex(2)
    index.put(["east", "north", "between"], np.stack([unit(1, 0), unit(0, 1), unit(1, 1)]))
    return index


def test_nearest_comes_first() -> None:
    (hits,) = filled().search(unit(1, 0.1)[None, :], 2)
    assert hits.ids == ["east", "between"]
    assert hits.scores[0] > hits.scores[1]


def test_only_allowed_ids_are_searched() -> None:
    (hits,) = filled().search(unit(1, 0)[None, :], 5, allowed={"north", "unknown"})
    assert hits.ids == ["north"]


def test_a_known_id_takes_its_new_vector() -> None:
    index = filled()
    index.put(["east"], unit(0, 1)[None, :])
    assert len(index) == 3
    assert float(index.scores(unit(0, 1), ["east"])[0]) > 0.99


def test_an_id_without_a_vector_scores_nothing() -> None:
    assert filled().scores(unit(1, 0), ["nobody"]).tolist() == [0.0]


def test_an_empty_index_answers_with_nothing() -> None:
    (hits,) = ExactIndex(2).search(unit(1, 0)[None, :], 5)
    assert hits.ids == []


def test_it_grows_past_its_first_room() -> None:
    index = ExactIndex(2)
    angles = np.linspace(0, 1, 3000)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    index.put([str(i) for i in range(3000)], vectors)
    (hits,) = index.search(vectors[1234:1235], 1)
    assert hits.ids == ["1234"]
