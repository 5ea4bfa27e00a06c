"""What a benchmark runs with: the embedder, one thread."""

import os
from pathlib import Path

# Two threads of linear algebra stall each other on small scans.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from nexus.memory.embedding import (  # noqa: E402  after the variables
    DEFAULT_MODEL,
    MODELS,
    Encoder,
    find,
    load,
    model_for,
)


def embedder_from(name: str | None, path: Path | None) -> Encoder:
    """The named model, or the default one."""
    return load(find(MODELS[name or DEFAULT_MODEL], path=path))


def embedder_for(language: str) -> Encoder:
    """The model that `nexus init` picks for a language."""
    return load(find(MODELS[model_for(language)]))
