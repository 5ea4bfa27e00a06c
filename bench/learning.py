"""Learn recall's weights from data that may ship: authored lives, FriendsQA and QMSum.

    python bench/learning.py bench/lives/train/* [--talk DATA/friendsqa DATA/qmsum] --cache CACHE [--write]
    python bench/learning.py bench/lives/train/* --marks-and-needs --write

Collects the features of every candidate with recall's own code, then learns a weighted sum for each kind of
thing (listwise: the evidence above the rest), how likely a result answers (logistic), and from which
probability a result is marked strong. With --leave-one-out, each life is measured with what was learned from
the others. With --marks-and-needs, the order stays as it is, and only the marks and what tasks need are
learned, from the lives as facts. Benchmarks such as LoCoMo, BEAM and REALTALK are never read.
"""

# The libraries that only this measurement needs are not installed for the type check.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import argparse
import asyncio
import importlib.util
import json
import pickle
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self, cast

import conversations as talk
import life_data
import numpy as np
from numpy.typing import NDArray
from report import progress
from setting import embedder_for

from nexus import clock
from nexus.memory.embedding import Embedder, Vectors
from nexus.memory.languages import DEFAULT
from nexus.memory.recall import features, ranker
from nexus.memory.recall.item import Item, Named, Query
from nexus.memory.recall.order import Gathered
from nexus.memory.recall.ranker import WEIGHTS_OF
from nexus.memory.recall.reading import Deadline
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.reranker import Reranker, installed_reranker

Floats = NDArray[np.float64]

WEIGHTS = Path(__file__).parents[1] / "src/nexus/memory/recall/weights.json"
KINDS = ("fact", "event")
# The same for every candidate of a question, so they order nothing.
_CONSTANT = frozenset({"names", "has_window"})
_DECAY = 2e-3
_NEAREST, _WORDED = 50, 15
_RERANKED = 16
# Lives that the reranker was fine-tuned on say nothing about how sure it may be.
_SEEN_BY_RERANKER = frozenset({"marcus"})
_DEADLINE_MS = 60_000
_STRENGTH: dict[str, tuple[str, ...]] = {
    "words": ("cover", "turn_cover", "word_rel", "about_name", "about_role", "q_terms"),
    # How far something is behind or ahead of others says nothing: of near misses one is the best, too.
    "meaning": (
        "cosine",
        "gist",
        "cover",
        "turn_cover",
        "word_rel",
        "about_name",
        "about_role",
        "about_other",
        "q_terms",
        "time_wanted",
        "number_wanted",
        "cause_wanted",
        "time_missing",
        "number_missing",
    ),
}
_STRENGTH["multilingual"] = _STRENGTH["meaning"]
_STRENGTH["reranked"] = (*_STRENGTH["meaning"], "fit")
# A near miss marked strong is worse than the second of two right answers marked weak.
_UNANSWERED_COUNTS = 4.0
# So many near misses of one language tell where its line is.
_ENOUGH_NEAR = 15
# What tells that a task needs something, beside what ranker.columns adds: for injection.
_LIKENESS = (
    "cosine",
    "gist",
    "cosine_gap",
    "gist_gap",
    "cover",
    "word_rel",
    "about_name",
    "about_role",
    "about_owner",
    "about_other",
    "of_same_subject",
    "constrains",
    "reaches",
    "q_terms",
    "q_first_person",
    "has_time",
    "has_number",
    "length",
    "in_window",
    "score_gap",
)
_MOST_NOISE = 0.44
_SILENT = 0.9
_MOST_TOLD = 6
_MOST_NEAR, _MOST_FAR = 0.25, 0.03
_MOST_MEETINGS = 25


