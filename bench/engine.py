"""How fast the engine is, beside bare DBOS on the same database, in one run.

    python bench/engine.py                    both databases
    python bench/engine.py --database sqlite  one of them
    python bench/engine.py --quick            smaller numbers, for a look
    python bench/engine.py --write            also puts the figures into bench/RESULTS.md

Each figure is taken in a process of its own, because DBOS is global. Bare DBOS gets its best case: a
queue without partitions, a poll of 50 ms, and the same SQLite settings as ours.
"""

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from report import Figure, machine, table, write_section

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from dbos import DBOS

from contract.postgres import Postgres
from nexus.engine import Engine, Lane, Settings, WorkContext
from nexus.engine.database import Database

_LATENCY_MS = {"sqlite": 25, "postgres": 40}
LANES = (Lane(name="chat", limit=64, priority=0), Lane(name="background", limit=16, priority=100))


def _settings(database: str) -> Settings:
    return Settings(
        database=database if database.startswith("postgres") else Path(database), lanes=LANES, host_limit=64
    )


async def _noop(context: WorkContext, payload: Any) -> Any:
    return payload


@DBOS.workflow(name="bare")
async def _bare(payload: Any) -> Any:
    return payload


async def _drained(database: Database, count: int) -> None:
    statement = database.sql("SELECT count(*) FROM {t}workflow_status WHERE status = 'SUCCESS'")
    # Other processes write it.
    while (await asyncio.to_thread(database.fetch, statement))[0][0] < count:  # noqa: ASYNC110 - no event here
        await asyncio.sleep(0.05)


async def ours(database: str, *, count: int, keys: int) -> dict[str, float]:
    """Executions a second, from the first start to the last recorded end."""
    engine = Engine(_settings(database))
    engine.register("noop", _noop)
    await engine.open()
    begun = time.perf_counter()
    await asyncio.gather(*[engine.start("noop", n, key=f"k{n % keys}", lane="chat") for n in range(count)])
    started = time.perf_counter()
    await _drained(engine.database, count)
    ended = time.perf_counter()
    await engine.close()
    return {"rate": count / (ended - begun), "drain_rate": count / (ended - started)}


async def bare(database: str, *, count: int) -> dict[str, float]:
    """The same with DBOS alone."""
    opened = Database(_settings(database))
    DBOS(
        config={
            "name": "bare",
            "system_database_url": opened.url.replace("+psycopg", ""),
            "system_database_engine": opened.engine,
            "log_level": "CRITICAL",
        }
    )
    DBOS.launch()
    queue = await DBOS.register_queue_async("bare", polling_interval_sec=0.05)
    begun = time.perf_counter()
    for first in range(0, count, 64):
        numbers = range(first, min(first + 64, count))
        await asyncio.gather(*[queue.enqueue_async(_bare, number) for number in numbers])
    await _drained(opened, count)
    ended = time.perf_counter()
    # The loop's threads belong to DBOS; a process that ends anyway need not take them apart.
    return {"rate": count / (ended - begun)}


async def latency(database: str, *, count: int) -> dict[str, float]:
    """From the call of `start` to the first line of the body, on an engine that has nothing else to do."""
    seen: list[float] = []

    async def ping(context: WorkContext, payload: float) -> None:
        seen.append((time.perf_counter() - payload) * 1000)

    engine = Engine(_settings(database))
    engine.register("ping", ping)
    await engine.open()
    for number in range(count):
        handle = await engine.start("ping", time.perf_counter(), key=f"k{number}", lane="chat")
        await handle.result()
        await asyncio.sleep(0.03)
    await engine.close()
    ordered = sorted(seen)
    return {"p50_ms": statistics.median(ordered), "p95_ms": ordered[int(len(ordered) * 0.95)]}


async def steps(database: str, *, count: int) -> dict[str, float]:
    """What recording the result of a step costs, one after the other in one execution."""

    async def answer(size: int) -> str:
        return "x" * size

    async def body(context: WorkContext, size: int) -> float:
        begun = time.perf_counter()
        for _ in range(count):
            await context.step("answer", answer, size)
        return (time.perf_counter() - begun) * 1000 / count

    engine = Engine(_settings(database))
    engine.register("body", body)
    async with engine:
        small = await (await engine.start("body", 100, key="k", lane="chat")).result()
        large = await (await engine.start("body", 100_000, key="k", lane="chat")).result()
    return {"ms": small, "large_ms": large}


