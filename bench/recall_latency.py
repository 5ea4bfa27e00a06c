"""How long a recall takes when a home holds many facts, warm, for each budget.

    python bench/recall_latency.py --facts 100000 1000000 --cache CACHE [--write]

Facts are made of English words with the frequencies of a natural language, and of vectors in clusters;
questions are drawn from the same words. The query's own embedding is a part of each time, and is
reported apart as well. Processor time is what the recall took of all cores together: on a machine that
does other things too it tells more than the clock.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

# As the program does: two threads of linear algebra only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import report
from numpy.typing import NDArray
from report import Figure
from rich.progress import track
from setting import embedder_from

from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers, memory
from nexus.memory.embedding import Embedder, Vectors
from nexus.memory.embedding.catalogue import VOCABULARY
from nexus.memory.embedding.vectors import Source
from nexus.memory.recall.item import Budget, Query
from nexus.memory.recall.recall import Recall

_BUDGETS: tuple[Budget, ...] = ("low", "mid", "high")
_BATCH = 5_000
_QUESTIONS = 60
_TARGETS_MS: dict[tuple[int, Budget], int] = {
    (100_000, "low"): 40,
    (100_000, "mid"): 120,
    (100_000, "high"): 600,
    (1_000_000, "low"): 150,
    (1_000_000, "mid"): 400,
    (1_000_000, "high"): 1_200,
}


@dataclass(slots=True)
class Spent:
    """What a row of questions took."""

    clock_ms: list[float] = field(default_factory=list[float])
    processor_ms: list[float] = field(default_factory=list[float])
    embedding_ms: list[float] = field(default_factory=list[float])
    late: int = 0


class Speaker:
    """Sentences of English words, common ones often and rare ones seldom, with no sense in them."""

    def __init__(self, seed: int) -> None:
        self._numbers = np.random.default_rng(seed)
        known = VOCABULARY.read_text(encoding="utf-8").splitlines()
        self.words = [word for word in known if word.isalpha() and word.isascii() and len(word) > 1]
        weights = 1 / np.arange(1, len(self.words) + 1)
        self._share = weights / weights.sum()

    def sentences(self, count: int, length: int) -> list[str]:
        chosen = self._numbers.choice(len(self.words), size=(count, length), p=self._share)
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
        ids = await opened.memory.write(memory.append_facts, facts)
        sources = [
            Source(target_type="fact", target_id=id_, text=text) for id_, text in zip(ids, texts, strict=True)
        ]
        await vectors.put(sources, speaker.vectors(len(ids), vectors.embedder.dimensions))


async def ask(recall: Recall, questions: Sequence[str], budget: Budget) -> Spent:
    """Ask one question after the other."""
    spent = Spent()
    for text in questions:
        started, busy = time.perf_counter(), time.process_time()
        answer = await recall.find(Query(text=text, budget=budget))
        spent.clock_ms.append((time.perf_counter() - started) * 1000)
        spent.processor_ms.append((time.process_time() - busy) * 1000)
        spent.embedding_ms.append(answer.timings_ms.get("embed", 0.0))
        spent.late += bool(answer.late_arms)
    return spent


async def measure(facts: int, cache: Path, embedder: Embedder) -> list[Figure]:
    """Fill a home with so many facts, where that was not done before, and ask it."""
    home = Home(cache / f"facts-{facts}")
    if not home.exists:
        home.create()
    async with Ledgers(home, LedgersConfig(synchronous="normal")) as opened:
        vectors = Vectors(opened.embeddings, embedder)
        held = int(str(await opened.memory.read(lambda c: c.execute("SELECT count(*) FROM facts").get)))
        await fill(opened, vectors, Speaker(held + 7), facts - held)
        before = _resident_mib()
        await vectors.mirror.refresh()
        memory_mib = _resident_mib() - before
        recall = Recall(opened, vectors)
        questions = [f"When did {text}?" for text in Speaker(3).sentences(_QUESTIONS, 6)]
        await ask(recall, questions[:10], "high")
        rows = [
            Figure(
                f"{facts:,} facts: the index of their vectors",
                f"{vectors.mirror.nbytes / 1e6:.0f} MB; with ids and all else it brought {memory_mib} MiB",
            )
        ]
        for budget in _BUDGETS:
            report.progress(f"{facts:,} facts, budget {budget}")
            rows.append(_figure(facts, budget, await ask(recall, questions, budget)))
        return rows


def _figure(facts: int, budget: Budget, spent: Spent) -> Figure:
    p50, p95 = np.percentile(spent.clock_ms, [50, 95])
    busy50, busy95 = np.percentile(spent.processor_ms, [50, 95])
    target = _TARGETS_MS.get((facts, budget))
    return Figure(
        f"{facts:,} facts, budget {budget}",
        f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, longest {max(spent.clock_ms):.0f} ms; processor time p50 "
        f"{busy50:.0f} ms, p95 {busy95:.0f} ms; embedding of the question p50 "
        f"{np.median(spent.embedding_ms):.0f} ms; late arms in {spent.late} of {len(spent.clock_ms)}",
        f"p95 < {target} ms" if target else "",
        None if target is None else bool(p95 < target),
    )


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--facts", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--model", default=None)
    parser.add_argument("--model-path", type=Path, default=None)
    parser.add_argument("--write", action="store_true", help="write the section of RESULTS.md")
    arguments = parser.parse_args()
    embedder: Embedder = embedder_from(arguments.model, arguments.model_path)
    rows = [row for facts in arguments.facts for row in await measure(facts, arguments.cache, embedder)]
    text = (
        f"## Recall latency\n\n`python bench/recall_latency.py`, embedder `{embedder.model_id}`: "
        f"{report.machine()}\n\n{report.table(rows)}"
    )
    print(text)
    if arguments.write:
        report.write_section("recall latency", text)


def _resident_mib() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024**2


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
