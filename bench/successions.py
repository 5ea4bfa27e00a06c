"""Measure how well replaced facts are recognized in authored lives, and learn the judge's weights.

    python bench/successions.py FOLDER… [--model NAME…] [--json OUT] [--write WEIGHTS]

Every life is judged with weights learned from the other lives only, with each model's vectors. A link counts
as right if the life says so (`replaced_by` in facts.jsonl). With --write, weights learned from all lives are
written.
"""

import argparse
import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from setting import embedder_from

from nexus.memory.succession.chain import Link, links, nearness
from nexus.memory.succession.judge import Judge
from nexus.memory.succession.pairs import Statement, features, restates, stems_of

Floats = NDArray[np.float64]

THRESHOLD = 0.6
_NEAREST = 30
_RIDGE = 3.0
_STEPS = 25


@dataclass(frozen=True, slots=True)
class Life:
    """The facts of a life in the order in which they were true, and which replaced which."""

    name: str
    facts: list[Statement]
    replaced: dict[str, str]


@dataclass(frozen=True, slots=True)
class Case:
    """A life as one model sees it: how near each two of its facts are."""

    life: Life
    model: str
    closeness: Floats


def read(folder: Path) -> Life:
    """Read a life's facts with the names of what they are about."""
    names = {row["key"]: row for row in _rows(folder / "entities.jsonl")}
    rows = _rows(folder / "facts.jsonl")
    facts = [
        Statement(
            id=row["key"],
            text=row["text"],
            at=row["as_of"] if "T" in row["as_of"] else f"{row['as_of']}T09:00:00.000Z",
            seq=seq,
            subject=next(iter(row["about"]), None),
            target=row["about"][1] if len(row["about"]) > 1 else None,
            entities=frozenset(row["about"]),
            names=frozenset(
                stem
                for key in row["about"]
                if key in names
                for name in (names[key]["name"], *names[key].get("aliases", []))
                for stem in stems_of(name)
            ),
        )
        for seq, row in enumerate(rows)
    ]
    replaced = {row["key"]: row["replaced_by"] for row in rows if row.get("replaced_by")}
    return Life(folder.name, sorted(facts, key=lambda fact: fact.place), replaced)


def case(life: Life, model: str, vectors: Floats) -> Case:
    """How near each two facts are, in standard deviations above the mean of all."""
    cosines = vectors @ vectors.T
    apart = cosines[np.triu_indices(len(cosines), 1)]
    return Case(life, model, (cosines - apart.mean()) / apart.std())


def _known_before(case: Case, row: int) -> list[int]:
    """The earlier facts that share an entity or a meaning with one."""
    facts, new = case.life.facts, case.life.facts[row]
    earlier = sorted(range(row), key=lambda other: -case.closeness[other, row])
    return [
        other
        for place, other in enumerate(earlier)
        if place < _NEAREST or facts[other].entities & new.entities
    ]


def pairs(case: Case) -> tuple[list[dict[str, float]], list[bool]]:
    """The features of every pair that would be weighed, and whether it is a replacement."""
    facts, replaced = case.life.facts, case.life.replaced
    rows: list[dict[str, float]] = []
    right: list[bool] = []
    known: dict[str, Link] = {}
    for row, new in enumerate(facts):
        others = [facts[other] for other in _known_before(case, row)]
        close = {facts[other].id: float(case.closeness[other, row]) for other in range(row)}
        for old in others:
            if old.id not in known and not restates(old, new):
                rows.append(features(old, new, nearness(new, old, others, close, known)))
                right.append(replaced.get(old.id) == new.id)
        known |= {old: Link(new.id, 1.0) for old, by in replaced.items() if by == new.id}
    return rows, right


def judged(case: Case, judge: Judge) -> dict[str, str]:
    """The links that the judge makes when it meets the facts one after the other."""
    known: dict[str, Link] = {}
    facts = case.life.facts
    for row, new in enumerate(facts):
        others = [facts[other] for other in _known_before(case, row)]
        close = {facts[other].id: float(case.closeness[other, row]) for other in range(row)}
        known |= links(new, others, close, known, judge)
    return {old: link.new_id for old, link in known.items()}


