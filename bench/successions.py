"""Measure how well replaced facts are recognized in authored lives, and learn the judge's weights.

    python bench/successions.py TRAIN… [--leave-one-out] [--test FOLDER…] [--json OUT] [--write WEIGHTS]

With --leave-one-out, every life of TRAIN is judged with weights learned from the other lives only; those
after --test with weights learned from all of TRAIN. Each is judged twice: with the messages in which its
facts were said, and with the facts alone, with the vectors of the model that `nexus init` picks for its
language; and twice more as if its facts were about no entity (`unnamed`), like those that are added without
saying whom they are about. A link is right if the life says so (`replaced_by` in facts.jsonl); `look-alikes`
counts pairs that the life calls distinct and the judge linked. `claimed` says what a writer's claims come
to: how many true ones are linked, and how many false ones (for each fact that replaces nothing, the nearest
earlier one). With --write, weights learned from all of TRAIN are written.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report import progress
from setting import embedder_for

from nexus.memory.succession.judge import Judge, Link, Weights, fit, pair_features
from nexus.memory.succession.pairs import UNNAMED, Statement, opening_names, stems_of

Floats = NDArray[np.float64]
Examples = tuple[list[dict[str, float]], list[bool]]

THRESHOLD = 0.6
_NEAREST = 30
_RIDGE = 3.0
_STEPS = 25
_FORMS = ("messages", "facts")


@dataclass(frozen=True, slots=True)
class Life:
    """The facts of a life in the order in which they were true, and which replaced which."""

    name: str
    language: str
    facts: list[Statement]
    replaced: dict[str, str]
    look_alikes: list[tuple[str, str]]


@dataclass(frozen=True)
class Case:
    """A life as one model sees it: how near each two of its facts are."""

    life: Life
    form: str
    closeness: Floats
    is_unnamed: bool = False

    @cached_property
    def candidates(self) -> list[list[Statement]]:
        """For each fact the earlier ones that share an entity or a meaning with it."""
        found: list[list[Statement]] = []
        facts = self.life.facts
        for row, new in enumerate(facts):
            earlier = sorted(range(row), key=lambda other: -self.closeness[other, row])
            found.append(
                [
                    facts[other]
                    for place, other in enumerate(earlier)
                    if place < _NEAREST or facts[other].entities & new.entities
                ]
            )
        return found

    def near(self, row: int) -> dict[str, float]:
        """How near each earlier fact is."""
        facts = self.life.facts
        return {facts[other].id: float(self.closeness[other, row]) for other in range(row)}


def read(folder: Path, *, with_messages: bool = True) -> Life:
    """Read a life's facts with the names of what they are about, and the messages that said them."""
    names = {row["key"]: row for row in _rows(folder / "entities.jsonl")}
    rows = _rows(folder / "facts.jsonl")
    messages = {row["key"]: row for row in _rows(folder / "messages.jsonl")} if with_messages else {}
    facts: list[Statement] = []
    for seq, row in enumerate(rows):
        said = messages.get(row.get("message", ""))
        called = [names[each] for each in row["about"] if each in names]
        facts.append(
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
                    for entity in called
                    for name in (entity["name"], *entity.get("aliases", []))
                    for stem in stems_of(name)
                ),
                event_id=said["key"] if said else None,
                thread_id=str(said["session"]) if said else None,
                message=said["text"] if said else "",
            )
        )
    return Life(
        folder.name,
        json.loads((folder / "persona.json").read_text(encoding="utf-8"))["language"],
        sorted(facts, key=lambda fact: fact.place),
        {row["key"]: row["replaced_by"] for row in rows if row.get("replaced_by")},
        [(other, row["key"]) for row in rows for other in row.get("distinct_from", ())],
    )


def cases(folder: Path) -> list[Case]:
    """A life with its messages, and its facts alone: how near two facts are, in deviations above the mean."""
    lives = [read(folder, with_messages=with_messages) for with_messages in (True, False)]
    vectors = np.asarray(embedder_for(lives[0].language).embed([fact.text for fact in lives[0].facts]), float)
    cosines = vectors @ vectors.T
    apart = cosines[np.triu_indices(len(cosines), 1)]
    closeness = (cosines - apart.mean()) / apart.std()
    return [
        *(Case(life, form, closeness) for life, form in zip(lives, _FORMS, strict=True)),
        *(
            Case(unname(life), f"{form}, unnamed", closeness, is_unnamed=True)
            for life, form in zip(lives, _FORMS, strict=True)
        ),
    ]


def unname(life: Life) -> Life:
    """The same facts, about the words that they begin with instead of entities."""
    facts: list[Statement] = []
    for fact in life.facts:
        opening = opening_names(fact.text)
        words = frozenset(UNNAMED + name for name in opening)
        subject = UNNAMED + opening[-1] if opening else None
        facts.append(replace(fact, subject=subject, target=None, entities=words, names=frozenset(opening)))
    return replace(life, facts=facts)