@dataclass(slots=True)
class Example:
    """One question's candidates: their features, which of them are evidence, and what the reranker says."""

    group: str
    kind: str
    names: list[str]
    matrix: NDArray[np.float32]
    like: list[str]
    relevant: NDArray[np.bool_]
    evidence: int
    items: list[Item]
    question: str
    language: str
    answerable: bool
    named: dict[str, Named]
    now: datetime
    home: str = DEFAULT  # the language of the life
    fine: NDArray[np.bool_] | None = None  # of a task: what may be shown
    fits: Floats | None = None

    def rows(self, kind: str) -> NDArray[np.int64]:
        return np.flatnonzero(np.array([own == kind for own in self.like]))


def _example(
    found: Gathered, group: str, row: life_data.Row, relevant: Sequence[bool], evidence: int, now: datetime
) -> Example:
    rows = np.flatnonzero(found.pool.candidate)
    table = features.table(found.question, found.pool)
    items = [found.pool.items[int(i)] for i in rows]
    return Example(
        group,
        row["kind"],
        list(table),
        np.stack([values[rows] for values in table.values()], axis=1).astype(np.float32),
        [WEIGHTS_OF[item.kind] for item in items],
        np.array(relevant, bool),
        evidence,
        items,
        row["text"],
        found.question.language,
        bool(evidence),
        found.entities,
        now,
    )


async def from_life(folder: Path, what: life_data.As) -> list[Example]:
    """Every question of a life, asked of its home."""
    life = life_data.read(folder)
    examples: list[Example] = []
    async with life_data.home_of(life, what) as (recall, filled, _):
        for question in life.questions:
            found = await recall.gather(Query(text=question["text"], deadline_ms=_DEADLINE_MS))
            keys = [
                filled.keys(item.id)
                for item, flag in zip(found.pool.items, found.pool.candidate, strict=True)
                if flag
            ]
            evidence = frozenset(question["evidence"])
            relevant = [bool(k & evidence) for k in keys]
            example = _example(found, life.name, question, relevant, len(evidence), _asked_at(life))
            example.home = life.language
            examples.append(example)
    return examples


async def from_tasks(folder: Path) -> list[Example]:
    """Every task of a life, as injection asks for it."""
    life = life_data.read(folder)
    replaced = {fact["key"] for fact in life.facts if fact.get("replaced_by")}
    examples: list[Example] = []
    async with life_data.home_of(life, "facts") as (recall, filled, _):
        for task in life.tasks:
            query = Query(text=task["text"], budget="low", deadline_ms=_DEADLINE_MS)
            found = await recall.gather(query)
            keys = [
                filled.keys(item.id)
                for item, flag in zip(found.pool.items, found.pool.candidate, strict=True)
                if flag
            ]
            must, fine = frozenset(task["must"]), frozenset([*task["must"], *task["may"]])
            row = {"kind": f"task {task['kind']}", "text": task["text"]}
            relevant = [bool(k & must) for k in keys]
            example = _example(found, life.name, row, relevant, len(must), _asked_at(life))
            example.fine = np.array([bool(k & fine) for k in keys], bool)
            # What was replaced is never told, and an entity is told for its addresses alone.
            examples.append(
                narrowed(
                    example,
                    [
                        at
                        for at, (item, k) in enumerate(zip(example.items, keys, strict=True))
                        if item.kind != "entity" and k.isdisjoint(replaced)
                    ],
                )
            )
    return examples


def _asked_at(life: life_data.Life) -> datetime:
    return clock.parse(life.persona["now"])


async def from_talk(folder: Path, cache: Path, embedder: Embedder) -> list[Example]:
    """Every question of a set of conversations, asked of its own."""
    examples: list[Example] = []
    for conversation in talk.read(folder)[:_MOST_MEETINGS]:
        async with talk.opened(talk.home_of(conversation, cache / folder.name)) as opened:
            vectors = Vectors(opened.embeddings, embedder)
            turn_of = await talk.fill(opened, conversation, vectors, lambda _: None)
            recall = Recall(opened, vectors, now=lambda asked_at=conversation.asked_at: asked_at)
            for question in conversation.questions:
                found = await recall.gather(Query(text=question.text, deadline_ms=_DEADLINE_MS))
                turns = [
                    turn_of.get(item.id)
                    for item, flag in zip(found.pool.items, found.pool.candidate, strict=True)
                    if flag
                ]
                row = {"kind": question.category, "text": question.text}
                relevant = [turn in question.evidence for turn in turns]
                examples.append(
                    _example(found, folder.name, row, relevant, len(question.evidence), conversation.asked_at)
                )
    return examples


