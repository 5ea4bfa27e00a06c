"""Nearest vectors: two indexes over numbered rows, and a mirror that follows the embeddings ledger."""

import asyncio
import json
import threading
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, cast

import apsw
import numpy as np
from numpy.typing import NDArray

from nexus.ledgers.database import Database
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.sql import load_statements

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
# As many whole vectors as do.
_EXACT_BLOCK_ROWS = 512
# Up to here a look at every number takes a few milliseconds, and the vectors a few dozen megabytes.
EXACT_UP_TO: Final = 50_000

_SQL = load_statements(Path(__file__).with_name("queries.sql"))
_ROWS_A_READ = 20_000
# What a search takes over by itself before it begins.
_NEWS_ROWS: Final = 500


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

    def nearest(self, queries: Floats, limit: int, among: Rows | None = None) -> list[tuple[Rows, Floats]]:
        """Find the rows nearest to each unit vector with their scores, unordered, among some rows or all."""
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

    def nearest(self, queries: Floats, limit: int, among: Rows | None = None) -> list[tuple[Rows, Floats]]:
        vectors = self._vectors[: self._count] if among is None else self._vectors[among]
        scores = np.empty((len(queries), len(vectors)), np.float32)
        for start in range(0, len(vectors), _EXACT_BLOCK_ROWS):
            block = slice(start, start + _EXACT_BLOCK_ROWS)
            for query, own in zip(queries, scores, strict=True):
                # Not `@`, for which a program's BLAS wakes threads that spin longer than this takes.
                np.vecdot(vectors[block], query, out=own[block])
        found: list[tuple[Rows, Floats]] = []
        for own in scores:
            chosen = _highest(own, limit)
            found.append((chosen if among is None else among[chosen], own[chosen]))
        return found

    def scores(self, queries: Floats, rows: Rows) -> Floats:
        """Queries by rows: the cosines."""
        return np.vecdot(self._vectors[rows], queries[:, None])


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
        self._sides[:, rows] = self._pack(offsets > 0).T
        self._far[:, rows] = self._pack(sizes > _LARGE_FROM * sizes.mean(axis=1, keepdims=True)).T
        self._count = count

    def nearest(self, queries: Floats, limit: int, among: Rows | None = None) -> list[tuple[Rows, Floats]]:
        return [self._find(query, limit, among) for query in queries]

    def _find(self, query: Floats, limit: int, among: Rows | None) -> tuple[Rows, Floats]:
        if self._centre is None:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        side = self._pack((query - self._centre)[None, :] > 0)[0]
        rows = self._agreeing(side, among)
        estimates = self._estimates(query, rows)
        chosen = _highest(estimates, _FINE * limit)
        return rows[chosen], estimates[chosen]

    def _agreeing(self, side: Words, among: Rows | None) -> Rows:
        """Find the rows whose sides differ least from the query's."""
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

    def _pack(self, flags: NDArray[np.bool_]) -> Words:
        room = np.zeros((len(flags), self._words * _WORD_BITS), np.bool_)
        room[:, : self._dimensions] = flags
        return np.packbits(room, axis=1).view(np.uint64)


def _sums(table: Floats, words: Words) -> Floats:
    """Sum the query's numbers under the bits that are set, for each row of words."""
    values = np.ascontiguousarray(words).view(np.uint8)
    return table.ravel().take(values + np.arange(0, table.size, 256)).sum(axis=1)


def _every(count: int) -> Rows:
    return np.arange(count, dtype=np.int64)


def _highest(scores: Floats, limit: int) -> Rows:
    """Return the places of the highest scores, in any order; of equal ones, the last places."""
    if len(scores) <= limit:
        return _every(len(scores))
    least = np.partition(scores, -limit)[-limit]
    rows = np.flatnonzero(scores >= least)
    if len(rows) > limit:
        is_above = scores[rows] > least
        above, equal = rows[is_above], rows[~is_above]
        rows = np.concatenate([above, equal[len(above) - limit :]])
    return rows


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


@dataclass(frozen=True, slots=True)
class Hits:
    """What is nearest, best first, with cosines."""

    ids: list[str]
    scores: Floats


