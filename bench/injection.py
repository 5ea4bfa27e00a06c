"""What is injected with the local triage alone: how precise it is, and how often it keeps silent.

    python bench/injection.py DATA --cache CACHE [--write]

DATA is a folder with precisionmembench/ and locomo/. The beliefs of PrecisionMemBench become entities and
facts through the ordinary operations (bench/beliefs.py); every LoCoMo conversation is a home, filled
through the ordinary ingest. Each LoCoMo question is asked of its own conversation, and of the next one of
the same half, which cannot answer it. Thresholds were chosen on LoCoMo's tuning half; both are reported.
With --write, a section of RESULTS.md is written and, where matplotlib is installed, a plot beside it.
"""

import argparse
import asyncio
import importlib
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import beliefs
import conversations as talk
from report import RESULTS, Figure, machine, progress, table, write_section
from setting import embedder_from

from nexus import clock
from nexus.ledgers import Ledgers
from nexus.memory.embedding import Embedder, Vectors, embed_new
from nexus.memory.recall.recall import Recall
from nexus.request import Visibility
from nexus.roles.memory_injection import injection, triage
from nexus.roles.memory_injection.triage import LIMITS, Limits

Half = Literal["tuning", "held out"]
# What is chosen is measured here, and must not depend on what else the machine does.
_DEADLINE_MS = 60_000
# When the beliefs are asked about: after the last of them was written.
_NOW = clock.parse("2026-10-08T00:00:00Z")
_NEEDS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_CURVE = {f"{value:.2f}": replace(LIMITS, need=value) for value in _NEEDS}
_READING = """\
Nothing was learned from LoCoMo: weights and threshold come from authored lives. PrecisionMemBench has no
held-out part: finding things by alias and through a slip, and leaving out what was replaced, were written
with all of its cases in view, as general rules without a word of theirs, and every belief is loaded with
the aliases that the benchmark gives it. Its halves only show that the figure does not hang on a few cases.
"""
_VARIANTS: dict[str, Limits] = {
    "chosen": LIMITS,
    "names alone do not lead in": replace(LIMITS, few=0),
    **{f"need {name}": limits for name, limits in _CURVE.items()},
}


@dataclass(slots=True)
class Counts:
    """How LoCoMo's questions fared under one choice of thresholds."""

    own: int = 0
    hits: int = 0
    injected: int = 0
    foreign: int = 0
    silent: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, name) + getattr(other, name) for name in Counts.__slots__))

    @property
    def hit(self) -> float:
        return self.hits / max(1, self.own)

    @property
    def silence(self) -> float:
        return self.silent / max(1, self.foreign)

    @property
    def items(self) -> float:
        return self.injected / max(1, self.own)


Fared = dict[tuple[str, Half], Counts]
Scored = dict[str, list[beliefs.Scored]]


async def ask_beliefs(folder: Path, cache: Path, embedder: Embedder) -> Scored:
    """Every case of PrecisionMemBench, under each choice of thresholds."""
    fixture, scored = beliefs.read(folder), defaultdict[str, list[beliefs.Scored]](list)
    by_case: dict[str, dict[str, beliefs.Scored]] = {}
    for user in fixture.users:
        home = talk.home_of(talk.Conversation(user), cache)
        async with talk.opened(home) as ledgers:
            own = [belief for belief in fixture.beliefs if belief["user_id"] == user]
            known = await _remembered(ledgers, own)
            vectors = Vectors(ledgers.embeddings, embedder)
            await embed_new(ledgers, vectors, lambda _: None)
            await vectors.mirror.refresh()
            for case in (case for case in fixture.cases if case.user == user):
                recall = Recall(ledgers, vectors, visible=Visibility(channels=case.scopes), now=lambda: _NOW)
                chosen = await _chosen(recall, case.query)
                by_case[case.id] = {
                    name: beliefs.score(case, [known[id_] for id_ in ids], fixture.beliefs)
                    for name, ids in chosen.items()
                }
    for case in fixture.cases:
        for name, one in by_case[case.id].items():
            scored[name].append(one)
    return scored


async def _remembered(ledgers: Ledgers, own: list[dict[str, Any]]) -> dict[str, str]:
    """Written once; a home of an earlier run tells again which belief each thing is."""

    def work(connection: Any) -> list[tuple[str, str]]:
        return connection.execute("SELECT id, source_entity_id FROM facts").fetchall()

    found = await ledgers.memory.read(work)
    if not found:
        return await beliefs.remember(ledgers, own)
    return {str(fact): str(entity) for fact, entity in found}


async def ask_conversations(folder: Path, cache: Path, embedder: Embedder) -> Fared:
    """Every LoCoMo question, of its own conversation and of another one."""
    found, fared = talk.read(folder), defaultdict[tuple[str, Half], Counts](Counts)
    tuned = talk.tuning(found)
    for conversation in found:
        half: Half = "tuning" if conversation.name in tuned else "held out"
        same = [other for other in found if (other.name in tuned) == (half == "tuning")]
        other = same[(same.index(conversation) + 1) % len(same)]
        async with talk.opened(talk.home_of(conversation, cache)) as ledgers:
            vectors = Vectors(ledgers.embeddings, embedder)
            turn_of = await talk.fill(ledgers, conversation, vectors, lambda _: None)
            await vectors.mirror.refresh()
            recall = Recall(ledgers, vectors, now=lambda asked_at=conversation.asked_at: asked_at)
            for question in conversation.questions:
                for name, ids in (await _chosen(recall, question.text)).items():
                    hit = any(turn_of[id_] in question.evidence for id_ in ids)
                    fared[name, half] += Counts(own=1, hits=int(hit), injected=len(ids))
            for question in other.questions:
                for name, ids in (await _chosen(recall, question.text)).items():
                    fared[name, half] += Counts(foreign=1, silent=int(not ids))
        progress(f"{conversation.name} ({half}) asked")
    return fared