def learn(rows: list[dict[str, float]], right: list[bool], version: str = "") -> Judge:
    """Logistic regression on standardized features, by Newton's method."""
    names = list(rows[0])
    raw = np.array([[row[name] for name in names] for row in rows])
    mean, spread = raw.mean(axis=0), np.maximum(raw.std(axis=0), 1e-6)
    table = np.hstack([(raw - mean) / spread, np.ones((len(raw), 1))])
    target = np.array(right, float)
    penalty = np.append(np.full(len(names), _RIDGE), 0.0)
    weights = np.zeros(len(names) + 1)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(table @ weights, -30, 30)))
        gradient = table.T @ (chance - target) + penalty * weights
        curvature = (table * (chance * (1 - chance))[:, None]).T @ table + np.diag(penalty + 1e-9)
        weights = weights - np.linalg.solve(curvature, gradient)
    scaled = weights[:-1] / spread
    return Judge(
        version,
        round(float(weights[-1] - (scaled * mean).sum()), 5),
        {name: round(float(weight), 5) for name, weight in zip(names, scaled, strict=True)},
        THRESHOLD,
    )


def measure(cases: list[Case]) -> dict[str, dict[str, dict[str, int]]]:
    """For each life and model: links made, links right, links there are."""
    learned = {(each.life.name, each.model): pairs(each) for each in cases}
    judges: dict[str, Judge] = {}
    for name in dict.fromkeys(each.life.name for each in cases):
        rest = [learned[key] for key in learned if key[0] != name]
        judges[name] = learn(
            [row for rows, _ in rest for row in rows], [r for _, right in rest for r in right]
        )
    report: dict[str, dict[str, dict[str, int]]] = {}
    for each in cases:
        found = judged(each, judges[each.life.name])
        right = sum(each.life.replaced.get(old) == new for old, new in found.items())
        report.setdefault(each.life.name, {})[each.model] = {
            "made": len(found),
            "right": right,
            "there": len(each.life.replaced),
        }
    return report


def write(cases: list[Case], file: Path) -> None:
    """Learn from all cases, and keep the weights."""
    rows: list[dict[str, float]] = []
    right: list[bool] = []
    for each in cases:
        some, truth = pairs(each)
        rows += some
        right += truth
    judge = learn(rows, right)
    version = hashlib.sha256(json.dumps([judge.bias, judge.weights, judge.threshold]).encode()).hexdigest()[
        :12
    ]
    data = {
        "version": version,
        "threshold": judge.threshold,
        "bias": judge.bias,
        "weights": dict(judge.weights),
    }
    file.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def show(report: dict[str, dict[str, dict[str, int]]]) -> None:
    """Print precision and recall of each life and model, and of each model over all lives."""
    total: dict[str, dict[str, int]] = {}
    for life, models in report.items():
        for model, counts in models.items():
            _line(life, model, counts)
            total[model] = {key: total.get(model, {}).get(key, 0) + value for key, value in counts.items()}
    for model, counts in total.items():
        _line("all", model, counts)


def _line(life: str, model: str, counts: dict[str, int]) -> None:
    precision, recall = counts["right"] / max(1, counts["made"]), counts["right"] / max(1, counts["there"])
    print(f"{life:<12} {model:<24} precision {precision:.2f}  recall {recall:.2f}  {counts}")


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def main() -> None:
    """Read the arguments, measure, and learn if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--model", action="append", help="the default model unless given; may be repeated")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    lives = [read(folder) for folder in given.folders]
    cases: list[Case] = []
    for name in given.model or [None]:
        embedder = embedder_from(name, None)
        for life in lives:
            vectors = np.asarray(embedder.embed([fact.text for fact in life.facts]), float)
            cases.append(case(life, name or "default", vectors))
    report = measure(cases)
    show(report)
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if given.write:
        write(cases, given.write)


if __name__ == "__main__":
    sys.exit(main())
