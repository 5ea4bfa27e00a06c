"""How long a recall takes when a home holds many facts, warm, for each budget.

    python bench/recall_latency.py --facts 100000 --cache CACHE

Facts are made of words with the frequencies of a natural language and vectors in clusters; questions
are drawn from the same words. The query's own embedding is reported apart.
"""

import argparse
import asyncio
import random
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.progress import track
from setting import embedder_from

from nexus import ledgers
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers, memory
from nexus.memory.embedding import Embedder, Vectors
from nexus.memory.embedding.sources import Source
from nexus.memory.recall import Budget, Query, Recall

_BUDGETS: tuple[Budget, ...] = ("low", "mid", "high")
_WORDS = 30_000
_BATCH = 5_000
_QUESTIONS = 60


class Speaker:
    """Sentences of invented words, common ones often and rare ones seldom."""

    def __init__(self, seed: int) -> None:
        self._numbers = np.random.default_rng(seed)
        parts = ["ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "zu"]
        spelled = random.Random(1)  # every speaker knows the same words
        self.words = ["".join(spelled.choices(parts, k=3)) + str(i % 97) for i in range(_WORDS)]
        weights = 1 / np.arange(1, _WORDS + 1)
        self._share = weights / weights.sum()

    def sentences(self, count: int, length: int) -> list[str]:
        chosen = self._numbers.choice(_WORDS, size=(count, length), p=self._share)
        return [" ".join(self.words[int(i)] for i in row) for row in chosen.tolist()]

    def vectors(self, count: int, dimensions: int) -> NDArray[np.float32]:
        centres = np.random.default_rng(1).normal(size=(500, dimensions))
        found = centres[self._numbers.integers(500, size=count)] + self._numbers.normal(
            size=(count, dimensions)
        )
        return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


async def fill(opened: Ledgers, vectors: Vectors, speaker: Speaker, missing: int) -> None:
    """Append facts with vectors until there are enough."""
    for _ in track(range(0, missing, _BATCH), description="facts"):
        texts = speaker.sentences(_BATCH, 14)
        facts = [memory.NewFact(fact=text) for text in texts]
        ids = await opened.memory.write(lambda c, facts=facts: memory.append_facts(c, facts))
        sources = [
            Source(target_type="fact", target_id=id_, text=text) for id_, text in zip(ids, texts, strict=True)
        ]
        await vectors.put(sources, speaker.vectors(len(ids), vectors.embedder.dimensions))


async def ask(recall: Recall, questions: Sequence[str], budget: Budget) -> str:
    """One line: p50 and p95 of all, and the query embedding's own median."""
    spent: list[float] = []
    embedding: list[float] = []
    late = 0
    for text in questions:
        started = time.perf_counter()
        answer = await recall.find(Query(text=text, budget=budget))
        spent.append((time.perf_counter() - started) * 1000)
        embedding.append(answer.timings_ms.get("embed", 0.0))
        late += bool(answer.late_arms)
    p50, p95 = np.percentile(spent, [50, 95])
    return f"| {budget} | {p50:.0f} | {p95:.0f} | {max(spent):.0f} | {np.median(embedding):.1f} | {late} |"


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--facts", type=int, default=100_000)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--model", default=None)
    parser.add_argument("--model-path", type=Path, default=None)
    arguments = parser.parse_args()
    embedder: Embedder = embedder_from(arguments.model, arguments.model_path)
    home = Home(arguments.cache / f"facts-{arguments.facts}")
    if not home.exists:
        home.create()
        ledgers.create(home)
    async with Ledgers(home, LedgersConfig(synchronous="normal")) as opened:
        vectors = Vectors(opened.embeddings, embedder)
        held = await opened.memory.read(lambda c: c.execute("SELECT count(*) FROM facts").get)
        await fill(opened, vectors, Speaker(int(str(held)) + 7), arguments.facts - int(str(held)))
        await vectors.mirror.refresh()
        recall = Recall(opened, vectors)
        questions = [f"When did {text}?" for text in Speaker(3).sentences(_QUESTIONS, 6)]
        await ask(recall, questions[:10], "high")
        print(f"{len(vectors.mirror):,} vectors; peak memory {_peak_mib()} MiB\n")
        print("| budget | p50 ms | p95 ms | max ms | query embedding ms | with late arms |")
        print("|---|---|---|---|---|---|")
        for budget in _BUDGETS:
            print(await ask(recall, questions, budget), flush=True)


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