class Order:
    """A weighted sum for each kind, learned so that evidence stands above the rest of its question."""

    fit: float | None = None  # what the reranker's word weighs, if that is known

    def __init__(self, examples: Sequence[Example]) -> None:
        self.names = [
            name for name in examples[0].names if not name.startswith("q_") and name not in _CONSTANT
        ]
        columns = [examples[0].names.index(name) for name in self.names]
        used = [e for e in examples if e.relevant.any() and not e.relevant.all()]
        values = np.concatenate([e.matrix[:, columns] for e in used]).astype(np.float64)
        self._scale = np.where(values.std(axis=0) > 1e-6, values.std(axis=0), 1.0)
        weights = self._learned(used, columns)
        # A weight is told for the feature as it is.
        self.weights = {
            kind: dict(zip(self.names, (weights[i][:-1] / self._scale).tolist(), strict=True))
            for i, kind in enumerate(KINDS)
        }
        self.biases = {kind: float(weights[i][-1]) for i, kind in enumerate(KINDS)}

    @classmethod
    def shipped(cls) -> Self:
        """The order of weights.json, with what the reranker's word weighs in it."""
        data = json.loads(WEIGHTS.read_text(encoding="utf-8"))
        order = cls.__new__(cls)
        order.names = sorted({name for kind in KINDS for name in data["order"][kind]["weights"]})
        order.weights = {
            kind: {name: data["order"][kind]["weights"].get(name, 0.0) for name in order.names}
            for kind in KINDS
        }
        order.biases = {kind: data["order"][kind]["bias"] for kind in KINDS}
        order.fit = data["fit"]
        return order

    def _learned(self, used: Sequence[Example], columns: list[int]) -> list[Floats]:
        from scipy.optimize import minimize

        width = len(columns) + 1
        blocks: list[Floats] = []
        for example in used:
            block = np.zeros((len(example.relevant), width * len(KINDS)))
            for i, kind in enumerate(KINDS):
                rows = example.rows(kind)
                block[rows, i * width : (i + 1) * width - 1] = example.matrix[rows][:, columns] / self._scale
                block[rows, (i + 1) * width - 1] = 1.0
            blocks.append(block)
        matrix, relevant = np.concatenate(blocks), np.concatenate([e.relevant for e in used])
        starts = np.cumsum([0, *(len(b) for b in blocks)])[:-1]
        question = np.repeat(np.arange(len(blocks)), [len(b) for b in blocks])

        def loss(weights: Floats) -> tuple[float, Floats]:
            scores = matrix @ weights
            every = np.exp(scores - np.maximum.reduceat(scores, starts)[question])
            right = every * relevant
            total, hit = np.add.reduceat(every, starts), np.add.reduceat(right, starts) + 1e-12
            value = -float(np.log(hit / total).mean()) + _DECAY * float(weights @ weights)
            slope = matrix.T @ (every / total[question] - right / hit[question]) / len(blocks)
            return value, slope + 2 * _DECAY * weights

        start = np.zeros(width * len(KINDS))
        result = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 120})
        learned = cast("Floats", result.x).reshape(len(KINDS), width)
        return [np.append(row[:-1], row[-1]) for row in learned]

    def scores(self, example: Example) -> Floats:
        total = np.zeros(len(example.relevant))
        for kind in KINDS:
            rows = example.rows(kind)
            weights = np.array([self.weights[kind][name] for name in self.names])
            columns = [example.names.index(name) for name in self.names]
            total[rows] = example.matrix[rows][:, columns] @ weights + self.biases[kind]
        return total