async def _chosen(recall: Recall, text: str) -> dict[str, list[str]]:
    """What would be injected under each choice of thresholds."""
    answer = await injection.find_candidates(recall, text, deadline_ms=_DEADLINE_MS)
    if answer.late_arms:
        raise RuntimeError(f"late: {answer.late_arms}")
    return {
        name: [verdict.result.item.id for verdict in triage.judge(answer, limits) if verdict.chosen]
        for name, limits in _VARIANTS.items()
    }


def figures(scored: list[beliefs.Scored], fared: Fared) -> list[Figure]:
    """The table: all, then the halves."""
    parts = {"all 77 cases": scored, "every second case": scored[::2], "the others": scored[1::2]}
    rows: list[Figure] = []
    for what, part in parts.items():
        precision, recall = beliefs.means(part)
        is_all = part is scored
        rows += [
            Figure(
                f"PrecisionMemBench, {what}: mean precision",
                f"{precision:.3f}",
                "≥ 0.80",
                precision >= 0.8 if is_all else None,
            ),
            Figure(
                f"PrecisionMemBench, {what}: mean recall",
                f"{recall:.3f}",
                "≥ 0.90",
                recall >= 0.9 if is_all else None,
            ),
        ]
    passed = sum(one.precision in (None, 1.0) and one.recall in (None, 1.0) for one in scored)
    rows.append(Figure("PrecisionMemBench: cases without a fault", f"{passed} of {len(scored)}"))
    for what, counts in _halves(fared, "chosen"):
        rows += [
            Figure(
                f"LoCoMo, {what}, wrong conversation: nothing injected",
                f"{counts.silence:.3f} of {counts.foreign:,}",
                "≥ 0.90",
                counts.silence >= 0.9 if what == "all" else None,
            ),
            Figure(
                f"LoCoMo, {what}, right conversation: an evidence turn among the injected",
                f"{counts.hit:.3f} of {counts.own:,}",
                "≥ 0.65",
                counts.hit >= 0.65 if what == "all" else None,
            ),
            Figure(f"LoCoMo, {what}, right conversation: items injected, mean", f"{counts.items:.2f} (≤ 5)"),
        ]
    return rows


def _halves(fared: Fared, variant: str) -> Iterator[tuple[str, Counts]]:
    tuning, held = fared[variant, "tuning"], fared[variant, "held out"]
    yield from (("all", tuning + held), ("tuning half", tuning), ("held-out half", held))


def curve(scored: Scored, fared: Fared) -> str:
    """What other thresholds would give."""
    lines = [
        "| threshold | PMB precision | PMB recall | silent, wrong (tuning / held out) "
        "| hit, right (tuning / held out) | items |",
        "|---|---|---|---|---|---|",
    ]
    for name in _VARIANTS:
        precision, recall = beliefs.means(scored[name])
        (_, every), (_, tuning), (_, held) = _halves(fared, name)
        lines.append(
            f"| {name} | {precision:.3f} | {recall:.3f} | {tuning.silence:.3f} / {held.silence:.3f} "
            f"| {tuning.hit:.3f} / {held.hit:.3f} | {every.items:.2f} |"
        )
    return "\n".join(lines) + "\n"


def faults(scored: list[beliefs.Scored]) -> str:
    """The cases that are not as they should be, with what came back."""
    wrong = [one for one in scored if one.precision not in (None, 1.0) or one.recall not in (None, 1.0)]
    return "".join(
        f"- `{one.case.id}`: expected {', '.join(sorted(one.case.expected)) or 'nothing'}, "
        f"got {', '.join(one.returned) or 'nothing'}\n"
        for one in wrong
    )


def plot(fared: Fared, file: Path) -> None:
    """Silence against hits, a point for each threshold."""
    library: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = library.subplots(figsize=(6, 4.5))
    for half in ("tuning", "held out"):
        points = [fared[f"need {name}", half] for name in _CURVE]
        axes.plot([p.silence for p in points], [p.hit for p in points], marker="o", label=half)
    axes.axvline(0.9, linestyle=":", color="grey")
    axes.axhline(0.65, linestyle=":", color="grey")
    axes.set_xlabel("nothing injected, wrong conversation")
    axes.set_ylabel("an evidence turn injected, right conversation")
    axes.set_title("LoCoMo: each point is a threshold of the triage")
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, dpi=110)


async def main() -> None:
    arguments = _arguments()
    embedder = embedder_from(None, None)
    data, cache = arguments.data, arguments.cache
    scored = await ask_beliefs(data / "precisionmembench", cache / "precisionmembench", embedder)
    fared = await ask_conversations(data / "locomo", cache / "locomo", embedder)
    text = (
        "## Injection, with the local triage alone\n\n"
        f"`python bench/injection.py`: embedder `{embedder.model_id}`, no language model; {machine()}\n\n"
        f"{table(figures(scored['chosen'], fared))}\n{_READING}\n"
        f"Cases of PrecisionMemBench with a fault:\n\n{faults(scored['chosen'])}\n"
        "What other thresholds would give (PMB: PrecisionMemBench, all cases):\n\n"
        f"{curve(scored, fared)}"
    )
    if arguments.write:
        file = RESULTS.with_name("injection.png")
        try:
            plot(fared, file)
            text += f"\nPlotted in `bench/{file.name}`.\n"
        except ImportError:
            progress("matplotlib is not installed: no plot")
        write_section("bench/injection.py", text)
    print(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="the folder that holds precisionmembench/ and locomo/")
    parser.add_argument("--cache", type=Path, required=True, help="where homes are kept between runs")
    parser.add_argument("--write", action="store_true", help="write the section of RESULTS.md and the plot")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