def pairs(case: Case) -> Examples:
    """The features of every pair that would be weighed, and whether it is a replacement.

    Among facts about entities those that the judge leaves out are learned from, too.
    """
    facts, replaced = case.life.facts, case.life.replaced
    rows: list[dict[str, float]] = []
    right: list[bool] = []
    known: dict[str, Link] = {}
    for row, new in enumerate(facts):
        others, close = case.candidates[row], case.near(row)
        for old in others:
            if old.id in known or (case.is_unnamed and not fit(old, new)):
                continue
            features = pair_features(new, old, others, close, known)
            if case.is_unnamed and features["restates"] and not features["restates_cued"]:
                continue
            rows.append(features)
            right.append(replaced.get(old.id) == new.id)
        known |= {old: Link(new.id, 1.0) for old, by in replaced.items() if by == new.id}
    return rows, right


def links(case: Case, judge: Judge, claims: Mapping[str, str] | None = None) -> dict[str, str]:
    """The links that the judge makes when it meets the facts one after the other."""
    known: dict[str, Link] = {}
    for row, new in enumerate(case.life.facts):
        claimed = {old: None for old, by in (claims or {}).items() if by == new.id}
        others = case.candidates[row]
        known |= judge.links(new, others, case.near(row), known, claims=claimed)
    return {old: link.new_id for old, link in known.items()}


def learn(cases: Sequence[Case], examples: Sequence[Examples]) -> Judge:
    """Learn the weights of both kinds of pairs, each from its own cases."""
    named, unnamed = (
        _learn([some for case, some in zip(cases, examples, strict=True) if case.is_unnamed is is_unnamed])
        for is_unnamed in (False, True)
    )
    said = json.dumps([asdict(named), asdict(unnamed), THRESHOLD])
    return Judge(hashlib.sha256(said.encode()).hexdigest()[:12], THRESHOLD, named, unnamed)


def _learn(examples: Sequence[Examples]) -> Weights:
    """Logistic regression on standardized features, by Newton's method."""
    rows = [row for some, _ in examples for row in some]
    right = [truth for _, some in examples for truth in some]
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
    bias = round(float(weights[-1] - (scaled * mean).sum()), 5)
    named = {name: round(float(weight), 5) for name, weight in zip(names, scaled, strict=True)}
    means = {name: round(float(value), 5) for name, value in zip(names, mean, strict=True)}
    return Weights(bias, named, means)


def measure(case: Case, judge: Judge) -> dict[str, int]:
    """Links made, right and there; look-alikes linked; what a writer's true and false claims come to."""
    life, found = case.life, links(case, judge)
    replacing = set(life.replaced.values())
    false = {
        case.candidates[row][0].id: fact.id
        for row, fact in enumerate(life.facts)
        if fact.id not in replacing and case.candidates[row]
    }
    true_linked, false_linked = links(case, judge, life.replaced), links(case, judge, false)
    return {
        "made": len(found),
        "right": sum(life.replaced.get(old) == new for old, new in found.items()),
        "there": len(life.replaced),
        "look-alikes linked": sum(found.get(old) == new for old, new in life.look_alikes),
        "look-alikes": len(life.look_alikes),
        "true claims linked": sum(life.replaced.get(old) == new for old, new in true_linked.items()),
        "false claims linked": sum(false.get(old) == new for old, new in false_linked.items()),
        "false claims": len(false),
    }


def show(report: Mapping[str, Mapping[str, dict[str, int]]]) -> None:
    """Print each life and, for more than one, the sum of all."""
    totals: dict[str, dict[str, int]] = {}
    for life, forms in report.items():
        for form, counts in forms.items():
            _print(life, form, counts)
            totals[form] = {name: totals.get(form, {}).get(name, 0) + n for name, n in counts.items()}
    for form, counts in totals.items() if len(report) > 1 else ():
        _print("all", form, counts)


def _print(life: str, form: str, counts: Mapping[str, int]) -> None:
    precision, recall = counts["right"] / max(1, counts["made"]), counts["right"] / max(1, counts["there"])
    claimed = counts["true claims linked"] / max(1, counts["there"])
    print(
        f"{life:<12} {form:<9} precision {precision:.2f}  recall {recall:.2f}  of {counts['there']:>3}  "
        f"look-alikes {counts['look-alikes linked']} of {counts['look-alikes']}  "
        f"claimed: true {claimed:.2f}, false {counts['false claims linked']} of {counts['false claims']}"
    )


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def main() -> None:
    """Read the arguments, measure, and learn if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--leave-one-out", action="store_true", help="measure each training life too")
    parser.add_argument("--test", nargs="+", type=Path, default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    train = [case for folder in given.folders for case in cases(folder)]
    examples = [pairs(case) for case in train]
    progress("features collected")
    report: dict[str, dict[str, dict[str, int]]] = {}
    for case in train if given.leave_one_out else ():
        rest = [pair for pair in zip(train, examples, strict=True) if pair[0].life.name != case.life.name]
        report.setdefault(case.life.name, {})[case.form] = measure(case, learn(*zip(*rest, strict=True)))
    show(report)
    judge = learn(train, examples)
    tested: dict[str, dict[str, dict[str, int]]] = {}
    for case in (case for folder in given.test for case in cases(folder)):
        tested.setdefault(case.life.name, {})[case.form] = measure(case, judge)
    show(tested)
    if given.json:
        given.json.write_text(
            json.dumps({"train": report, "test": tested}, indent=2) + "\n", encoding="utf-8"
        )
    if given.write:
        given.write.write_text(json.dumps(asdict(judge), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