def fit_weight(examples: Sequence[Example], scores: Sequence[Floats]) -> float:
    """What the reranker's log-odds weigh beside the scores of the best few: the best of a short list."""

    def hits(weight: float) -> float:
        total = 0.0
        for example, own in zip(examples, scores, strict=True):
            if example.fits is not None and example.answerable:
                final = combined(example, own, weight)
                order = np.argsort(-final, kind="stable")[:5]
                total += float(example.relevant[order].any()) + 0.5 * float(example.relevant[order[0]])
        return total

    return max((0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0), key=hits)


def combined(example: Example, scores: Floats, weight: float) -> Floats:
    """The scores with the reranker's word, as order.py adds it."""
    if example.fits is None:
        return scores
    read = ~np.isnan(example.fits)
    missing = float(np.nanmin(example.fits)) if read.any() else 0.0
    return scores + weight * np.where(read, example.fits, missing)


def read_pairs(examples: Iterable[Example], scores: Sequence[Floats], reranker: Reranker | None) -> None:
    """Let the reranker read the best few of each question that it understands."""
    for example, own in zip(examples, scores, strict=True):
        if reranker is None or example.language not in reranker.languages or example.fits is not None:
            continue
        best = np.argsort(-own, kind="stable")[:_RERANKED]
        example.fits = np.full(len(own), np.nan)
        texts = [example.items[i].text for i in best]
        example.fits[best] = reranker.fits(example.question, texts, Deadline(_DEADLINE_MS))


def strength(examples: Sequence[Example], finals: Sequence[Floats], given: str) -> dict[str, Any]:
    """The probability that one of the first ten results answers."""
    from sklearn.linear_model import LogisticRegression

    rows: list[Floats] = []
    right: list[bool] = []
    counts: list[float] = []
    for example, final in zip(examples, finals, strict=True):
        if _tells(example, given):
            best = np.argsort(-final, kind="stable")[:10]
            rows.append(_strength_rows(example, given)[best])
            right += example.relevant[best].tolist()
            counts += [1.0 if example.answerable else _UNANSWERED_COUNTS] * len(best)
    library: Any = LogisticRegression
    matrix = np.concatenate(rows)
    spread = np.where(matrix.std(axis=0) > 1e-6, matrix.std(axis=0), 1.0)
    model = library(C=1.0, max_iter=2000).fit(matrix / spread, np.array(right), np.array(counts))
    # What counts more makes everything look less likely: a line through the sums puts that right.
    sums = model.decision_function(matrix / spread)[:, None]
    line = library(C=1e3).fit(sums, np.array(right))
    slope, shift = float(line.coef_[0][0]), float(line.intercept_[0])
    weights = zip(_STRENGTH[given], slope * model.coef_[0] / spread, strict=True)
    return {
        "weights": {name: round(float(w), 4) for name, w in weights},
        "bias": round(slope * float(model.intercept_[0]) + shift, 4),
    }


def _tells(example: Example, given: str) -> bool:
    """Whether a question says something about results that are judged in this way."""
    is_english = example.home == DEFAULT
    if given == "reranked":
        return is_english and example.fits is not None and example.group not in _SEEN_BY_RERANKER
    return given == "words" or is_english == (given == "meaning")


def _strength_rows(example: Example, given: str) -> Floats:
    """What order.py tells of each candidate."""
    values = {name: example.matrix[:, at].astype(np.float64) for at, name in enumerate(example.names)}
    if example.fits is not None:
        values["fit"] = np.nan_to_num(example.fits, nan=float(np.nanmin(example.fits)))
    return np.stack([values[name] for name in _STRENGTH[given]], axis=1)


