"""The mirror of the embeddings ledger: it follows, and its scores are those of the blobs, exact or not."""

from collections.abc import Sequence

import numpy as np
import pytest

from nexus.ledgers import Ledgers
from nexus.memory.embedding import Mirror, Vectors
from nexus.memory.embedding.vectors import Source

DIMENSIONS = 32


class Given:
    """Stands for a model whose vectors the test makes itself."""

    model_id = "given@1"
    dimensions = DIMENSIONS

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return unit(np.random.default_rng(len(texts)).normal(size=(len(texts), DIMENSIONS)))

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self.embed(texts)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def named(count: int, first: int = 0) -> list[Source]:
    return [
        Source(target_type="fact", target_id=f"fact_{i}", text=str(i)) for i in range(first, first + count)
    ]


def vectors_over(opened: Ledgers, exact_up_to: int) -> Vectors:
    mirror = Mirror(opened.embeddings, Given.model_id, DIMENSIONS, exact_up_to=exact_up_to)
    return Vectors(opened.embeddings, Given(), mirror)


@pytest.mark.parametrize("exact_up_to", [1_000, 10])
async def test_the_nearest_come_first_with_the_cosines_of_the_blobs(
    opened: Ledgers, exact_up_to: int
) -> None:
    vectors = vectors_over(opened, exact_up_to)
    made = unit(np.random.default_rng(3).normal(size=(200, DIMENSIONS)))
    await vectors.put(named(200), made)
    await vectors.mirror.refresh()
    (hits,) = await vectors.mirror.search(made[5:6], 10)
    truth = np.argsort(-(made @ made[5]))[:10]
    assert hits.ids[0] == "fact_5"
    assert len({f"fact_{i}" for i in truth} & set(hits.ids)) >= 9
    assert hits.scores.tolist() == sorted(hits.scores.tolist(), reverse=True)
    assert hits.scores == pytest.approx(
        [made[int(i.removeprefix("fact_"))] @ made[5] for i in hits.ids], abs=2e-3
    )


@pytest.mark.parametrize("exact_up_to", [1_000, 10])
async def test_scores_are_told_by_id(opened: Ledgers, exact_up_to: int) -> None:
    vectors = vectors_over(opened, exact_up_to)
    made = unit(np.random.default_rng(4).normal(size=(50, DIMENSIONS)))
    await vectors.put(named(50), made)
    await vectors.mirror.refresh()
    scores = await vectors.mirror.scores(made[:2], ["fact_7", "nobody", "fact_0"])
    assert scores == pytest.approx(
        np.array([[made[0] @ made[7], 0, 1], [made[1] @ made[7], 0, made[1] @ made[0]]]), abs=2e-3
    )


@pytest.mark.parametrize("exact_up_to", [1_000, 10])
async def test_only_allowed_ids_are_searched(opened: Ledgers, exact_up_to: int) -> None:
    vectors = vectors_over(opened, exact_up_to)
    made = unit(np.random.default_rng(5).normal(size=(50, DIMENSIONS)))
    await vectors.put(named(50), made)
    await vectors.mirror.refresh()
    (hits,) = await vectors.mirror.search(made[:1], 5, {"fact_3", "fact_9", "unknown"})
    assert set(hits.ids) == {"fact_3", "fact_9"}


async def test_it_goes_over_to_bits_when_it_grows_and_misses_nothing(opened: Ledgers) -> None:
    vectors = vectors_over(opened, 100)
    made = unit(np.random.default_rng(6).normal(size=(150, DIMENSIONS)))
    await vectors.put(named(80), made[:80])
    await vectors.mirror.refresh()
    small = vectors.mirror.nbytes
    await vectors.put(named(70, first=80), made[80:])
    await vectors.mirror.refresh()
    assert len(vectors.mirror) == 150
    assert vectors.mirror.nbytes < small
    for row in (0, 79, 80, 149):
        (hits,) = await vectors.mirror.search(made[row : row + 1], 1)
        assert hits.ids == [f"fact_{row}"]


@pytest.mark.parametrize("exact_up_to", [1_000, 10])
async def test_a_vector_that_was_replaced_takes_the_place_of_the_old(
    opened: Ledgers, exact_up_to: int
) -> None:
    vectors = vectors_over(opened, exact_up_to)
    made = unit(np.random.default_rng(7).normal(size=(31, DIMENSIONS)))
    await vectors.put(named(30), made[:30])
    await vectors.mirror.refresh()
    await vectors.put(named(1), made[30:])
    await vectors.mirror.refresh()
    assert len(vectors.mirror) == 30
    (hits,) = await vectors.mirror.search(made[30:], 1)
    assert hits.ids == ["fact_0"]
    assert hits.scores[0] > 0.99


async def test_an_empty_ledger_has_nothing_near(opened: Ledgers) -> None:
    vectors = vectors_over(opened, 10)
    await vectors.mirror.refresh()
    (hits,) = await vectors.mirror.search(unit(np.ones((1, DIMENSIONS))), 5)
    assert hits.ids == []


async def test_equally_near_ones_come_newest_first_whatever_else_there_is(opened: Ledgers) -> None:
    """Otherwise one deletion changes which of many messages of the same words is found."""
    vectors = vectors_over(opened, 1_000)
    same = unit(np.ones((40, DIMENSIONS)))
    await vectors.put(named(40), same)
    made = unit(np.random.default_rng(3).normal(size=(200, DIMENSIONS)))
    await vectors.put(named(200, first=40), made)
    await vectors.mirror.refresh()
    for limit in (5, 20, 39):
        (hits,) = await vectors.mirror.search(same[:1], limit)
        assert hits.ids == [f"fact_{39 - i}" for i in range(limit)]
        among = {f"fact_{i}" for i in range(0, 40, 2)}
        (hits,) = await vectors.mirror.search(same[:1], min(limit, 20), among)
        assert hits.ids == [f"fact_{38 - 2 * i}" for i in range(min(limit, 20))]
