"""One model's vectors in memory: an index that follows the embeddings ledger by its cursor.

Scores are always those of the blobs: an index that keeps less than the blobs only proposes, and what
it proposes is read from the ledger and scored.
"""

import asyncio
import json
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import apsw
import numpy as np
from numpy.typing import NDArray

from nexus.ledgers.database import Database
from nexus.ledgers.sql import named
from nexus.memory.embedding.index import BitIndex, ExactIndex, Index, Rows

Floats = NDArray[np.float32]

# Up to here a look at every number takes a few milliseconds, and the vectors a few dozen megabytes.
EXACT_UP_TO: Final = 50_000

_SQL = named(Path(__file__).with_name("queries.sql"))
_ROWS_A_READ = 20_000


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

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        """What the index takes in memory, the names of its rows apart."""
        return self._index.nbytes

    async def refresh(self) -> None:
        """Bring the index up to date with the ledger. Cheap when nothing is new.

        A caller that stops waiting does not stop it: the next one finds it farther on.
        """
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._follow())
            self._following.add_done_callback(_heard)
        await asyncio.shield(self._following)

    async def search(self, queries: Floats, limit: int, allowed: Collection[str] | None = None) -> list[Hits]:
        """The nearest to each row of unit vectors, among the allowed ids only where some are given."""
        among = None if allowed is None else self._known(allowed)
        index = self._index
        found = await asyncio.to_thread(lambda: [index.nearest(query, limit, among) for query in queries])
        if not index.exact:
            rows = np.unique(np.concatenate([rows for rows, _ in found]))
            cosines = await self._from_blobs(queries, rows)
            places = [np.searchsorted(rows, own) for own, _ in found]
            found = [
                (own, cosines[i, place])
                for i, ((own, _), place) in enumerate(zip(found, places, strict=True))
            ]
        return [self._hits(rows, scores, limit) for rows, scores in found]

    async def scores(self, queries: Floats, ids: Sequence[str]) -> Floats:
        """The cosine of each query with each id; 0 for one that has no vector."""
        rows = np.array([self._rows.get(id_, -1) for id_ in ids], np.int64)
        known = np.flatnonzero(rows >= 0)
        result = np.zeros((len(queries), len(ids)), np.float32)
        if not len(known):
            return result
        if isinstance(self._index, ExactIndex):
            result[:, known] = self._index.scores(queries.T, rows[known]).T
        else:
            unique, back = np.unique(rows[known], return_inverse=True)
            result[:, known] = (await self._from_blobs(queries, unique))[:, back]
        return result

    async def _follow(self) -> None:
        while rows := await self._database.read(self._newer):
            if self._index.exact and len(self._ids) + len(rows) > self._exact_up_to:
                self._index = BitIndex(self._dimensions)
                if self._ids:
                    self._ids, self._rows, self._seqs, self._cursor = [], {}, array("q"), 0
                    continue
            await asyncio.to_thread(self._take, rows)
            self._cursor = rows[-1][0]

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

    def _newer(self, connection: apsw.Connection) -> list[tuple[int, str, bytes]]:
        rows = connection.execute(_SQL["newer"], (self._cursor, self._model_id, _ROWS_A_READ))
        return cast("list[tuple[int, str, bytes]]", rows.fetchall())

    def _known(self, ids: Collection[str]) -> Rows:
        return np.array([self._rows[id_] for id_ in ids if id_ in self._rows], np.int64)

    async def _from_blobs(self, queries: Floats, rows: Rows) -> Floats:
        """Queries by rows: the cosines. A vector that was removed meanwhile counts as none."""
        seqs: list[int] = [self._seqs[row] for row in rows.tolist()]

        def work(connection: apsw.Connection) -> Floats:
            found = connection.execute(_SQL["vectors_by_seq"], (json.dumps(seqs),)).fetchall()
            blobs = dict(cast("list[tuple[int, bytes]]", found))
            nothing = bytes(2 * self._dimensions)
            return queries @ _matrix([blobs.get(seq, nothing) for seq in seqs]).T

        return await self._database.read(work) if seqs else np.zeros((len(queries), 0), np.float32)

    def _hits(self, rows: Rows, scores: Floats, limit: int) -> Hits:
        order = np.argsort(-scores, kind="stable")[:limit]
        return Hits([self._ids[row] for row in rows[order].tolist()], scores[order])


def _matrix(blobs: list[bytes]) -> Floats:
    return np.frombuffer(b"".join(blobs), "<f2").astype(np.float32).reshape(len(blobs), -1)


def _heard(task: asyncio.Task[None]) -> None:
    """Whoever still waits is told by the task itself; nobody else needs to be."""
    if not task.cancelled():
        task.exception()