class Mirror:
    """Searches the vectors of one model."""

    def __init__(
        self, database: Database, model_id: str, dimensions: int, *, exact_up_to: int = EXACT_UP_TO
    ) -> None:
        self._database = database
        self._model_id = model_id
        self._dimensions = dimensions
        self._exact_up_to = exact_up_to
        self._index: Index = ExactIndex(dimensions)
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._seqs: array[int] = array("q")
        self._cursor = 0
        self._following: asyncio.Task[None] | None = None
        self._taking = threading.Lock()
        self.is_behind = True
        """Whether more than a little is still to be taken over: `refresh` does that."""

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        """What the index takes in memory, the names of its rows apart."""
        return self._index.nbytes

    async def refresh(self) -> None:
        """Bring the index up to date with the ledger, in the background. Cheap when nothing is new.

        A caller that stops waiting does not stop it: the next one finds it farther on.
        """
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._follow())
            self._following.add_done_callback(_report_failure)
        await asyncio.shield(self._following)

    async def search(self, queries: Floats, limit: int, allowed: Collection[str] | None = None) -> list[Hits]:
        """Find the nearest, as `find_nearest`, on a thread."""
        return await self._database.read(self.find_nearest, queries, limit, allowed)

    async def scores(self, queries: Floats, ids: Sequence[str]) -> Floats:
        """Compare, as `compare`, on a thread."""
        return await self._database.read(self.compare, queries, ids)

    def take_news(self, connection: apsw.Connection, most: int = _NEWS_ROWS) -> bool:
        """Take over what is new in the ledger, but no more than some rows; return whether that was all."""
        with self._taking, translate_errors(self._database.ledger, self._database.path):
            found = connection.execute(_SQL["newer"], (self._cursor, self._model_id, most)).fetchall()
            rows = cast("list[tuple[int, str, bytes]]", found)
            if rows and self._index.exact and len(self._ids) + len(rows) > self._exact_up_to:
                self._index = BitIndex(self._dimensions)
                if self._ids:
                    self._ids, self._rows, self._seqs, self._cursor = [], {}, array("q"), 0
                    self.is_behind = True
                    return False
            if rows:
                self._take(rows)
                self._cursor = rows[-1][0]
            self.is_behind = len(rows) == most
            return not self.is_behind

    def find_nearest(
        self,
        connection: apsw.Connection,
        queries: Floats,
        limit: int,
        allowed: Collection[str] | None = None,
    ) -> list[Hits]:
        """Find the nearest to each row of unit vectors, among the allowed ids only where some are given."""
        among = None if allowed is None else self._find_rows(allowed)
        index = self._index
        found = index.nearest(queries, limit, among)
        if not index.exact:
            rows = np.unique(np.concatenate([rows for rows, _ in found]))
            cosines = self._from_blobs(connection, queries, rows)
            places = [np.searchsorted(rows, own) for own, _ in found]
            found = [
                (own, cosines[i, place])
                for i, ((own, _), place) in enumerate(zip(found, places, strict=True))
            ]
        return [self._hits(rows, scores, limit) for rows, scores in found]

    def compare(self, connection: apsw.Connection, queries: Floats, ids: Sequence[str]) -> Floats:
        """Return the cosine of each query with each id; 0 for one that has no vector."""
        rows = np.array([self._rows.get(id_, -1) for id_ in ids], np.int64)
        known = np.flatnonzero(rows >= 0)
        result = np.zeros((len(queries), len(ids)), np.float32)
        if not len(known):
            return result
        if isinstance(self._index, ExactIndex):
            result[:, known] = self._index.scores(queries, rows[known])
        else:
            unique, back = np.unique(rows[known], return_inverse=True)
            result[:, known] = self._from_blobs(connection, queries, unique)[:, back]
        return result

    async def _follow(self) -> None:
        while not await self._database.read(self.take_news, _ROWS_A_READ):
            pass

    def _take(self, rows: list[tuple[int, str, bytes]]) -> None:
        matrix = _matrix([row[2] for row in rows])
        places = np.array([self._rows.get(row[1], -1) for row in rows], np.int64)
        new = np.flatnonzero(places < 0)
        places[new] = np.arange(len(self._ids), len(self._ids) + len(new))
        self._index.put(places, matrix)
        for place, (seq, id_, _) in zip(places.tolist(), rows, strict=True):
            if place == len(self._ids):
                self._seqs.append(seq)
                self._ids.append(id_)
                self._rows[id_] = place
            else:
                self._seqs[place] = seq

    def _find_rows(self, ids: Collection[str]) -> Rows:
        """The rows of the ids, oldest first: of equally near ones the last are taken."""
        return np.sort(np.array([self._rows[id_] for id_ in ids if id_ in self._rows], np.int64))

    def _from_blobs(self, connection: apsw.Connection, queries: Floats, rows: Rows) -> Floats:
        """Queries by rows: the cosines. A vector that was removed meanwhile counts as none."""
        seqs: list[int] = [self._seqs[row] for row in rows.tolist()]
        if not seqs:
            return np.zeros((len(queries), 0), np.float32)
        with translate_errors(self._database.ledger, self._database.path):
            found = connection.execute(_SQL["vectors_by_seq"], (json.dumps(seqs),)).fetchall()
        blobs = dict(cast("list[tuple[int, bytes]]", found))
        nothing = bytes(2 * self._dimensions)
        return np.vecdot(_matrix([blobs.get(seq, nothing) for seq in seqs]), queries[:, None])

    def _hits(self, rows: Rows, scores: Floats, limit: int) -> Hits:
        # Messages of the same words are equally near: the newest first, whatever else there is or was.
        order = np.lexsort((-rows, -scores))[:limit]
        return Hits([self._ids[row] for row in rows[order].tolist()], scores[order])


def _matrix(blobs: list[bytes]) -> Floats:
    return np.frombuffer(b"".join(blobs), "<f2").astype(np.float32).reshape(len(blobs), -1)


def _report_failure(task: asyncio.Task[None]) -> None:
    """Whoever still waits is told by the task itself; nobody else needs to be."""
    if not task.cancelled():
        task.exception()
