"""Every index behind the same interface: nearest rows, rows replaced in place, allowed rows only."""

import numpy as np
import pytest

from nexus.memory.embedding.index import BitIndex, ExactIndex, Index

DIMENSIONS = 384


def cloud(count: int, seed: int = 1) -> np.ndarray:
    """Unit vectors in loose clusters, off the origin as those of real models are."""
    numbers = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(400, DIMENSIONS)) + 0.3
    vectors = centres[numbers.integers(400, size=count)] + 0.7 * numbers.normal(size=(count, DIMENSIONS))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(params=[ExactIndex, BitIndex])
def index(request: pytest.FixtureRequest) -> Index:
    return request.param(DIMENSIONS)


def truly_nearest(vectors: np.ndarray, query: np.ndarray, limit: int) -> set[int]:
    return set(np.argsort(-(vectors @ query))[:limit].tolist())


def test_the_nearest_rows_are_among_those_proposed(index: Index) -> None:
    vectors = cloud(20_000)
    for start in range(0, len(vectors), 7_000):
        rows = np.arange(start, min(start + 7_000, len(vectors)))
        index.put(rows, vectors[rows])
    found = [
        len(truly_nearest(vectors, query, 20) & set(index.nearest(query[None], 20)[0][0].tolist())) / 20
        for query in cloud(30, seed=2)
    ]
    assert np.mean(found) > (0.999 if index.exact else 0.9)


def test_only_the_given_rows_are_proposed(index: Index) -> None:
    vectors = cloud(6_000)
    index.put(np.arange(6_000), vectors)
    among = np.arange(0, 6_000, 7)
    [(rows, scores)] = index.nearest(vectors[3:4], 10, among)
    assert set(rows.tolist()) <= set(among.tolist())
    assert len(rows) == len(scores) >= 10


def test_a_row_takes_its_new_vector(index: Index) -> None:
    vectors = cloud(500)
    index.put(np.arange(500), vectors)
    index.put(np.array([7]), -vectors[8:9])
    [(rows, scores)] = index.nearest(-vectors[8:9], 1)
    assert rows[np.argmax(scores)] == 7


def test_an_empty_index_proposes_nothing(index: Index) -> None:
    [(rows, scores)] = index.nearest(cloud(1)[:1], 5)
    assert len(rows) == len(scores) == 0


def test_it_says_what_it_takes_in_memory(index: Index) -> None:
    index.put(np.arange(2_000), cloud(2_000))
    assert index.nbytes >= 2_000 * DIMENSIONS / 4


def test_two_bits_take_a_sixteenth_of_what_floats_take() -> None:
    exact, bits = ExactIndex(384), BitIndex(384)
    vectors = np.ones((5_000, 384), np.float32)
    for index in (exact, bits):
        index.put(np.arange(5_000), vectors)
    assert bits.nbytes * 16 == exact.nbytes