def thresholds(
    examples: Sequence[Example], finals: Sequence[Floats], learned: dict[str, Any], given: str
) -> dict[str, float]:
    """From which probability results are strong, for each language and for all others."""
    weights = np.array(list(learned["weights"].values()))
    best: dict[str, dict[str, list[float]]] = {}
    for example, final in zip(examples, finals, strict=True):
        if "event" in example.like or example.group in _SEEN_BY_RERANKER or not _tells(example, given):
            continue
        order = np.argsort(-final, kind="stable")[:10]
        sums = _strength_rows(example, given)[order] @ weights + learned["bias"]
        chances = (1 / (1 + np.exp(-sums))).tolist()
        for language in ("", example.language):
            own = best.setdefault(language, {"answerable": [], "near": [], "far": []})
            if example.answerable:
                right = zip(chances[:5], example.relevant[order[:5]], strict=True)
                own["answerable"].append(max((chance for chance, hit in right if hit), default=0.0))
            elif example.kind in own:
                own[example.kind].append(max(chances, default=0.0))
    limits: dict[str, float] = {}
    for language, own in best.items():
        if language and len(own["near"]) < _ENOUGH_NEAR:
            continue
        tried = {
            limit: [float(np.mean([value >= limit for value in values])) for values in own.values()]
            for limit in (at / 200 for at in range(1, 200))
        }
        # As many right marks as can be had with few wrong ones on near misses and hardly any on the rest.
        limit = min(at for at, (_, near, far) in tried.items() if near <= _MOST_NEAR and far <= _MOST_FAR)
        limits[language] = limit
        marks = ", ".join(f"{share:.2f}" for share in tried[limit])
        progress(f"strong by {given} in {language or 'any'} from {limit:.3f}: answerable, near, far {marks}")
    return limits


@dataclass(frozen=True, slots=True)
class Offered:
    """What injection would look at for a task: the best, with the features of likeness and of use."""

    example: Example
    best: NDArray[np.int64]
    names: list[str]
    rows: Floats


def offered(example: Example, scores: Floats) -> Offered:
    best = np.argsort(-scores, kind="stable")[: ranker.CONSIDERED]
    values = {name: example.matrix[best, at].astype(np.float64) for at, name in enumerate(example.names)}
    values["score_gap"] = scores[best] - scores.max(initial=-np.inf)
    items = [example.items[row] for row in best]
    use = ranker.columns(example.question, items, values, named=example.named, now=example.now)
    columns = {name: values[name] for name in _LIKENESS} | use
    return Offered(example, best, list(columns), np.stack(list(columns.values()), axis=1))


def need(tasks: Sequence[Example], scores: Sequence[Floats]) -> tuple[dict[str, Any], float, float]:
    """How likely a task needs something; from which probability it is told, and what is told beside it.

    The thresholds are chosen on lives that were left out. What may be shown is neither right nor wrong.
    """
    looked_at = [offered(example, own) for example, own in zip(tasks, scores, strict=True)]
    chances: dict[int, Floats] = {}
    for life in dict.fromkeys(each.example.group for each in looked_at):
        model = _needs([each for each in looked_at if each.example.group != life])
        for at, each in enumerate(looked_at):
            if each.example.group == life:
                chances[at] = _probability(each, model)
    tried = {
        (told, beside): injected(looked_at, chances, told, beside)
        for told in (0.15, 0.18, 0.2, 0.25, 0.3)
        for beside in (0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.18, 0.2)
        if beside <= told
    }
    quiet = [at for at, (_, noise, silent) in tried.items() if noise <= _MOST_NOISE and silent >= _SILENT]
    best = max(quiet, key=lambda at: tried[at][0])
    covered, noise, silent = tried[best]
    progress(f"need from {best}, left out: covered {covered:.2f}, noise {noise:.2f}, silent {silent:.2f}")
    return _needs(looked_at), *best


