"""How near in meaning a new entity is to known ones, as one sign among those that make a merge candidate."""

import asyncio
import json
from collections.abc import Sequence

import numpy as np

from nexus.ledgers import sql
from nexus.ledgers.database import Database
from nexus.ledgers.sql import rows
from nexus.memory.embedding.embedder import Embedder


class Alike:
    """Compares a text with the vectors that entities have. An entity without a vector is left out."""

    def __init__(self, embeddings: Database, embedder: Embedder) -> None:
        self._embeddings = embeddings
        self._embedder = embedder

    async def __call__(self, text: str, entity_ids: Sequence[str]) -> dict[str, float]:
        """The cosine with each entity that has a vector of this model."""
        bindings = (self._embedder.model_id, json.dumps(list(entity_ids)))
        query = sql.queries("embeddings")["vectors_of_entities"]
        found = await self._embeddings.read(rows, query, bindings)
        if not found:
            return {}
        made = await asyncio.to_thread(self._embedder.embed, [text])
        matrix = np.frombuffer(b"".join(row[1] for row in found), "<f2").astype(np.float32)
        cosines: list[float] = (matrix.reshape(len(found), -1) @ made[0]).tolist()
        return {str(row[0]): cosine for row, cosine in zip(found, cosines, strict=True)}
