"""What the arms of one recall share."""

from collections.abc import Sequence

import numpy as np

from embedders import Hashes
from nexus.ledgers import Ledgers
from nexus.memory.embedding import Vectors, embed_new
from nexus.memory.recall.item import Query
from nexus.memory.recall.recall import Recall
from unit.memory.recall.homes import LONG_MS, NOW, say


class Marked(Hashes):
    """An embedder that records its questions separately from the texts to be found."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[str] = []

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        self.questions += texts
        return super().embed(texts)


async def test_a_question_is_embedded_as_a_question_and_what_was_said_as_a_text(opened: Ledgers) -> None:
    embedder = Marked()
    vectors = Vectors(opened.embeddings, embedder)
    await say(opened, "t", ("Ann", "The cello is in the hall."))
    await embed_new(opened, vectors)
    assert embedder.questions == []
    recall = Recall(opened, vectors, now=lambda: NOW)
    await recall.find(Query(text="Where is the cello?", deadline_ms=LONG_MS))
    assert "Where is the cello?" in embedder.questions
