"""What others would find in the same conversations: plain BM25, plain vectors, their rank fusion, mem0."""

# The libraries that only this measurement needs are not installed for the type check.
# pyright: reportMissingImports=false

import importlib.util
import math
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import conversations as talk
import numpy as np

from nexus.ledgers import Ledgers
from nexus.memory.embedding import Embedder, Vectors
from nexus.memory.embedding.vectors import event_text
from nexus.memory.languages import detect
from nexus.memory.recall.words import function_words, tokens

_DEEPEST = 50
T = TypeVar("T", str, int)


class Baseline(Protocol):
    """Another way to answer: prepared once for a conversation, then asked."""

    name: str

    async def prepare(self, ledgers: Ledgers, vectors: Vectors, conversation: talk.Conversation) -> None: ...

    async def ask(self, question: str) -> tuple[list[str], list[str]]:
        """Turn ids and session ids, best first."""
        ...


def baselines(embedder: Embedder, *, mem0: bool) -> list[Baseline]:
    """Every baseline that can run here."""
    found: list[Baseline] = [PlainBM25(), PlainVectors(), RankFusion()]
    if mem0 and importlib.util.find_spec("mem0"):
        found.append(Mem0(embedder))
    return found


class PlainBM25:
    """BM25 over single turns (and, for sessions, over whole sessions), stop-words dropped."""

    name = "bm25"

    async def prepare(self, ledgers: Ledgers, vectors: Vectors, conversation: talk.Conversation) -> None:
        self._turns = [turn.id for turn in conversation.turns]
        texts = [Counter(tokens(f"{turn.speaker} {turn.text}")) for turn in conversation.turns]
        self._index = BM25(texts)
        joined: dict[str, Counter[str]] = {}
        for turn, counted in zip(conversation.turns, texts, strict=True):
            joined.setdefault(turn.session, Counter()).update(counted)
        self._sessions = list(joined)
        self._session_index = BM25(list(joined.values()))

    async def ask(self, question: str) -> tuple[list[str], list[str]]:
        words = [word for word in dict.fromkeys(tokens(question)) if word not in function_words()]
        turns = [self._turns[i] for i in self._index.best(words)[:_DEEPEST]]
        return turns, [self._sessions[i] for i in self._session_index.best(words)]


class PlainVectors:
    """The nearest turns by cosine, with the same embedder."""

    name = "vectors"

    async def prepare(self, ledgers: Ledgers, vectors: Vectors, conversation: talk.Conversation) -> None:
        self._vectors = vectors
        self._session = {turn.id: turn.session for turn in conversation.turns}
        rows = await ledgers.events.read(lambda c: c.execute("SELECT id, external_id FROM events").fetchall())
        self._turn = {str(row[0]): str(row[1]) for row in rows}

    async def ask(self, question: str) -> tuple[list[str], list[str]]:
        vector = self._vectors.embedder.embed_queries([question])
        (hits,) = await self._vectors.mirror.search(vector, len(self._turn))
        turns = [self._turn[id_] for id_ in hits.ids]
        return turns[:_DEEPEST], list(dict.fromkeys(self._session[turn] for turn in turns))


class RankFusion:
    """Reciprocal rank fusion (k = 60) of those two."""

    name = "rrf"

    def __init__(self) -> None:
        self._parts = (PlainBM25(), PlainVectors())

    async def prepare(self, ledgers: Ledgers, vectors: Vectors, conversation: talk.Conversation) -> None:
        for part in self._parts:
            await part.prepare(ledgers, vectors, conversation)

    async def ask(self, question: str) -> tuple[list[str], list[str]]:
        answers = [await part.ask(question) for part in self._parts]
        return fused([turns for turns, _ in answers])[:_DEEPEST], fused([found for _, found in answers])


class Mem0:
    """mem0 with `infer=False`: it stores the turns as they are and never asks a model."""

    name = "mem0"

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def prepare(self, ledgers: Ledgers, vectors: Vectors, conversation: talk.Conversation) -> None:
        os.environ.update(MEM0_TELEMETRY="False", OPENAI_API_KEY="unused", MEM0_DIR=tempfile.mkdtemp())
        import mem0  # pyright: ignore[reportMissingTypeStubs]  it ships none

        store = {"collection_name": "bench", "path": tempfile.mkdtemp(), "embedding_model_dims": 384}
        config = {
            "vector_store": {"provider": "qdrant", "config": store},
            "embedder": {"provider": "openai", "config": {"embedding_dims": 384}},
            "history_db_path": ":memory:",
        }
        library: Any = mem0
        self._memory = library.Memory.from_config(config)
        texts = [event_text(turn.speaker, turn.text) for turn in conversation.turns]
        self._memory.embedding_model = _Same(self._embedder, texts)
        self._session = {turn.id: turn.session for turn in conversation.turns}
        for turn, text in zip(conversation.turns, texts, strict=True):
            self._memory.add(text, user_id="bench", infer=False, metadata={"turn": turn.id})

    async def ask(self, question: str) -> tuple[list[str], list[str]]:
        found = self._memory.search(question, top_k=_DEEPEST, filters={"user_id": "bench"}, threshold=0.0)
        turns = [str(entry["metadata"]["turn"]) for entry in found["results"]]
        return turns, list(dict.fromkeys(self._session[turn] for turn in turns))


class _Same:
    """Our embedder as mem0 calls it: one text at a time, so what is stored is embedded beforehand."""

    def __init__(self, embedder: Embedder, texts: list[str]) -> None:
        self._embedder = embedder
        self._made = dict(zip(texts, embedder.embed(texts).tolist(), strict=True))
        self.config = type(
            "Config", (), {"embedding_dims": embedder.dimensions, "model": embedder.model_id}
        )()

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self._made.get(text) or self._embedder.embed_queries([text])[0].tolist()

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class BM25:
    """BM25 as in the textbook: k1 = 1.2, b = 0.75, stop words of the text's language dropped."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> "BM25":
        """Index plain texts, each stemmed by the rules of its own language."""
        return cls([Counter(tokens(text, detect(text))) for text in texts])

    def ask(self, question: str) -> list[int]:
        """The rows that share words with a question, best first."""
        language = detect(question)
        empty = function_words(language)
        return self.best([word for word in dict.fromkeys(tokens(question, language)) if word not in empty])

    def __init__(self, texts: list[Counter[str]]) -> None:
        self._lengths = np.array([sum(text.values()) for text in texts], float)
        self._rows: dict[str, list[tuple[int, int]]] = {}
        for row, text in enumerate(texts):
            for word, count in text.items():
                self._rows.setdefault(word, []).append((row, count))

    def best(self, words: list[str]) -> list[int]:
        total = len(self._lengths)
        scores = np.zeros(total)
        mean = self._lengths.mean()
        for word in words:
            rows = self._rows.get(word, [])
            idf = math.log(1 + (total - len(rows) + 0.5) / (len(rows) + 0.5))
            for row, count in rows:
                norm = 1.2 * (0.25 + 0.75 * self._lengths[row] / mean)
                scores[row] += idf * count * 2.2 / (count + norm)
        return [int(i) for i in np.argsort(-scores, kind="stable") if scores[i] > 0]


def fused(lists: Sequence[Sequence[T]]) -> list[T]:
    """Reciprocal rank fusion (k = 60)."""
    scores: dict[T, float] = {}
    for found in lists:
        for rank, id_ in enumerate(found, start=1):
            scores[id_] = scores.get(id_, 0.0) + 1 / (60 + rank)
    return sorted(scores, key=lambda id_: -scores[id_])
