"""Learn recall's weights from the tuning half of the benchmark's conversations.

Collects the features of every candidate with recall's own code, learns small ranking trees
(lightgbm), a logistic relevance and the weights of threads, and writes weights.json. Nothing of the
other half is looked at.

    python bench/learning.py DATA --cache CACHE --write src/nexus/memory/recall/weights.json
"""

# The libraries that only this measurement needs are not installed for the type check.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import argparse
import asyncio
import json
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import conversations as talk
import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress
from setting import embedder_from

from nexus.memory.embedding import Embedder, Vectors
from nexus.memory.recall import Query, Recall, features
from nexus.memory.recall.item import Budget

Floats = NDArray[np.float64]

# Rows of pure context never reach the trees; what stays out of them is measured against no answer.
_LEFT_OUT: frozenset[str] = frozenset()
_TREES = {
    "objective": "lambdarank",
    "learning_rate": 0.05,
    "num_leaves": 8,
    "min_data_in_leaf": 60,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "lambda_l2": 5.0,
    "lambdarank_truncation_level": 20,
    "verbose": -1,
    "num_threads": 1,
    "seed": 7,
    "deterministic": True,
}
_ROUNDS = 250
# Features that mean the same in a small home and in a large one, for every question.
_WORDS = ("cover", "turn_cover", "exchange_cover", "named")
_MEANING = ("cosine", "gist")


@dataclass(slots=True)
class Example:
    """One question's candidates: features, which of them are evidence, and their threads."""

    data_set: str
    conversation: str
    category: str
    names: list[str]
    matrix: NDArray[np.float32]
    relevant: NDArray[np.int8]
    thread_ids: list[str]
    evidence: int
    evidence_threads: frozenset[str]


async def collect(
    data_set: str, conversation: talk.Conversation, cache: Path, embedder: Embedder, budget: Budget
) -> list[Example]:
    """Ask every question and keep what the ranker would see."""
    examples: list[Example] = []
    async with talk.opened(talk.home_of(conversation, cache / data_set)) as ledgers:
        vectors = Vectors(ledgers.embeddings, embedder)
        turn_of = await talk.fill(ledgers, conversation, vectors, lambda _: None)
        session = {turn.id: turn.session for turn in conversation.turns}
        recall = Recall(ledgers, vectors, now=lambda: conversation.asked_at)
        for question in conversation.questions:
            found = await recall.gather(Query(text=question.text, budget=budget, deadline_ms=60_000))
            rows = np.flatnonzero(found.pool.candidate)
            table = features.table(found.question, found.pool)
            turns = [turn_of[found.pool.items[row].id] for row in rows]
            examples.append(
                Example(
                    data_set,
                    conversation.name,
                    question.category,
                    list(table),
                    np.stack([values[rows] for values in table.values()], axis=1).astype(np.float32),
                    np.array([turn in question.evidence for turn in turns], np.int8),
                    [session[turn] for turn in turns],
                    len(question.evidence),
                    frozenset(session[turn] for turn in question.evidence),
                )
            )
    return examples


def learn_trees(examples: list[Example], names: list[str], rounds: int = _ROUNDS, **changes: Any) -> Any:
    """Ranking trees over the named features."""
    import lightgbm

    library: Any = lightgbm
    columns = [examples[0].names.index(name) for name in names]
    matrix = np.concatenate([example.matrix[:, columns] for example in examples])
    relevant = np.concatenate([example.relevant for example in examples])
    groups = [len(example.relevant) for example in examples]
    data = library.Dataset(matrix, relevant, group=groups, feature_name=names)
    return library.train({**_TREES, **changes}, data, rounds)


def learn_relevance(examples: list[Example], names: tuple[str, ...]) -> dict[str, Any]:
    """A probability from features that mean the same for every question."""
    from sklearn.linear_model import (  # pyright: ignore[reportMissingTypeStubs]  it ships none
        LogisticRegression,
    )

    library: Any = LogisticRegression
    columns = [examples[0].names.index(name) for name in names]
    matrix = np.concatenate([example.matrix[:, columns] for example in examples]).astype(float)
    relevant = np.concatenate([example.relevant for example in examples])
    model = library(C=1.0, max_iter=1000).fit(matrix, relevant)
    return rounded(names, model)


def rounded(names: tuple[str, ...], model: Any) -> dict[str, Any]:
    """A logistic model as data."""
    weights = {name: round(float(w), 4) for name, w in zip(names, model.coef_[0], strict=True)}
    return {"weights": weights, "bias": round(float(model.intercept_[0]), 4)}


def plain_trees(model: Any) -> list[list[list[float]]]:
    """Each tree as nodes [feature or -1, threshold or value, left, right]."""
    result: list[list[list[float]]] = []
    for tree in model.dump_model()["tree_info"]:
        nodes: list[list[float]] = []
        _flatten(tree["tree_structure"], nodes)
        result.append(nodes)
    return result


def _flatten(node: dict[str, Any], nodes: list[list[float]]) -> int:
    at = len(nodes)
    if "leaf_value" in node:
        nodes.append([-1, round(node["leaf_value"], 5), 0, 0])
        return at
    nodes.append([node["split_feature"], float(f"{node['threshold']:.6g}"), 0, 0])
    nodes[at][2] = _flatten(node["left_child"], nodes)
    nodes[at][3] = _flatten(node["right_child"], nodes)
    return at


async def main() -> None:
    arguments = _arguments()
    embedder = embedder_from(arguments.model, arguments.model_path)
    examples: list[Example] = [item for file in arguments.kept for item in pickle.loads(file.read_bytes())]
    with Progress() as progress:
        sets: list[str] = [] if arguments.kept else arguments.sets
        for data_set in sets:
            found = talk.read(arguments.data / data_set)
            chosen = [c for c in found if arguments.all or c.name in talk.tuning(found)]
            for conversation in progress.track(chosen, description=data_set):
                examples += await collect(data_set, conversation, arguments.cache, embedder, arguments.budget)
    if arguments.keep:
        arguments.keep.write_bytes(pickle.dumps(examples))
    if arguments.write:
        write(examples, arguments.write)


def write(examples: list[Example], file: Path) -> None:
    """Learn everything and write it."""
    names = [name for name in examples[0].names if name not in _LEFT_OUT]
    model = learn_trees(examples, names)
    # What is set by hand, and what bench/abstention.py learns, stays as it is.
    data = json.loads(file.read_text(encoding="utf-8"))
    data["features"], data["trees"] = names, plain_trees(model)
    data["by_meaning"]["relevance"] = learn_relevance(examples, (*_WORDS, *_MEANING))
    data["by_words"]["relevance"] = learn_relevance(examples, _WORDS)
    file.write_text(json.dumps(data, separators=(",", ":")), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder that holds locomo/, beam-100k/, …")
    parser.add_argument("--cache", type=Path, required=True, help="where homes are kept between runs")
    parser.add_argument("--sets", nargs="+", default=["locomo", "beam-100k"], choices=talk.DATA_SETS)
    parser.add_argument("--budget", default="high", choices=("low", "mid", "high"))
    parser.add_argument("--model", default=None, help="the embedding model's name")
    parser.add_argument("--model-path", type=Path, default=None, help="the model's file")
    parser.add_argument("--write", type=Path, help="the weights file to write")
    parser.add_argument("--keep", type=Path, help="keep the collected features here")
    parser.add_argument("--kept", type=Path, nargs="+", default=[], help="learn from features kept before")
    parser.add_argument("--all", action="store_true", help="collect the other half too, to measure on it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
