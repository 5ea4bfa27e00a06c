"""How well recall finds the turns that answer a question, beside what others would find.

    python bench/retrieval.py DATA --cache CACHE [--sets locomo beam-100k beam-500k] [--budget high] [--write]

DATA is a folder with locomo/, beam-100k/ and beam-500k/. Every conversation becomes a home through the
ordinary ingest; each question is asked of its own conversation. With --write, a section of RESULTS.md
is written and, where matplotlib is installed, a plot beside it.
"""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

import conversations as talk
import scoring
from baselines import Baseline, baselines
from report import RESULTS, machine, write_section
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from setting import embedder_from

from nexus.memory.embedding import Embedder, Vectors
from nexus.memory.recall.item import Query
from nexus.memory.recall.recall import Recall

_DEEPEST = 50
# What is found is measured here, and must not depend on what else the machine does; how long it takes
# is measured by bench/recall_latency.py, within the deadlines.
_DEADLINE_MS = 60_000


async def ask_recall(recall: Recall, text: str, budget: str) -> tuple[list[str], list[str], dict[str, float]]:
    """What recall returns: event ids, thread ids, timings."""
    query = Query(
        text=text,
        max_results=_DEEPEST,
        max_tokens=10**9,
        budget=budget,  # type: ignore[arg-type]
        deadline_ms=_DEADLINE_MS,
        rank_threads=True,
    )
    answer = await recall.find(query)
    if answer.late_arms:
        raise RuntimeError(f"late: {answer.late_arms}")
    return [r.item.id for r in answer.results], [thread for thread, _ in answer.threads], answer.timings_ms


async def run_conversation(
    data_set: str,
    conversation: talk.Conversation,
    cache: Path,
    embedder: Embedder,
    others: list[Baseline],
    budget: str,
    half: str,
    told: Progress,
) -> list[scoring.Asked]:
    """Fill the conversation's home, then ask every question of recall and of each baseline."""
    asked: list[scoring.Asked] = []
    async with talk.opened(talk.home_of(conversation, cache / data_set)) as ledgers:
        vectors = Vectors(ledgers.embeddings, embedder)
        turn_of = await talk.fill(
            ledgers,
            conversation,
            vectors,
            lambda done: told.console.log(f"{conversation.name}: {done} turns embedded") if done else None,
        )
        await vectors.mirror.refresh()
        session_of = await _sessions(ledgers, conversation)
        recall = Recall(ledgers, vectors, now=lambda: conversation.asked_at)
        for baseline in others:
            await baseline.prepare(ledgers, vectors, conversation)
        for question in conversation.questions:
            outcomes: dict[str, scoring.Outcome] = {}
            started = time.perf_counter()
            events, threads, timings = await ask_recall(recall, question.text, budget)
            spent = (time.perf_counter() - started) * 1000
            outcomes["recall"] = scoring.Outcome(
                [turn_of[id_] for id_ in events], [session_of[id_] for id_ in threads], spent, timings
            )
            for baseline in others:
                started = time.perf_counter()
                turns, sessions = await baseline.ask(question.text)
                spent = (time.perf_counter() - started) * 1000
                outcomes[baseline.name] = scoring.Outcome(turns, sessions, spent, {})
            asked.append(scoring.Asked(data_set, conversation, question, half, outcomes))
    return asked


async def _sessions(ledgers: talk.Ledgers, conversation: talk.Conversation) -> dict[str, str]:
    rows = await ledgers.events.read(lambda c: c.execute("SELECT id, external_id FROM threads").fetchall())
    return {str(row[0]): str(row[1]) for row in rows}


async def main() -> None:
    arguments = _arguments()
    console = Console()
    embedder = embedder_from(arguments.model, arguments.model_path)
    asked: list[scoring.Asked] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        for data_set in arguments.sets:
            found = talk.read(arguments.data / data_set)
            tuning = talk.tuning(found)
            for conversation in progress.track(found[: arguments.most], description=data_set):
                half = "tuning" if conversation.name in tuning else "held out"
                others = baselines(embedder, mem0=arguments.mem0)
                asked += await run_conversation(
                    data_set,
                    conversation,
                    arguments.cache,
                    embedder,
                    others,
                    arguments.budget,
                    half,
                    progress,
                )
    report = scoring.report(asked)
    setting = f"Embedder `{embedder.model_id}`, budget `{arguments.budget}`, no language model. {machine()}"
    text = scoring.markdown(report, setting)
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    if arguments.keep:
        arguments.keep.write_text(json.dumps(report, indent=1), encoding="utf-8")
    if arguments.write:
        write_section("bench/retrieval.py", text)
        scoring.plot(report, RESULTS.with_name("retrieval.png"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="the folder that holds locomo/, beam-100k/, beam-500k/")
    parser.add_argument("--cache", type=Path, required=True, help="where homes are kept between runs")
    parser.add_argument("--sets", nargs="+", default=list(talk.DATA_SETS), choices=talk.DATA_SETS)
    parser.add_argument("--budget", default="high", choices=("low", "mid", "high"))
    parser.add_argument("--model", default=None, help="the embedding model's name")
    parser.add_argument("--model-path", type=Path, default=None, help="the model's file")
    parser.add_argument("--mem0", action="store_true", help="run mem0 (infer=False) beside the others")
    parser.add_argument("--most", type=int, default=None, help="at most so many conversations of each set")
    parser.add_argument("--keep", type=Path, help="keep the numbers as JSON here")
    parser.add_argument("--write", action="store_true", help="write the section of RESULTS.md and the plot")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
