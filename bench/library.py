"""The memory as a library: import, opening, adding, searching and closing.

python bench/library.py              1,000 facts, one scope and ten; half a minute
python bench/library.py --large      100,000 facts, 1,000 scopes; long, as everything is embedded
python bench/library.py --write      the same, into RESULTS.md
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--large", action="store_true", help="100,000 facts in 1,000 scopes")
    parser.add_argument("--write", action="store_true", help="write the figures into RESULTS.md")
    sizes = parser.parse_args(namespace=Sizes())
    count, scopes = (100_000, 1_000) if sizes.large else (1_000, 10)
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as name:
        figures = _measure(Path(name) / "home", count, scopes)
    text = table(figures)
    print(text)
    print(machine())
    if sizes.write:
        about = "`python bench/library.py`" + (" `--large`" if sizes.large else "")
        apart = "Not compared with other memory libraries."
        write_section("library", f"## The memory as a library\n\n{about}: {machine()} {apart}\n\n{text}")


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
