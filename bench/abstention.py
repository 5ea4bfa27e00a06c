"""How well recall keeps silent: questions asked of their own conversation, and of one that cannot answer.

    python bench/abstention.py DATA --cache CACHE [--learn src/nexus/memory/recall/weights.json] [--write]

A foreign question is one of another conversation of the same half. With --learn, the weights of
"anything here answers this" are learned on the tuning half and written; the report is of both halves.
"""

# The libraries that only this measurement needs are not installed for the type check.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import argparse
import asyncio
import json
import pickle
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import conversations as talk
import numpy as np
from learning import rounded
from report import Figure, machine, table, write_section
from rich.progress import Progress
from setting import embedder_from

from nexus.memory.embedding import Embedder, Vectors
from nexus.memory.recall import Query, Recall, features, ranker
from nexus.memory.recall.item import Budget
from nexus.memory.recall.presets import preset

# Features that mean the same in a small home and in a large one, for every question.
WORDS = ("cover", "turn_cover", "exchange_cover", "bare_rel", "named", "pairs")
MEANING = ("cosine", "gist")
# Of the questions that can be answered, so many may be met with silence.
_LOST = 0.02
_BUDGETS: tuple[Budget, ...] = ("low", "mid", "high")


@dataclass(slots=True)
class Asked:
    """One question, whether its answer is there, and the best of each feature."""

    data_set: str
    half: str
    own: bool
    best: dict[str, float]


async def collect(
    data_set: str,
    half: str,
    conversation: talk.Conversation,
    questions: list[tuple[bool, str]],
    cache: Path,
    embedder: Embedder,
) -> list[Asked]:
    """Ask one conversation its own questions and those of others."""
    async with talk.opened(talk.home_of(conversation, cache / data_set)) as ledgers:
        vectors = Vectors(ledgers.embeddings, embedder)
        await talk.fill(ledgers, conversation, vectors, lambda _: None)
        await vectors.mirror.refresh()
        recall = Recall(ledgers, vectors, now=lambda: conversation.asked_at)
        asked: list[Asked] = []
        for own, text in questions:
            found = await recall.gather(Query(text=text, budget="mid", deadline_ms=60_000))
            rows = np.flatnonzero(found.pool.candidate)
            values = features.table(found.question, found.pool) if len(rows) else {}
            best = {name: float(values[name][rows].max()) if values else 0.0 for name in (*WORDS, *MEANING)}
            asked.append(Asked(data_set, half, own, best))
        return asked


def drawn(
    conversation: talk.Conversation, others: list[talk.Conversation], count: int
) -> list[tuple[bool, str]]:
    """As many of its own questions as of others."""
    choice = random.Random(conversation.name)
    own = [question.text for question in conversation.questions]
    foreign = [question.text for other in others for question in other.questions]
    return [(True, text) for text in choice.sample(own, min(count, len(own)))] + [
        (False, text) for text in choice.sample(foreign, min(count, len(foreign)))
    ]


def learn(asked: list[Asked], names: tuple[str, ...]) -> dict[str, Any]:
    """A probability that anything answers, from the best value of each feature."""
    from sklearn.linear_model import (  # pyright: ignore[reportMissingTypeStubs]  it ships none
        LogisticRegression,
    )

    library: Any = LogisticRegression
    matrix = np.array([[item.best[name] for name in names] for item in asked])
    model = library(C=1.0, max_iter=2000).fit(matrix, [item.own for item in asked])
    return rounded(names, model)


def figures(asked: list[Asked]) -> list[Figure]:
    """For each set and half: how many foreign questions are met with silence, and how many own ones."""
    chance = ranker.load().by_meaning.answerable
    rows: list[Figure] = []
    for data_set in dict.fromkeys(item.data_set for item in asked):
        for half in ("tuning", "held out"):
            part = [item for item in asked if (item.data_set, item.half) == (data_set, half)]
            for budget in _BUDGETS:
                silent = {True: 0, False: 0}
                for item in part:
                    best = {name: np.array([item.best[name]]) for name in chance.weights}
                    silent[item.own] += float(chance.probability(best)[0]) < preset(budget).answerable
                own = sum(item.own for item in part)
                rows.append(
                    Figure(
                        f"{data_set}, {half}, budget {budget}: silent where nothing answers",
                        f"{silent[False] / (len(part) - own):.3f} of {len(part) - own}",
                    )
                )
                rows.append(
                    Figure(
                        f"{data_set}, {half}, budget {budget}: silent where the answer is there",
                        f"{silent[True] / own:.3f} of {own}",
                    )
                )
    return rows


async def main() -> None:
    arguments = _arguments()
    embedder = embedder_from(None, None)
    asked: list[Asked] = pickle.loads(arguments.kept.read_bytes()) if arguments.kept else []
    with Progress() as progress:
        for data_set in [] if arguments.kept else arguments.sets:
            found = talk.read(arguments.data / data_set)
            tuned = talk.tuning(found)
            halves = {c.name: "tuning" if c.name in tuned else "held out" for c in found}
            for conversation in progress.track(found, description=data_set):
                half = halves[conversation.name]
                others = [c for c in found if halves[c.name] == half and c is not conversation]
                questions = drawn(conversation, others, arguments.questions)
                asked += await collect(data_set, half, conversation, questions, arguments.cache, embedder)
    if arguments.keep:
        arguments.keep.write_bytes(pickle.dumps(asked))
    if arguments.learn:
        tuning = [item for item in asked if item.half == "tuning"]
        data = json.loads(arguments.learn.read_text())
        for place, names in (("by_meaning", (*WORDS, *MEANING)), ("by_words", WORDS)):
            data[place]["answerable"] = learn(tuning, names)
            chance = ranker.Logistic(**data[place]["answerable"])
            own = [
                chance.probability({k: np.array([v]) for k, v in i.best.items()})[0] for i in tuning if i.own
            ]
            print(place, data[place]["answerable"], f"loses {_LOST} below {np.quantile(own, _LOST):.3f}")
        arguments.learn.write_text(json.dumps(data, separators=(",", ":")))
        ranker.load.cache_clear()
    text = f"## Silence\n\n`python bench/abstention.py`: {machine()}\n\n" + table(figures(asked))
    print(text)
    if arguments.write:
        write_section("abstention", text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="the folder that holds locomo/, beam-100k/, …")
    parser.add_argument("--cache", type=Path, required=True, help="where homes are kept between runs")
    parser.add_argument("--sets", nargs="+", default=["locomo", "beam-100k"], choices=talk.DATA_SETS)
    parser.add_argument("--questions", type=int, default=30, help="of each kind, for each conversation")
    parser.add_argument("--learn", type=Path, help="the weights file to write into")
    parser.add_argument("--keep", type=Path, help="keep what was collected here")
    parser.add_argument("--kept", type=Path, help="use what was kept before")
    parser.add_argument("--write", action="store_true", help="write the section of RESULTS.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
