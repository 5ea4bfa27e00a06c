"""How well the memory answers ordinary questions about an authored life.

    python bench/life.py FOLDER… [--as facts|messages|both] [--links derived|stated|claimed] [--json OUT]

Each FOLDER is a life (bench/lives/README.md has the format). It becomes a home; every question is asked of
recall as a person asks it, of BM25, of each embedding model on this machine alone, and of rank fusion; every
task and question goes through memory injection. Questions that nothing answers show how often recall wrongly
claims a strong match.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import life_data
import numpy as np
from baselines import BM25, fused
from report import machine, progress, write_section

from nexus.errors import ModelFileError
from nexus.memory.embedding import MODELS, Embedder, find, load
from nexus.memory.recall.item import Item, Query
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.reranker import installed_reranker
from nexus.roles.memory_injection import injection, triage

# What is found must not depend on what else the machine does; bench/recall_latency.py measures the time.
_DEADLINE_MS = 60_000
_DEEPEST = 10


@dataclass(frozen=True, slots=True)
class Found:
    """One place in an answer: the facts that it states, and whether it is marked strong."""

    keys: frozenset[str]
    strong: bool = False


Ask = Callable[[str], Awaitable[list[Found]]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The texts of a life as the baselines see them, with the facts that each states."""

    texts: list[str]
    keys: list[frozenset[str]]


async def measure(
    folder: Path,
    what: life_data.As,
    links: life_data.Links = "derived",
    *,
    baselines: bool = True,
    reranker: bool = True,
) -> dict[str, Any]:
    """Everything that is measured of one life."""
    life = life_data.read(folder)
    reading = installed_reranker() if reranker else None
    async with life_data.home_of(life, what, reranker=reading, links=links) as (recall, filled, embedder):
        report: dict[str, Any] = {
            "as": what, "links": links, "language": life.language, "model": embedder.model_id
        }  # fmt: skip
        methods = {"recall": _recall(recall, filled)}
        methods |= _baselines(_corpus(life, what), embedder) if baselines else {}
        for name, ask in methods.items():
            answers = {question["id"]: await ask(question["text"]) for question in life.questions}
            report[name] = score(life.questions, answers, life.language)
        report["injection"] = await _injection(recall, filled, life)
    return report


def score(
    questions: Sequence[life_data.Row], answers: Mapping[str, list[Found]], language: str
) -> dict[str, Any]:
    """Hits by kind and by language, and how questions without an answer are marked."""
    report: dict[str, Any] = {}
    answerable = [question for question in questions if question["evidence"]]
    groups = {"all": answerable}
    for question in answerable:
        groups.setdefault(question["kind"], []).append(question)
    if language != "en" or any("lang" in question for question in answerable):
        for question in answerable:
            groups.setdefault(f"in {question.get('lang', language)}", []).append(question)
    for name, group in groups.items():
        report[name] = _hits(group, answers)
    for kind in life_data.UNANSWERED:
        asked = [question for question in questions if question["kind"] == kind]
        strong = sum(any(found.strong for found in answers[question["id"]]) for question in asked)
        report[kind] = {"n": len(asked), "strong": strong}
    return report


def _hits(questions: Sequence[life_data.Row], answers: Mapping[str, list[Found]]) -> dict[str, Any]:
    totals = {"hit1": 0.0, "hit5": 0.0, "mrr": 0.0, "strong5": 0.0}
    superseded = 0
    for question in questions:
        found, evidence = answers[question["id"]], frozenset(question["evidence"])
        rank = _rank(found, evidence)
        first_five = bool(rank and rank <= 5)
        totals["hit1"] += rank == 1
        totals["mrr"] += 1 / rank if rank else 0.0
        totals["hit5"] += _share(found, evidence) if question.get("all") else first_five
        totals["strong5"] += any(place.strong and place.keys & evidence for place in found[:5])
        wrong = _rank(found, frozenset(question.get("wrong", [])))
        superseded += bool(wrong and (not rank or wrong < rank))
    shares = {name: round(total / len(questions), 3) for name, total in totals.items()}
    return {"n": len(questions), **shares, "superseded_first": superseded}