def _needs(looked_at: Sequence[Offered]) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression

    rows, right = list[Floats](), list[NDArray[np.bool_]]()
    for each in looked_at:
        relevant = each.example.relevant[each.best]
        counts = relevant | ~cast("NDArray[np.bool_]", each.example.fine)[each.best]
        rows.append(each.rows[counts])
        right.append(relevant[counts])
    library: Any = LogisticRegression
    matrix = np.concatenate(rows)
    spread = np.where(matrix.std(axis=0) > 1e-6, matrix.std(axis=0), 1.0)
    model = library(C=0.3, max_iter=2000).fit(matrix / spread, np.concatenate(right))
    weights = zip(looked_at[0].names, model.coef_[0] / spread, strict=True)
    found = {name: round(float(w), 4) for name, w in weights}
    return {"weights": found, "bias": round(float(model.intercept_[0]), 4)}


def _probability(each: Offered, learned: dict[str, Any]) -> Floats:
    weights = np.array(list(learned["weights"].values()))
    return 1 / (1 + np.exp(-(each.rows @ weights + learned["bias"])))


def injected(
    looked_at: Sequence[Offered], chances: dict[int, Floats], told: float, beside: float
) -> tuple[float, float, float]:
    """What the local rule of injection would do: of what tasks need, the noise, and silence where due."""
    covered, silent = list[float](), list[bool]()
    shown = noise = 0
    for at, each in enumerate(looked_at):
        order = np.argsort(-chances[at], kind="stable")[:_MOST_TOLD]
        order = order[chances[at][order] >= (beside if chances[at].max(initial=0.0) >= told else 2.0)]
        rows, example = each.best[order], each.example
        if example.kind == "task none":
            silent.append(not len(rows))
            continue
        fine = cast("NDArray[np.bool_]", example.fine)
        covered.append(float(example.relevant[rows].sum()) / max(1, example.evidence))
        shown, noise = shown + len(rows), noise + int((~fine[rows]).sum())
    return float(np.mean(covered)), noise / max(1, shown), float(np.mean(silent))


def hits(examples: Sequence[Example], finals: Sequence[Floats]) -> str:
    """hit@1 and hit@5 of the questions that have an answer."""
    first = five = count = 0
    for example, final in zip(examples, finals, strict=True):
        if example.answerable:
            order = np.argsort(-final, kind="stable")
            first += bool(example.relevant[order[:1]].any())
            five += bool(example.relevant[order[:5]].any())
            count += 1
    return f"{first / count:.3f} / {five / count:.3f} of {count}" if count else "-"


async def main() -> None:
    arguments = _arguments()
    if any(importlib.util.find_spec(name) is None for name in ("scipy", "sklearn")):
        # Known before collecting, which takes minutes for each life.
        raise SystemExit("bench/learning.py fits its weights with: pip install scipy scikit-learn")
    examples: list[Example] = []
    tasks: list[Example] = []
    for file in arguments.kept:
        kept_examples, kept_tasks = pickle.loads(file.read_bytes())  # noqa: S301 - written by this program
        examples, tasks = examples + kept_examples, tasks + kept_tasks
    for folder in arguments.lives:
        for what in ("facts",) if arguments.marks_and_needs else ("facts", "messages", "both"):
            examples += await from_life(folder, what)
        tasks += await from_tasks(folder)
        progress(f"{folder.name}: {len(examples)} questions so far")
    for example in tasks:
        example.group += " tasks"
    for folder in arguments.talk:
        examples += await from_talk(folder, arguments.cache, embedder_for("en"))
        progress(f"{folder.name}: {len(examples)} questions so far")
    if arguments.keep:
        arguments.keep.write_bytes(pickle.dumps((examples, tasks)))
    examples, tasks = [trimmed(e) for e in examples], [trimmed(e) for e in tasks]
    if arguments.leave_one_out:
        report(examples)
    data = learn(examples, tasks, Order.shipped() if arguments.marks_and_needs else Order(examples))
    if arguments.write:
        kept = json.loads(WEIGHTS.read_text(encoding="utf-8"))
        # Without a reranker nothing is learned about it, and what was known stays.
        for name in ("strength", "strong"):
            data[name] = {**kept[name], **data[name]}
        WEIGHTS.write_text(json.dumps({**kept, **data}, indent=1) + "\n", encoding="utf-8")


