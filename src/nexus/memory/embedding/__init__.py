"""Meaning as numbers: the models that make vectors, the ledger that keeps them, the index that searches.

`find` says where a model's files are, `load` opens one, `Vectors` keeps the embeddings ledger, its mirror
searches it, `embed_new` makes the vectors that are missing, and `background` has that done on the engine.
"""

from nexus.memory.embedding.catalogue import (
    DEFAULT_MODEL,
    MODELS,
    MULTILINGUAL_MODEL,
    RERANKERS,
    Build,
    Model,
)
from nexus.memory.embedding.embedder import Embedder, Encoder, load
from nexus.memory.embedding.files import ModelFiles, find, locate
from nexus.memory.embedding.index import Hits, Mirror
from nexus.memory.embedding.job import Backlog, backlog, embed_new
from nexus.memory.embedding.vectors import (
    Vectors,
    choose_model,
    choose_model_id,
    find_installed,
    make_opener,
    model_for,
    open_vectors,
)

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "MULTILINGUAL_MODEL",
    "RERANKERS",
    "Backlog",
    "Build",
    "Embedder",
    "Encoder",
    "Hits",
    "Mirror",
    "Model",
    "ModelFiles",
    "Vectors",
    "backlog",
    "choose_model",
    "choose_model_id",
    "embed_new",
    "find",
    "find_installed",
    "load",
    "locate",
    "make_opener",
    "model_for",
    "open_vectors",
]
