"""A second look at the best few: a small network reads the question and a text together.

It is optional (`nexus models pull ms-marco-minilm-l12-v2`), reads a bounded number of pairs, and stops
when its time is over: what it has not read keeps its place.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, cast

import numpy as np

from nexus import extras
from nexus.errors import ModelFileError
from nexus.ledgers.text import storable
from nexus.memory.embedding.catalogue import MODELS, RERANKERS, Model
from nexus.memory.embedding.embedder import session, tokenizer
from nexus.memory.embedding.files import ModelFiles, find, locate
from nexus.memory.recall.reading import Deadline

# So many pairs at a time: between two batches the clock is looked at.
_BATCH = 4
_LONGEST_TEXT = 2_000
# Log-odds beyond this say no more.
_SUREST = 12.0


class Reranker(Protocol):
    """Whatever can say how well a text fits a question."""

    @property
    def languages(self) -> frozenset[str]:
        """The languages of the questions it may be asked; empty for all."""
        ...

    def fits(self, question: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        """The log-odds that each text answers, best first given; fewer than the texts if time ran out."""
        ...


class CrossEncoder:
    """A BERT-like classifier with one output, on onnxruntime."""

    def __init__(self, files: ModelFiles, *, threads: int = 1) -> None:
        self.languages: frozenset[str] = files.model.languages
        self._tokenizer = tokenizer(files)
        self._session = session(files, threads)
        self._inputs: set[str] = {node.name for node in self._session.get_inputs()}
        self._batch_ms = 0.0  # how long the last one took

    def fits(self, question: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        found: list[float] = []
        for start in range(0, len(texts), _BATCH):
            # A batch that would end after the deadline is not begun: without an end there is no answer.
            if deadline.passed or deadline.left_ms < self._batch_ms:
                break
            started = time.perf_counter()
            found += self._batch(question, texts[start : start + _BATCH])
            self._batch_ms = (time.perf_counter() - started) * 1000
        return found

    def _batch(self, question: str, texts: Sequence[str]) -> list[float]:
        pairs = [(storable(question), storable(text[:_LONGEST_TEXT])) for text in texts]
        encoded: list[Any] = self._tokenizer.encode_batch(pairs)
        width = max(len(pair.ids) for pair in encoded)
        feed = {
            name: np.array([list(values) + [0] * (width - len(values)) for values in rows], np.int64)
            for name, rows in (
                ("input_ids", [pair.ids for pair in encoded]),
                ("attention_mask", [pair.attention_mask for pair in encoded]),
                ("token_type_ids", [pair.type_ids for pair in encoded]),
            )
            if name in self._inputs
        }
        logits = np.asarray(self._session.run(None, feed)[0], np.float64).reshape(len(texts), -1)[:, 0]
        return cast("list[float]", np.clip(logits, -_SUREST, _SUREST).tolist())


_opening = Lock()
_log = logging.getLogger(__name__)


def installed_reranker() -> Reranker | None:
    """Return the best reranker on this machine, opened once per process, or None.

    Opening it takes a third of a second: call it on a thread. A reranker that is installed later is used
    after a restart.
    """
    with _opening:
        return _installed()


async def ready_reranker() -> Reranker | None:
    """Return `installed_reranker()`, on a thread the first time."""
    return _installed() if _installed.cache_info().currsize else await asyncio.to_thread(installed_reranker)


@cache
def _installed() -> Reranker | None:
    if not extras.is_installed("embedding"):
        return None  # whoever searches is told already
    return best_of([MODELS[name] for name in RERANKERS])


def best_of(models: Sequence[Model], *, pulled: Path | None = None) -> Reranker | None:
    """Open the first of the models that is on this machine; one with a wrong hash is logged and skipped."""
    for model in models:
        try:
            if locate(model, pulled=pulled) is not None:
                return CrossEncoder(find(model, pulled=pulled))
        except ModelFileError as error:
            _log.warning("The reranker is not used: %s", error.message)
    return None