async def idle(database: str, *, seconds: int) -> dict[str, float]:
    """The share of one core that a worker uses while there is nothing to do."""
    engine = Engine(_settings(database))
    await engine.open()
    await asyncio.sleep(2)
    before = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.sleep(seconds)
    after = resource.getrusage(resource.RUSAGE_SELF)
    await engine.close()
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"percent": used / seconds * 100}


_MEASURES = {"ours": ours, "bare": bare, "latency": latency, "steps": steps, "idle": idle}


def measure(database: str, what: str, **options: int) -> dict[str, float]:
    """Take one figure in a process of its own."""
    argument = json.dumps({"what": what, "database": database, "options": options})
    finished = subprocess.run(
        [sys.executable, __file__, "--measure", argument], check=True, capture_output=True, text=True
    )
    return json.loads(finished.stdout.splitlines()[-1])


class Places:
    """A new, empty database for each figure."""

    def __init__(self, kind: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._made = 0
        self._cluster = Postgres() if kind == "postgres" else None
        if self._cluster is not None:
            self._cluster.start()

    def new(self) -> str:
        if self._cluster is not None:
            return self._cluster.new_database()
        self._made += 1
        return str(Path(self._folder.name, f"engine-{self._made}.db"))

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()
        self._folder.cleanup()


def figures(kind: str, *, quick: bool) -> list[Figure]:
    places = Places(kind)
    try:
        return list(_figures(kind, places, quick=quick))
    finally:
        places.close()


def _figures(kind: str, places: Places, *, quick: bool) -> Iterator[Figure]:
    count, many, rounds = (500, 1_000, 1) if quick else (2_000, 10_000, 3)
    rates: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(rounds):
        rates["bare"].append(measure(places.new(), "bare", count=count)["rate"])
        rates["ours"].append(measure(places.new(), "ours", count=count, keys=100)["rate"])
    ours_rate, bare_rate = statistics.median(rates["ours"]), statistics.median(rates["bare"])
    yield Figure(
        what=f"{count:,} no-op executions, median of {rounds}",
        value=f"{ours_rate:.0f}/s, bare DBOS {bare_rate:.0f}/s: {ours_rate / bare_rate:.2f}",
        target="≥ 0.8",
        met=ours_rate >= 0.8 * bare_rate,
    )
    waits = measure(places.new(), "latency", count=50 if quick else 200)
    yield Figure(
        what="enqueue to start",
        value=f"p50 {waits['p50_ms']:.1f} ms, p95 {waits['p95_ms']:.1f} ms",
        target=f"p50 < {_LATENCY_MS[kind]} ms",
        met=waits["p50_ms"] < _LATENCY_MS[kind],
    )
    rest = measure(places.new(), "idle", seconds=5 if quick else 30)
    yield Figure(
        what="CPU of an idle worker",
        value=f"{rest['percent']:.1f} % of a core",
        target="< 3 %",
        met=rest["percent"] < 3,
    )
    wide = measure(places.new(), "ours", count=many, keys=many)["drain_rate"]
    narrow = measure(places.new(), "ours", count=many, keys=100)["drain_rate"]
    yield Figure(
        what=f"{many:,} executions drain over as many sessions, and over 100",
        value=f"{wide:.0f}/s, {narrow:.0f}/s: {wide / narrow:.2f}",
        target="≥ 0.7",
        met=wide >= 0.7 * narrow,
    )
    step = measure(places.new(), "steps", count=100 if quick else 1_000)
    yield Figure(
        what="a recorded step",
        value=f"{step['ms']:.1f} ms, with a result of 100 KB {step['large_ms']:.1f} ms",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        asked = json.loads(given.measure)
        taken = asyncio.run(_MEASURES[asked["what"]](asked["database"], **asked["options"]))
        print(json.dumps(taken), flush=True)
        return
    for kind in ["sqlite", "postgres"] if given.database == "both" else [given.database]:
        text = table(figures(kind, quick=given.quick))
        print(f"### {kind}\n\n{text}", flush=True)
        if given.write:
            about = "`python bench/engine.py`" + (" `--quick`" if given.quick else "")
            write_section(f"engine {kind}", f"## The engine on {kind}\n\n{about}: {machine()}\n\n{text}")


if __name__ == "__main__":
    main()
