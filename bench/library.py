"""The memory as a library: import, opening, adding, searching and closing.

python bench/library.py              1,000 facts, one scope and ten; half a minute
python bench/library.py --large      100,000 facts, 1,000 scopes; long, as everything is embedded
python bench/library.py --write      the same, into RESULTS.md
python bench/library.py --mem0 PYTHON [--count N]
                                     beside mem0, side by side in processes of their own

PYTHON is of an environment with `mem0ai`, this checkout and its packages. Both get the same texts in one
scope and the same embedding model: mem0 with `infer=False` and its local Qdrant, with our model.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import apsw
from report import Figure, machine, percentile, progress, table, write_section

from nexus import Fact, Memory

_QUESTIONS = 100
# What a process takes of the processor in three seconds if it does nothing.
_IDLE_S = 0.05
_SINGLE = 100
_PEOPLE = ("Clara", "Leo", "Ruth", "Martin", "Ewa", "Jens", "Sam", "Ada", "Noor", "Tomas")
_THINGS = ("key", "boat", "piano", "ladder", "passport", "tent", "drill", "globe", "lamp", "bicycle", "stamp")
_PLACES = ("cellar", "attic", "garage", "red box", "office", "shed", "hall", "car", "blue tin", "wardrobe")
_COLORS = ("old", "green", "small", "broken", "borrowed", "new", "heavy", "wooden")
_IMPORT = """
import time
waited, worked = time.perf_counter(), time.process_time()
import nexus
nexus.Memory
print(time.perf_counter() - waited, time.process_time() - worked)
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls took, one after another."""

    clock_s: list[float]
    processor_s: list[float]


class Sizes(argparse.Namespace):
    """How much is measured."""

    large: bool
    write: bool
    mem0: str
    count: int
    child: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--large", action="store_true", help="100,000 facts in 1,000 scopes")
    parser.add_argument("--write", action="store_true", help="write the figures into RESULTS.md")
    parser.add_argument("--mem0", default="", metavar="PYTHON", help="compare with mem0 in this environment")
    parser.add_argument("--count", type=int, default=1_000, help="facts for that comparison")
    parser.add_argument("--child", default="", choices=("", *_MEASURES), help=argparse.SUPPRESS)
    sizes = parser.parse_args(namespace=Sizes())
    if sizes.child:
        print(json.dumps(_MEASURES[sizes.child](sizes.count)), flush=True)
        return
    if sizes.mem0:
        _compare(sizes)
        return
    count, scopes = (100_000, 1_000) if sizes.large else (1_000, 10)
    with tempfile.TemporaryDirectory(prefix="nexus-bench-", ignore_cleanup_errors=True) as name:
        figures = _measure(Path(name) / "home", count, scopes)
    text = table(figures)
    print(text)
    print(machine())
    if sizes.write:
        about = "`python bench/library.py`" + (" `--large`" if sizes.large else "")
        write_section("library", f"## The memory as a library\n\n{about}: {machine()}\n\n{text}")


def _measure(root: Path, count: int, scopes: int) -> list[Figure]:
    rng = random.Random(7)
    waits, works = map(list, zip(*[_import_s() for _ in range(5)], strict=True))
    began = time.perf_counter()
    memory = Memory(root, create=True)
    created = time.perf_counter() - began

    facts = [_fact(rng) for _ in range(_SINGLE)]
    single = _each(lambda at: memory.add(facts[at].text, about=facts[at].about, scope="user:0"), _SINGLE)
    progress(f"adding {count:,} facts")
    began, worked = time.perf_counter(), time.process_time()
    for scope in range(scopes):
        memory.add_many([_fact(rng) for _ in range(count // scopes)], scope=f"user:{scope}")
    many, many_worked = time.perf_counter() - began, time.process_time() - worked
    progress("waiting for the vectors")
    began = time.perf_counter()
    _wait_for_vectors(memory)
    embedded = time.perf_counter() - began

    questions = [_question(rng) for _ in range(_QUESTIONS)]
    memory.search("warm up")
    progress("searching")
    whole = _each(lambda at: memory.search(questions[at]), _QUESTIONS)
    plain = _each(lambda at: memory.search(questions[at], rerank=False), _QUESTIONS)
    scoped = _each(lambda at: memory.search(questions[at], scope=f"user:{at % scopes}"), _QUESTIONS)
    memory.add("A fact that has no vector yet", scope="user:0")
    began = time.perf_counter()
    memory.close()
    closed = time.perf_counter() - began

    return [
        Figure("`import nexus; nexus.Memory`, p50 of 5", _ms(percentile(waits, 0.5)), "", None),
        Figure("the same in processor time", _ms(percentile(works, 0.5)), "", None),
        Figure("making and opening a home", _ms(created), "", None),
        Figure("`add`, one after another", f"{1 / percentile(single.clock_s, 0.5):,.0f}/s", "", None),
        Figure(f"`add_many`, {count:,} facts in {scopes:,} calls", f"{count / many:,.0f}/s", "", None),
        Figure(
            "the same in processor time, with what is embedded meanwhile", f"{many_worked:.1f} s", "", None
        ),
        Figure("until all have vectors, after the last was added", f"{embedded:.1f} s", "", None),
        *_searches("`search`, whole home", whole),
        *_searches("`search(rerank=False)`, whole home", plain),
        *_searches(f"`search`, one scope of {scopes:,}", scoped),
        Figure("closing, right after a write", _ms(closed), "", None),
    ]


def _compare(sizes: Sizes) -> None:
    """Measure both libraries, each in a process of its own and at the same time."""
    progress(f"{sizes.count:,} facts in each")
    running = {
        name: subprocess.Popen(
            [_choose_python(name, sizes), __file__, "--child", name, "--count", str(sizes.count)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in _MEASURES
    }
    found: dict[str, dict[str, str]] = {}
    for name, child in running.items():
        out, _ = child.communicate()
        # What was measured counts, also if a library fails while its process ends.
        lines = out.splitlines()
        if not lines or not lines[-1].startswith("{"):
            sys.exit(f"{name} failed with status {child.returncode}")
        found[name] = json.loads(lines[-1])
    rows = [f"| {what} | " + " | ".join(own[what] for own in found.values()) + " |" for what in found["mem0"]]
    head = [f"| {sizes.count:,} facts | {' | '.join(found)} |", "|---|" + "---|" * len(found)]
    text = "\n".join([*head, *rows])
    print(text)
    print(machine())
    if sizes.write:
        about = f"`python bench/library.py --mem0 PYTHON --count {sizes.count}`: {machine()}"
        write_section("library beside mem0", f"## The memory beside mem0\n\n{about}\n\n{text}\n")


def _choose_python(name: str, sizes: Sizes) -> str:
    return sizes.mem0 if name == "mem0" else sys.executable


def _measure_nexus(count: int, *, rerank: bool = True) -> dict[str, str]:
    def add(memory: Any, texts: list[str]) -> None:
        memory.add_many(texts, scope="user:1")
        _wait_for_vectors(memory)

    with tempfile.TemporaryDirectory(prefix="nexus-bench-", ignore_cleanup_errors=True) as folder:
        return _measure_library(
            _import_s()[1],
            count,
            lambda name: Memory(Path(folder) / name, create=True),
            add,
            lambda memory, text: [
                hit.text for hit in memory.search(text, scope="user:1", limit=5, rerank=rerank)
            ],
        )


def _measure_mem0(count: int) -> dict[str, str]:
    os.environ |= {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "not called"}
    imported = time.process_time()
    import mem0  # pyright: ignore[reportMissingImports]  it is in an environment of its own

    made = cast("Any", mem0).Memory
    imported = time.process_time() - imported
    from setting import embedder_for

    encoder = embedder_for("en")

    class Embedding:
        """Our model, as mem0 asks one: questions and texts are embedded alike."""

        config = None

        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            return encoder.embed([text])[0].tolist()

        def embed_batch(self, texts: list[str], memory_action: str = "add") -> list[list[float]]:
            return encoder.embed(texts).tolist()

    def add(memory: Any, texts: list[str]) -> None:
        for text in texts:
            memory.add(text, user_id="1", infer=False)

    def search(memory: Any, text: str) -> list[str]:
        found = memory.search(text, filters={"user_id": "1"}, top_k=5, threshold=0.0)
        return [str(each["memory"]) for each in found["results"]]

    with tempfile.TemporaryDirectory(prefix="mem0-bench-", ignore_cleanup_errors=True) as folder:
        os.environ["MEM0_DIR"] = folder

        def opened(name: str) -> Any:
            place = {"path": f"{folder}/{name}", "embedding_model_dims": encoder.dimensions, "on_disk": True}
            config = {
                "vector_store": {"provider": "qdrant", "config": place},
                "history_db_path": f"{folder}/{name}.db",
            }
            memory = made.from_config(config)
            memory.embedding_model = Embedding()
            return memory

        return _measure_library(imported, count, opened, add, search)


_MEASURES: dict[str, Callable[[int], dict[str, str]]] = {
    "nexus": _measure_nexus,
    "nexus, rerank=False": lambda count: _measure_nexus(count, rerank=False),
    "mem0": _measure_mem0,
}


def _measure_library(
    import_s: float,
    count: int,
    opened: Callable[[str], Any],
    add: Callable[[Any, list[str]], None],
    search: Callable[[Any, str], list[str]],
) -> dict[str, str]:
    """Measure adding and searching made-up facts, and how often a life's questions find their evidence."""
    rng = random.Random(7)
    memory = opened("facts")
    began, worked = time.perf_counter(), time.process_time()
    add(memory, [_fact(rng).text for _ in range(count)])
    added, added_worked = time.perf_counter() - began, time.process_time() - worked
    questions = [_question(rng) for _ in range(_QUESTIONS)]
    search(memory, "warm up")
    spent = _each(lambda at: search(memory, questions[at]), _QUESTIONS)
    memory.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    life = Path(__file__).parent / "lives" / "test" / "agnes"
    facts = {row["key"]: row["text"] for row in map(json.loads, (life / "facts.jsonl").open())}
    asked = [row for row in map(json.loads, (life / "questions.jsonl").open()) if row.get("evidence")]
    memory = opened("life")
    add(memory, list(facts.values()))
    first = five = 0
    for row in asked:
        right = {facts[key] for key in row["evidence"]}
        found = search(memory, row["text"])
        first += bool(right & set(found[:1]))
        five += bool(right & set(found))
    memory.close()
    return {
        "import, processor time": _ms(import_s),
        "adding, all searchable": f"{count / added:,.0f}/s",
        "adding, processor time of each": f"{added_worked / count * 1000:.1f} ms",
        "search, p50": _ms(percentile(spent.clock_s, 0.5)),
        "search, p95": _ms(percentile(spent.clock_s, 0.95)),
        "search, processor time, p50": _ms(percentile(spent.processor_s, 0.5)),
        "search, processor time, p95": _ms(percentile(spent.processor_s, 0.95)),
        "peak memory": f"{peak} MiB",
        f"agnes, {len(asked)} questions: evidence first": f"{first / len(asked):.3f}",
        "agnes: evidence among the first five": f"{five / len(asked):.3f}",
    }


