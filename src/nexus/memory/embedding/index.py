"""Nearest vectors: one small interface, and the exact scan that serves up to a million on one machine.

An approximate index may stand behind the same interface when a home grows past that; the vectors in
the embeddings ledger stay the truth, and any index can be built again from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Hits:
    """What is nearest, best first."""

    ids: list[str]
    scores: Floats


class Index(Protocol):
    """Unit vectors by id."""

    def __len__(self) -> int: ...

    def put(self, ids: Sequence[str], vectors: Floats) -> None:
        """Add vectors; one whose id is known takes the place of the old."""
        ...

    def search(self, queries: Floats, limit: int, allowed: set[str] | None = None) -> list[Hits]:
        """The nearest to each row of unit vectors, among the allowed ids only where some are given."""
        ...

    def scores(self, query: Floats, ids: Sequence[str]) -> Floats:
        """The exact cosine of each id; 0 for one that has no vector."""
        ...


class ExactIndex:
    """All vectors in one matrix; every search looks at each of them."""

    def __init__(self, dimensions: int) -> None:
        self._vectors = np.zeros((0, dimensions), np.float32)
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        """What the matrix takes in memory."""
        return int(self._vectors.nbytes)

    def put(self, ids: Sequence[str], vectors: Floats) -> None:
        self._reserve(len(self._ids) + len(ids))
        for id_, vector in zip(ids, vectors, strict=True):
            row = self._rows.setdefault(id_, len(self._ids))
            if row == len(self._ids):
                self._ids.append(id_)
            self._vectors[row] = vector

    def search(self, queries: Floats, limit: int, allowed: set[str] | None = None) -> list[Hits]:
        rows: NDArray[np.int64] | None = None
        vectors = self._vectors[: len(self._ids)]
        if allowed is not None:
            rows = np.array([self._rows[id_] for id_ in allowed if id_ in self._rows], np.int64)
            vectors = vectors[rows]
        # A product with one vector at a time: BLAS is slower with a matrix of only two rows.
        return [self._best(rows, vectors @ query, limit) for query in queries]

    def scores(self, query: Floats, ids: Sequence[str]) -> Floats:
        rows = np.array([self._rows.get(id_, -1) for id_ in ids], np.int64)
        result = np.zeros(len(ids), np.float32)
        known = rows >= 0
        result[known] = self._vectors[rows[known]] @ query
        return result

    def _best(self, rows: NDArray[np.int64] | None, scores: Floats, limit: int) -> Hits:
        chosen = np.argpartition(scores, -limit)[-limit:] if len(scores) > limit else np.arange(len(scores))
        chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
        places = chosen if rows is None else rows[chosen]
        return Hits([self._ids[i] for i in places], scores[chosen])

    def _reserve(self, count: int) -> None:
        if count > len(self._vectors):
            room = np.zeros((max(count, 2 * len(self._vectors), 1024), self._vectors.shape[1]), np.float32)
            room[: len(self._vectors)] = self._vectors
            self._vectors = room
