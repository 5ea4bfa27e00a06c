"""The figures: recall at k, NDCG, MRR, by data set, half and category, with latency; as table and plot."""

# The libraries that only this measurement needs are not installed for the type check.
# pyright: reportMissingImports=false, reportUnknownMemberType=false

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import conversations as talk

Row = dict[str, Any]
_DEPTHS = (5, 10, 20, 50)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one method answered: turns best first, sessions best first, and how long it took."""

    turns: list[str]
    sessions: list[str]
    spent_ms: float
    timings_ms: dict[str, float]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question and every method's outcome."""

    data_set: str
    conversation: talk.Conversation
    question: talk.Question
    half: str
    outcomes: dict[str, Outcome]


def report(asked: list[Asked]) -> list[Row]:
    """One row for each data set, level, method, half and category."""
    rows: list[Row] = []
    for data_set in dict.fromkeys(item.data_set for item in asked):
        of_set = [item for item in asked if item.data_set == data_set]
        for method in of_set[0].outcomes:
            for half in ("all", "tuning", "held out"):
                part = [item for item in of_set if half in ("all", item.half)]
                if part:
                    rows.append(_row(data_set, "turn", method, half, "all", part))
                    if data_set == "locomo":
                        rows.append(_row(data_set, "session", method, half, "all", part))
            for category in sorted({item.question.category for item in of_set}):
                part = [item for item in of_set if item.question.category == category]
                rows.append(_row(data_set, "turn", method, "all", category, part))
    return rows


def _row(data_set: str, level: str, method: str, half: str, category: str, part: list[Asked]) -> Row:
    pairs = [_pair(item, method, level) for item in part]
    spent = sorted(item.outcomes[method].spent_ms for item in part)
    row: Row = {"set": data_set, "level": level, "method": method, "half": half, "category": category}
    row["questions"] = len(part)
    for depth in _DEPTHS:
        row[f"R@{depth}"] = _mean(recall_at(found, wanted, depth) for found, wanted in pairs)
    row["NDCG@10"] = _mean(ndcg_at(found, wanted, 10) for found, wanted in pairs)
    row["MRR"] = _mean(reciprocal_rank(found, wanted) for found, wanted in pairs)
    row["p50_ms"], row["p95_ms"] = spent[len(spent) // 2], spent[int(len(spent) * 0.95)]
    row["embed_ms"] = statistics.median(item.outcomes[method].timings_ms.get("embed", 0.0) for item in part)
    return row


def _pair(item: Asked, method: str, level: str) -> tuple[list[str], frozenset[str]]:
    outcome = item.outcomes[method]
    if level == "turn":
        return outcome.turns, item.question.evidence
    session = {turn.id: turn.session for turn in item.conversation.turns}
    return outcome.sessions, frozenset(session[id_] for id_ in item.question.evidence)


def recall_at(found: list[str], wanted: frozenset[str], depth: int) -> float:
    """The share of what was wanted among the first so many."""
    return len(wanted.intersection(found[:depth])) / len(wanted)


def ndcg_at(found: list[str], wanted: frozenset[str], depth: int) -> float:
    """Recall that counts early places more; 1 for a perfect order."""
    gained = sum(1 / math.log2(i + 2) for i, id_ in enumerate(found[:depth]) if id_ in wanted)
    return gained / sum(1 / math.log2(i + 2) for i in range(min(depth, len(wanted))))


def reciprocal_rank(found: list[str], wanted: frozenset[str]) -> float:
    """One over the place of the first that was wanted."""
    return next((1 / (i + 1) for i, id_ in enumerate(found) if id_ in wanted), 0.0)


def markdown(rows: list[Row], setting: str) -> str:
    """The section for RESULTS.md."""
    lines = ["## Retrieval", "", f"`python bench/retrieval.py`: {setting}", ""]
    lines += [
        "Zero-shot: nothing was learned from these conversations.",
        "",
    ]
    lines += _table("Every method", [row for row in rows if row["category"] == "all"])
    lines += _table(
        "Recall by category",
        [row for row in rows if row["category"] != "all" and row["method"] == "recall"],
    )
    return "\n".join(lines)


def _table(title: str, rows: list[Row]) -> list[str]:
    columns = ["set", "level", "method", "half", "category", "questions"]
    figures = [*(f"R@{depth}" for depth in _DEPTHS), "NDCG@10", "MRR"]
    times = ["p50_ms", "p95_ms", "embed_ms"]
    lines = [f"### {title}", "", "| " + " | ".join([*columns, *figures, *times]) + " |"]
    lines += ["|" + "---|" * (len(columns) + len(figures) + len(times))]
    show: list[tuple[list[str], Callable[[Any], str]]] = [
        (columns, str),
        (figures, lambda value: f"{value:.3f}"),
        (times, lambda value: f"{value:.1f}"),
    ]
    for row in rows:
        cells = [form(row[name]) for names, form in show for name in names]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def plot(rows: list[Row], file: Path) -> None:
    """Recall at 10 of every method on every data set, where matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    draw: Any = plt
    wanted = [row for row in rows if row["category"] == "all" and row["half"] == "held out"]
    groups = list(dict.fromkeys((row["set"], row["level"]) for row in wanted))
    methods = list(dict.fromkeys(row["method"] for row in wanted))
    figure, axes = draw.subplots(figsize=(8, 4))
    for i, method in enumerate(methods):
        heights = [
            next((r["R@10"] for r in wanted if (r["set"], r["level"]) == g and r["method"] == method), 0.0)
            for g in groups
        ]
        axes.bar(
            [g + i / (len(methods) + 1) for g in range(len(groups))],
            heights,
            0.9 / (len(methods) + 1),
            label=method,
        )
    axes.set_xticks([g + 0.4 for g in range(len(groups))], [f"{name}\n{level}" for name, level in groups])
    axes.set_ylabel("recall@10, held-out half")
    axes.legend(ncols=len(methods), fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=120)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
