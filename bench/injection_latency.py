"""What memory injection adds to messages and to workers' starts when the local triage decides.

    python bench/injection_latency.py --facts 100000 --cache CACHE [--write]

The home is that of bench/recall_latency.py, with a thousand people and five facts about each beside; every
second task names one of them. A whole firing of each hook point is measured in an open home: the task looked
up, recall with the query's embedding, the session's history, triage, and the record written; and recall alone
with the same question. Processor time is that of all cores together: on a machine that does other things too
it tells more than the clock. Then the same in a home that holds nothing.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

# As the program does, before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from recall_latency import Speaker, fill
from report import Figure, machine, percentile, progress, table, write_section
from setting import embedder_from

from nexus.app import App
from nexus.automations.context import Occasion
from nexus.config import Config, LedgersConfig
from nexus.context import AssembledContext
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.memory import succession
from nexus.memory.embedding import Vectors
from nexus.memory.operations import Memory
from nexus.request import Access, Agent, Event, Request
from nexus.roles.memory_injection import injection

_PEOPLE, _FACTS_EACH = 1_000, 5
_TASKS, _WARM = 200, 20
_TARGET_MS = 150
_POINTS = ("worker:pre_execution", "after:assembleContext")


def _name(number: int, speaker: Speaker) -> str:
    words = speaker.words
    return f"{words[-1 - number].capitalize()} {words[-2_000 - number].capitalize()}"


async def prepare(home: Home, facts: int) -> None:
    """Facts with vectors, and people among them."""
    async with Ledgers(home, LedgersConfig(synchronous="normal")) as opened:
        held = int(str(await opened.memory.read(lambda c: c.execute("SELECT count(*) FROM facts").get)))
        vectors = Vectors(opened.embeddings, embedder_from(None, None))
        await fill(opened, vectors, Speaker(held + 7), facts - held)
        known = await opened.identity.read(lambda c: c.execute("SELECT count(*) FROM entities").get)
        memory, speaker = Memory(opened), Speaker(11)
        for number in range(int(str(known)), _PEOPLE):
            name = _name(number, speaker)
            told = speaker.sentences(_FACTS_EACH, 8)
            operations = [{"operation": "entity", "name": name, "type": "Person"}]
            operations += [{"operation": "fact", "about": name, "fact": f"{name} {text}"} for text in told]
            await memory.run("batch", {"operations": operations})


@dataclass(slots=True)
class Spent:
    """Milliseconds of each firing by the clock and of all cores together, and how many told something."""

    clock_ms: list[float] = field(default_factory=list[float])
    processor_ms: list[float] = field(default_factory=list[float])
    told: int = 0


async def ask(app: App, tasks: list[str]) -> Spent:
    """Recall alone, as injection asks it."""
    spent, recall = Spent(), await app.open_recall()
    for number, task in enumerate(tasks):
        begun, busy = time.perf_counter(), time.process_time()
        answer = await injection.find_candidates(recall, task)
        if number >= _WARM:
            spent.clock_ms.append((time.perf_counter() - begun) * 1000)
            spent.processor_ms.append((time.process_time() - busy) * 1000)
            spent.told += bool(answer.results)
    return spent


async def fire(app: App, hook_point: str, tasks: list[str]) -> Spent:
    """Fire a hook point for one task after the other; the first are not counted."""
    spent = Spent()
    role = "worker" if hook_point.startswith("worker") else "manager"
    for number, task in enumerate(tasks):
        request = Request(
            event=Event(content=task),
            agent=Agent(role=role, session_label=f"{role}-{number}"),
            access=Access(level="owner", memory="all"),
            root_request_id="req_root",
        )
        assembled = AssembledContext(
            session_label=role, role=role, system_prompt="", tools=(), current_message=task
        )
        begun, busy = time.perf_counter(), time.process_time()
        returned = await app.automations.runner.fire(
            hook_point, Occasion(request=request, assembled=assembled)
        )
        if number >= _WARM:
            spent.clock_ms.append((time.perf_counter() - begun) * 1000)
            spent.processor_ms.append((time.process_time() - busy) * 1000)
            spent.told += bool(returned.enrich)
    return spent


async def _waiting(app: App) -> int:
    """What is still to be embedded or searched for what it replaced: neither belongs to an answer."""
    backlog = await app.embedding.backlog()
    return backlog.depth or (await succession.state(app.ledgers, app.embedding.model_id)).waiting


async def measure(home: Home, what: str) -> list[Figure]:
    speaker = Speaker(3)
    sentences = speaker.sentences(_TASKS + _WARM, 6)
    tasks = [
        f"Plan {f'with {_name(number, speaker)} ' if number % 2 else ''}how {text}"
        for number, text in enumerate(sentences)
    ]
    async with App(home, Config()) as app:
        while waiting := await _waiting(app):
            progress(f"{what}: {waiting:,} facts wait in the background")
            await asyncio.sleep(5)
        bare = await ask(app, tasks)
        fired = {point: await fire(app, point, tasks) for point in _POINTS}
    is_full = "facts" in what
    figures = [_figure(f"{what}: recall alone", bare, None)]
    for point, spent in fired.items():
        ratio = percentile(spent.clock_ms, 0.95) / percentile(bare.clock_ms, 0.95)
        figures.append(
            _figure(f"{what}: `{point}` ({ratio:.1f} times recall at p95)", spent, is_full or None)
        )
    return figures


def _figure(name: str, spent: Spent, is_measured: bool | None) -> Figure:
    p50, p95 = percentile(spent.clock_ms, 0.5), percentile(spent.clock_ms, 0.95)
    busy50, busy95 = percentile(spent.processor_ms, 0.5), percentile(spent.processor_ms, 0.95)
    return Figure(
        name,
        f"p50 {p50:.1f} ms, p95 {p95:.1f} ms, longest {max(spent.clock_ms):.0f} ms; processor time p50 "
        f"{busy50:.1f} ms, p95 {busy95:.1f} ms; {spent.told} of {_TASKS} tasks found something",
        f"p95 < {_TARGET_MS} ms" if is_measured else "",
        p95 < _TARGET_MS if is_measured else None,
    )


async def main() -> None:
    arguments = _arguments()
    home = Home(arguments.cache / f"facts-{arguments.facts}")
    if not home.exists:
        home.create()
    await prepare(home, arguments.facts)
    rows = await measure(home, f"{arguments.facts:,} facts")
    with tempfile.TemporaryDirectory() as folder:
        empty = Home(Path(folder) / "home")
        empty.create()
        rows += await measure(empty, "an empty memory")
    text = f"## What injection adds\n\n`python bench/injection_latency.py`: {machine()}\n\n{table(rows)}"
    print(text)
    if arguments.write:
        write_section("bench/injection_latency.py", text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--facts", type=int, default=100_000)
    parser.add_argument("--cache", type=Path, required=True, help="where the home is kept between runs")
    parser.add_argument("--write", action="store_true", help="write the section of RESULTS.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