def trimmed(example: Example) -> Example:
    """The candidates that compete: the nearest by meaning and by words, and the evidence."""
    near = np.argsort(-example.matrix[:, example.names.index("cosine")], kind="stable")[:_NEAREST]
    worded = np.argsort(-example.matrix[:, example.names.index("word_rel")], kind="stable")[:_WORDED]
    return narrowed(
        example, np.unique(np.concatenate([near, worded, np.flatnonzero(example.relevant)])).tolist()
    )


def narrowed(example: Example, rows: list[int]) -> Example:
    """The example with these of its candidates."""
    return replace(
        example,
        matrix=example.matrix[rows],
        like=[example.like[row] for row in rows],
        relevant=example.relevant[rows],
        items=[example.items[row] for row in rows],
        fine=None if example.fine is None else example.fine[rows],
        fits=None if example.fits is None else example.fits[rows],
    )


def learn(examples: Sequence[Example], tasks: Sequence[Example], order: Order) -> dict[str, Any]:
    """Everything that weights.json holds but what is set by hand."""
    scores = [order.scores(example) for example in examples]
    progress("learned the order")
    lives = [i for i, e in enumerate(examples) if e.kind in (*life_data.ANSWERED, *life_data.UNANSWERED)]
    # What the reranker says of facts is enough to weigh it: it reads slowly.
    facts = [i for i in lives if "event" not in examples[i].like]
    read_pairs([examples[i] for i in facts], [scores[i] for i in facts], installed_reranker())
    fit = order.fit if order.fit is not None else fit_weight(examples, scores)
    finals = [combined(example, own, fit) for example, own in zip(examples, scores, strict=True)]
    judged, final = [examples[i] for i in lives], [finals[i] for i in lives]
    data: dict[str, Any] = {
        "order": {
            kind: {
                "weights": {name: round(w, 4) for name, w in order.weights[kind].items() if abs(w) > 5e-5},
                "bias": round(order.biases[kind], 4),
            }
            for kind in KINDS
        },
        "fit": fit,
        "strength": {},
        "strong": {},
    }
    needs = need(tasks, [order.scores(task) for task in tasks])
    data["need"], data["need_threshold"], data["need_threshold_beside"] = needs
    for given in _STRENGTH:
        if given == "reranked" and all(e.fits is None for e in judged):
            continue
        data["strength"][given] = strength(judged, final, given)
        data["strong"][given] = thresholds(judged, final, data["strength"][given], given)
    return data


def report(examples: Sequence[Example]) -> None:
    """What is learned from all but one life, on that life."""
    groups = list(dict.fromkeys(example.group for example in examples))
    for group in groups:
        own = [example for example in examples if example.group == group]
        order = Order([example for example in examples if example.group != group])
        progress(f"left out {group}: {hits(own, [order.scores(e) for e in own])}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lives", type=Path, nargs="*", help="folders of lives to learn from")
    parser.add_argument("--talk", type=Path, nargs="*", default=[], help="folders of conversations")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "nexus-learning")
    parser.add_argument("--keep", type=Path, help="keep what was collected here")
    parser.add_argument("--kept", type=Path, nargs="*", default=[], help="learn from what was kept before")
    parser.add_argument("--leave-one-out", action="store_true", help="learn without each life, and report it")
    parser.add_argument(
        "--marks-and-needs", action="store_true", help="keep the order; learn the marks and what tasks need"
    )
    parser.add_argument("--write", action="store_true", help="write src/nexus/memory/recall/weights.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