def _rank(found: Sequence[Found], evidence: frozenset[str]) -> int:
    return next((rank for rank, place in enumerate(found, start=1) if place.keys & evidence), 0)


def _share(found: Sequence[Found], evidence: frozenset[str]) -> float:
    held = frozenset[str]().union(*(place.keys for place in found[:10]))
    return len(held & evidence) / len(evidence)


def _recall(recall: Recall, filled: life_data.Filled) -> Ask:
    async def ask(text: str) -> list[Found]:
        answer = await recall.find(Query(text=text, max_results=_DEEPEST, deadline_ms=_DEADLINE_MS))
        return [Found(filled.keys(result.item.id), result.is_strong) for result in answer.results]

    return ask


def _corpus(life: life_data.Life, what: life_data.As) -> Corpus:
    texts: list[str] = []
    keys: list[frozenset[str]] = []
    if what != "messages":
        texts += [row["text"] for row in life.facts]
        keys += [frozenset({row["key"]}) for row in life.facts]
    if what != "facts":
        stated: dict[str, set[str]] = {}
        for row in life.facts:
            stated.setdefault(row.get("message", ""), set()).add(row["key"])
        texts += [row["text"] for row in life.messages]
        keys += [frozenset(stated.get(row["key"], ())) for row in life.messages]
    return Corpus(texts, keys)


def _baselines(corpus: Corpus, embedder: Embedder) -> dict[str, Ask]:
    """BM25, every embedding model that is on this machine, and rank fusion of BM25 with recall's own."""
    bm25 = BM25.of(corpus.texts)
    orders: dict[str, Callable[[str], list[int]]] = {"bm25": bm25.ask}
    for model in MODELS.values():
        if model.role == "embedder":
            try:
                orders[model.name] = _nearest(load(find(model)), corpus.texts)
            except ModelFileError:
                progress(f"{model.name} is not on this machine")
    own = next(name for name in orders if embedder.model_id.startswith(f"{name}@"))
    orders["rrf"] = lambda text: fused([orders["bm25"](text), orders[own](text)])
    return {name: _places(order, corpus) for name, order in orders.items()}


def _nearest(embedder: Embedder, texts: Sequence[str]) -> Callable[[str], list[int]]:
    matrix = embedder.embed(texts)
    return lambda text: [int(row) for row in np.argsort(-(matrix @ embedder.embed_queries([text])[0]))]


def _places(order: Callable[[str], list[int]], corpus: Corpus) -> Ask:
    async def ask(text: str) -> list[Found]:
        return [Found(corpus.keys[row]) for row in order(text)[:_DEEPEST]]

    return ask


async def _injection(recall: Recall, filled: life_data.Filled, life: life_data.Life) -> dict[str, Any]:
    """What injection would put before an agent: for tasks, and for questions put to the manager."""

    async def shown(text: str) -> list[Item]:
        verdicts = triage.judge(
            await injection.find_candidates(recall, text, deadline_ms=_DEADLINE_MS), task=text
        )
        return [verdict.result.item for verdict in verdicts if verdict.chosen]

    def stated(items: Sequence[Item]) -> frozenset[str]:
        return frozenset[str]().union(*(filled.keys(item.id) for item in items))

    needs = [task for task in life.tasks if task["kind"] == "needs"]
    covered, places, noise = list[float](), 0, 0
    identifiers = list[bool]()
    for task in needs:
        found = await shown(task["text"])
        must, fine = frozenset(task["must"]), frozenset([*task["must"], *task["may"]])
        wanted = [alias["alias"] for alias in task.get("aliases", [])]
        covered += [len(stated(found) & must) / len(must)] if must else []
        identifiers += [all(any(alias in item.text for item in found) for alias in wanted)] if wanted else []
        places += len(found)
        noise += sum(
            not filled.keys(item.id) & fine and not any(alias in item.text for alias in wanted)
            for item in found
        )
    none = [task for task in life.tasks if task["kind"] == "none"]
    silent = sum([not await shown(task["text"]) for task in none])
    answerable = [question for question in life.questions if question["evidence"]]
    in_context = 0
    for question in answerable:
        in_context += bool(stated(await shown(question["text"])) & frozenset(question["evidence"]))
    return {
        "needs": {
            "n": len(needs),
            "covered": round(sum(covered) / max(1, len(covered)), 3),
            "shown": places,
            "noise": noise,
        },
        "identifiers": {"n": len(identifiers), "covered": sum(identifiers)},
        "none": {"n": len(none), "silent": silent},
        "questions": {"n": len(answerable), "in_context": round(in_context / max(1, len(answerable)), 3)},
    }


