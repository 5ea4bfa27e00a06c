"""Nearest vectors: one small interface over numbered rows, and two indexes behind it.

`ExactIndex` looks at every number of every vector and serves small homes. `BitIndex` keeps two bits of
each number, a twelfth of what the blobs of the ledger take, and serves large ones; what it brings is
always scored again from the blobs. Either can be built anew from the ledger at any time.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
Words = NDArray[np.uint64]

# How many rows the first look of a BitIndex keeps, and how many times the limit the second one keeps.
# Measured in bench/vector_index.py: fewer lose neighbours, more cost time and find no others.
_COARSE_ROWS = 4_000
_FINE = 3
# What a number is taken for whose offset is small or large, in units of the row's mean offset: the
# values that lose least where the offsets are spread like a bell.
_LARGE_FROM, _SMALL, _LARGE = 1.23, 0.57, 1.89
_WORD_BITS = 64
# The eight bits of every byte, in the order in which they are packed.
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)
# So many rows at a time stay in the processor's cache.
_BLOCK_ROWS = 65_536


class Index(Protocol):
    """Unit vectors by row number."""

    @property
    def exact(self) -> bool:
        """Whether the scores are cosines. Otherwise they are estimates, and more rows come than asked for."""
        ...

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        ...

    def put(self, rows: Rows, vectors: Floats) -> None:
        """Set the vectors of these rows; rows grow without gaps."""
        ...

    def nearest(self, query: Floats, limit: int, among: Rows | None = None) -> tuple[Rows, Floats]:
        """The rows nearest to a unit vector with their scores, in any order, among some rows or all."""
        ...


class ExactIndex:
    """All vectors in one matrix; every search looks at each of them."""

    exact = True

    def __init__(self, dimensions: int) -> None:
        self._vectors = np.zeros((0, dimensions), np.float32)
        self._count = 0

    @property
    def nbytes(self) -> int:
        return int(self._vectors.nbytes)

    def put(self, rows: Rows, vectors: Floats) -> None:
        count = max(self._count, int(rows.max()) + 1)
        self._vectors = _taller(self._vectors, count)
        self._vectors[rows] = vectors
        self._count = count

    def nearest(self, query: Floats, limit: int, among: Rows | None = None) -> tuple[Rows, Floats]:
        vectors = self._vectors[: self._count] if among is None else self._vectors[among]
        scores: Floats = vectors @ query
        chosen = _highest(scores, limit)
        return chosen if among is None else among[chosen], scores[chosen]

    def scores(self, query: Floats, rows: Rows) -> Floats:
        """The cosine of each row."""
        return self._vectors[rows] @ query


class BitIndex:
    """Two bits of each number: on which side of the centre it lies, and whether it lies far from it.

    The first bits choose by how many of them differ from the query's, the second ones order what was
    chosen well enough that few have to be read from the ledger.
    """

    exact = False

    def __init__(self, dimensions: int) -> None:
        self._words = -(-dimensions // _WORD_BITS)
        self._dimensions = dimensions
        # One row for each word, so that a look at all vectors runs straight through memory.
        self._sides = np.zeros((self._words, 0), np.uint64)
        self._far = np.zeros((self._words, 0), np.uint64)
        self._centre: Floats | None = None
        self._count = 0

    @property
    def nbytes(self) -> int:
        return int(self._sides.nbytes + self._far.nbytes)

    def put(self, rows: Rows, vectors: Floats) -> None:
        centre: Floats = vectors.mean(axis=0) if self._centre is None else self._centre
        self._centre = centre
        offsets: Floats = vectors - centre
        sizes: Floats = np.abs(offsets)
        count = max(self._count, int(rows.max()) + 1)
        self._sides, self._far = (_wider(words, count) for words in (self._sides, self._far))
        self._sides[:, rows] = self._packed(offsets > 0).T
        self._far[:, rows] = self._packed(sizes > _LARGE_FROM * sizes.mean(axis=1, keepdims=True)).T
        self._count = count

    def nearest(self, query: Floats, limit: int, among: Rows | None = None) -> tuple[Rows, Floats]:
        if self._centre is None:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        side = self._packed((query - self._centre)[None, :] > 0)[0]
        rows = self._agreeing(side, among)
        estimates = self._estimates(query, rows)
        chosen = _highest(estimates, _FINE * limit)
        return rows[chosen], estimates[chosen]

    def _agreeing(self, side: Words, among: Rows | None) -> Rows:
        """The rows whose sides differ least from the query's."""
        sides = self._sides[:, : self._count] if among is None else self._sides[:, among]
        count = sides.shape[1]
        if count <= _COARSE_ROWS:
            return _every(count) if among is None else among
        differing = np.zeros(count, np.uint16)
        for start in range(0, count, _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            for words, word in zip(sides, side, strict=True):
                differing[block] += np.bitwise_count(words[block] ^ word)
        reached = np.cumsum(np.bincount(differing))
        chosen = np.flatnonzero(differing <= np.searchsorted(reached, _COARSE_ROWS))
        return chosen if among is None else among[chosen]

    def _estimates(self, query: Floats, rows: Rows) -> Floats:
        """Cosines, with every number taken for the one that its two bits stand for."""
        sides, far = self._sides[:, rows].T, self._far[:, rows].T
        table = self._table(query)
        small = 2 * _sums(table, sides) - query.sum()
        large = 2 * _sums(table, sides & far) - _sums(table, far)
        count = np.bitwise_count(far).sum(axis=1)
        length = np.sqrt(_SMALL**2 * (self._dimensions - count) + _LARGE**2 * count)
        return ((_SMALL * small + (_LARGE - _SMALL) * large) / length).astype(np.float32)

    def _table(self, query: Floats) -> Floats:
        """For each byte of a row and each value that it may have: the sum of the query under its bits."""
        room = np.zeros(self._words * _WORD_BITS, np.float32)
        room[: self._dimensions] = query
        return room.reshape(-1, 8) @ _BITS.T

    def _packed(self, flags: NDArray[np.bool_]) -> Words:
        room = np.zeros((len(flags), self._words * _WORD_BITS), np.bool_)
        room[:, : self._dimensions] = flags
        return np.packbits(room, axis=1).view(np.uint64)


def _sums(table: Floats, words: Words) -> Floats:
    """The sum of the query's numbers under the bits that are set, for each row of words."""
    values = np.ascontiguousarray(words).view(np.uint8)
    return table.ravel().take(values + np.arange(0, table.size, 256)).sum(axis=1)


def _every(count: int) -> Rows:
    return np.arange(count, dtype=np.int64)


def _highest(scores: Floats, limit: int) -> Rows:
    if len(scores) <= limit:
        return _every(len(scores))
    return np.argpartition(scores, -limit)[-limit:]


# Room grows by halves. Searches that run meanwhile keep the array that they have.


def _taller(vectors: Floats, count: int) -> Floats:
    if count <= len(vectors):
        return vectors
    room = np.zeros((max(count, len(vectors) * 3 // 2, 1024), vectors.shape[1]), np.float32)
    room[: len(vectors)] = vectors
    return room


def _wider(words: Words, count: int) -> Words:
    if count <= words.shape[1]:
        return words
    room = np.zeros((len(words), max(count, words.shape[1] * 3 // 2, 1024)), np.uint64)
    room[:, : words.shape[1]] = words
    return room