def _searches(what: str, spent: Spent) -> list[Figure]:
    return [
        Figure(f"{what}, p50", _ms(percentile(spent.clock_s, 0.5)), "", None),
        Figure(f"{what}, p95", _ms(percentile(spent.clock_s, 0.95)), "", None),
        Figure(f"{what}, processor time, p50", _ms(percentile(spent.processor_s, 0.5)), "", None),
    ]


def _import_s() -> tuple[float, float]:
    """How long a process takes to import the memory, and its processor time."""
    done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True)
    waited, worked = done.stdout.split()
    return float(waited), float(worked)


def _wait_for_vectors(memory: Memory) -> None:
    """Wait until everything has a vector, and until nothing works in the background any more."""
    connection = apsw.Connection(str(memory.home.ledger("embeddings")), flags=apsw.SQLITE_OPEN_READONLY)
    before = -1
    worked = time.process_time()
    while (now := connection.execute("SELECT count(*) FROM embeddings").get) != before or (
        time.process_time() - worked > _IDLE_S
    ):
        before, worked = now, time.process_time()
        time.sleep(3)
    connection.close()


def _each(work: Callable[[int], object], count: int) -> Spent:
    spent = Spent([], [])
    for at in range(count):
        began, worked = time.perf_counter(), time.process_time()
        work(at)
        spent.clock_s.append(time.perf_counter() - began)
        spent.processor_s.append(time.process_time() - worked)
    return spent


def _fact(rng: random.Random) -> Fact:
    who = rng.choice(_PEOPLE)
    what = f"{rng.choice(_COLORS)} {rng.choice(_THINGS)}"
    return Fact(
        text=f"{who} keeps the {what} number {rng.randrange(1000)} in the {rng.choice(_PLACES)}", about=who
    )


def _question(rng: random.Random) -> str:
    return f"Where does {rng.choice(_PEOPLE)} keep the {rng.choice(_COLORS)} {rng.choice(_THINGS)}?"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


if __name__ == "__main__":
    main()
