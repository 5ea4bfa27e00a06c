"""The embeddings ledger, followed in memory: written as float16, searched as float32."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import apsw
import numpy as np
from numpy.typing import NDArray

from nexus.ledgers.database import Database
from nexus.ledgers.sql import named
from nexus.memory.embedding.embedder import Embedder
from nexus.memory.embedding.index import ExactIndex, Index

Floats = NDArray[np.float32]

_SQL = named(Path(__file__).with_name("queries.sql"))
_ROWS_A_READ = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Something that has a text to embed."""

    target_type: str
    target_id: str
    text: str

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.text.encode(errors="surrogatepass")).hexdigest()[:32]


class Vectors:
    """One model's vectors: kept in the ledger, mirrored in an index that follows it by its cursor."""

    def __init__(self, database: Database, embedder: Embedder, index: Index | None = None) -> None:
        self.embedder = embedder
        self.index: Index = index or ExactIndex(embedder.dimensions)
        self._database = database
        self._cursor = 0

    async def put(self, sources: Sequence[Source], vectors: Floats) -> None:
        """Keep the vectors; one that a target had is replaced."""
        half = vectors.astype("<f2")
        rows = [
            (source.target_type, source.target_id, self.embedder.model_id, vector.tobytes(), source.hash)
            for source, vector in zip(sources, half, strict=True)
        ]
        await self._database.write(lambda connection: self._write(connection, rows))

    async def missing(self, sources: Sequence[Source]) -> list[Source]:
        """Those whose text has no vector of this model yet."""

        def work(connection: apsw.Connection) -> list[Source]:
            key = self.embedder.model_id
            return [
                source
                for source in sources
                if connection.execute(_SQL["hash_of"], (source.target_type, source.target_id, key)).get
                != source.hash
            ]

        return await self._database.read(work)

    async def refresh(self) -> None:
        """Bring the index up to date with the ledger. Cheap when nothing is new."""
        while rows := await self._database.read(self._newer):
            matrix = np.frombuffer(b"".join(row[2] for row in rows), "<f2").astype(np.float32)
            self.index.put([row[1] for row in rows], matrix.reshape(len(rows), -1))
            self._cursor = rows[-1][0]

    def _newer(self, connection: apsw.Connection) -> list[tuple[int, str, bytes]]:
        rows = connection.execute(_SQL["newer"], (self._cursor, self.embedder.model_id, _ROWS_A_READ))
        return cast("list[tuple[int, str, bytes]]", rows.fetchall())

    def _write(self, connection: apsw.Connection, rows: list[tuple[str, str, str, bytes, str]]) -> None:
        model_id = self.embedder.model_id
        connection.execute(_SQL["register_model"], (model_id, self.embedder.dimensions))
        connection.execute(_SQL["serve_no_model"], (model_id,))
        connection.execute(_SQL["serve_model"], (model_id,))
        connection.executemany(_SQL["put"], rows)