def markdown(reports: Mapping[str, Any], what: str) -> str:
    """The reports as tables."""
    lines = [
        f"## Lives, as {what}\n",
        f"`python bench/life.py … --as {what}`. {machine()}\n",
        "| life | method | hit@1 | hit@5 | MRR | strong in 5 | superseded first | near strong | far strong |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for life, report in reports.items():
        for method, measured in report.items():
            if not isinstance(measured, dict) or "all" not in measured:
                continue
            hits = cast("dict[str, Any]", measured["all"])
            marks = [f"{measured[kind]['strong']} of {measured[kind]['n']}" for kind in life_data.UNANSWERED]
            if method != "recall":
                marks = ["", ""]
            strong = f"{hits['strong5']:.2f}" if method == "recall" else ""
            lines.append(
                f"| {life} ({report['language']}) | {method} | {hits['hit1']:.2f} | {hits['hit5']:.2f} "
                f"| {hits['mrr']:.2f} | {strong} | {hits['superseded_first']} | {marks[0]} | {marks[1]} |"
            )
    lines += ["", *_marks(reports)]
    lines += [
        "",
        "| life | of what tasks need | shown | noise | identifiers | silent if nothing is needed "
        "| evidence of questions |",
        "|---|---|---|---|---|---|---|",
    ]
    for life, report in reports.items():
        needs, wanted, none, asked = (
            report["injection"][key] for key in ("needs", "identifiers", "none", "questions")
        )
        lines.append(
            f"| {life} | {needs['covered']:.2f} | {needs['shown']} "
            f"| {needs['noise'] / max(1, needs['shown']):.2f} | {wanted['covered']} of {wanted['n']} "
            f"| {none['silent']} of {none['n']} | {asked['in_context']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def _marks(reports: Mapping[str, Any]) -> list[str]:
    """The marks of recall by the language of the lives, with the reranker where it reads that language."""
    lines = ["| language | right answers marked strong | near misses | far ones |", "|---|---|---|---|"]
    for language in dict.fromkeys(report["language"] for report in reports.values()):
        own = [report["recall"] for report in reports.values() if report["language"] == language]
        asked = sum(hits["all"]["n"] for hits in own)
        right = sum(hits["all"]["n"] * hits["all"]["strong5"] for hits in own) / max(1, asked)
        wrong = [
            sum(hits[kind]["strong"] for hits in own) / max(1, sum(hits[kind]["n"] for hits in own))
            for kind in life_data.UNANSWERED
        ]
        lines.append(f"| {language} | {right:.2f} of {asked} | {wrong[0]:.2f} | {wrong[1]:.2f} |")
    return lines


def main() -> None:
    arguments = _arguments()
    reports: dict[str, Any] = {}
    for folder in arguments.folders:
        reports[folder.name] = asyncio.run(
            measure(
                folder,
                arguments.what,
                arguments.links,
                baselines=not arguments.recall_only,
                reranker=arguments.reranker,
            )
        )
        progress(f"{folder.name}: {reports[folder.name]['recall']['all']}")
    text = markdown(reports, arguments.what)
    print(text)
    if arguments.json:
        arguments.json.write_text(json.dumps(reports, indent=1), encoding="utf-8")
    if arguments.write:
        write_section(f"bench/life.py {arguments.what}", text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--as", dest="what", choices=("facts", "messages", "both"), default="facts")
    parser.add_argument("--links", choices=("derived", "stated", "claimed"), default="derived")
    parser.add_argument("--recall-only", action="store_true", help="leave out BM25 and the models alone")
    parser.add_argument(
        "--no-reranker", dest="reranker", action="store_false", help="as where no reranker is installed"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    parser.add_argument("--write", action="store_true", help="write the section of RESULTS.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
