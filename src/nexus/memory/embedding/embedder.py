"""Text to vectors on this machine: a small network on onnxruntime, with its own tokenizer and no download."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from nexus import heap
from nexus.ledgers.text import storable
from nexus.memory.embedding.catalogue import VOCABULARY, Model
from nexus.memory.embedding.files import ModelFiles

Floats = NDArray[np.float32]

# Bounds the padding and the memory of one call. In batches of 2,048 tokens, a short text takes half as much
# time again.
_BATCH_TOKENS = 256
# A question and its gist.
_FEW = 2


class Embedder(Protocol):
    """Whatever turns texts into unit vectors of one length."""

    @property
    def model_id(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Floats:
        """Embed texts to be found: one unit vector per row."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        """Embed questions. Some models mark a question differently from the text that answers it."""
        ...


class Encoder:
    """A BERT-like network that reads a text and gives one unit vector."""

    def __init__(self, files: ModelFiles, *, threads: int = 1) -> None:
        self.model: Model = files.model
        self.model_id: str = files.id
        self._tokenizer = tokenizer(files)
        self._session = session(files, threads)
        self._giving_back = _giving_back()
        self._inputs: set[str] = {node.name for node in self._session.get_inputs()}
        centers = files.model.centers
        self._query_center, self._passage_center = (0.0, 0.0) if centers is None else np.load(centers)

    @property
    def dimensions(self) -> int:
        return self.model.dimensions

    def embed(self, texts: Sequence[str]) -> Floats:
        """Embed texts, cut to the length that the model reads: one unit vector per row."""
        return _unit(self._embed(self.model.passage_prefix, texts) - self._passage_center)

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        """Embed questions, with the prefix that the model was trained on."""
        return _unit(self._embed(self.model.query_prefix, texts) - self._query_center)

    def _embed(self, prefix: str, texts: Sequence[str]) -> Floats:
        prefixed = [prefix + storable(text) for text in texts]
        # The tokenizer reads a batch on threads of its own, which a question or two aren't worth.
        read = self._tokenizer.encode_batch if len(texts) > _FEW else self._encode_each
        encoded: list[list[int]] = [item.ids for item in read(prefixed)]
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for batch in _batches([len(ids) for ids in encoded]):
            vectors[batch] = self._run([encoded[i] for i in batch])
        return vectors

    def _encode_each(self, texts: Sequence[str]) -> list[Any]:
        return [self._tokenizer.encode(text) for text in texts]

    def _run(self, batch: list[list[int]]) -> Floats:
        ids = np.zeros((len(batch), max(map(len, batch))), np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        wanted = {name: value for name, value in feed.items() if name in self._inputs}
        # What a large batch took is given back at once; that of a question and its gist is little.
        options = self._giving_back if len(batch) > _FEW else None
        hidden = cast("Floats", self._session.run(None, wanted, options)[0])
        return _unit(self._pool(hidden, mask))

    def _pool(self, hidden: Floats, mask: NDArray[np.int64]) -> Floats:
        if self.model.pooling == "first":
            return hidden[:, 0]
        total = (hidden * mask[:, :, None]).sum(axis=1)
        return cast("Floats", total / mask.sum(axis=1, keepdims=True))


def _unit(vectors: Floats) -> Floats:
    return cast("Floats", vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9))


@lru_cache(maxsize=4)
def load(files: ModelFiles, *, threads: int = 1) -> Encoder:
    """Open a model, in a third of a second to three seconds.

    All homes of a process share it: it holds no state, and the runtime does not give back all of the
    memory of one that is closed.
    """
    return Encoder(files, threads=threads)


def _batches(lengths: list[int]) -> Iterator[list[int]]:
    """Rows of like length together, so that little is padded."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[row] > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def tokenizer(files: ModelFiles) -> Any:
    """Open a model's tokenizer: its own, or the one over the vocabulary that comes with Nexus."""
    # Imported at first use: both libraries take longer to import than most commands take to run.
    from tokenizers import BertWordPieceTokenizer, Tokenizer

    opened: Any = (
        BertWordPieceTokenizer(str(VOCABULARY), lowercase=True)
        if files.tokenizer is None
        else cast("Any", Tokenizer).from_file(str(files.tokenizer))
    )
    opened.enable_truncation(files.model.max_tokens, strategy="longest_first")
    opened.no_padding()
    return opened


def _giving_back() -> Any:
    """Options of a run after which the runtime keeps none of the memory that it took for it."""
    import onnxruntime  # pyright: ignore[reportMissingTypeStubs]  it ships none

    options: Any = cast("Any", onnxruntime).RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options


def session(files: ModelFiles, threads: int) -> Any:
    """Load a model's network, ready to run."""
    import onnxruntime  # pyright: ignore[reportMissingTypeStubs]  it ships none

    runtime: Any = onnxruntime
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    opened = runtime.InferenceSession(str(files.weights), options, providers=["CPUExecutionProvider"])
    # Reading the file takes three times what the network does.
    heap.give_back()
    return opened
