"""What the six ledgers can carry: ingest, search, opening, homes by the thousand.

python bench/ledgers.py                    the full size: 1 million events, 10,000 homes
python bench/ledgers.py --write            the same, into RESULTS.md
python bench/ledgers.py --quick            a few seconds, to see that it runs
"""

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

import homes
from ingest import BATCH, WAYS, Ingested, Way, ingest
from questions import Answered, ask
from report import Figure, machine, percentile, progress, table, write_section
from stalls import stalls

from nexus.home import LEDGERS, Home

P = ParamSpec("P")
R = TypeVar("R")
_BYTES_PER_EVENT = 1_200
_BYTES_PER_HOME = 1_000_000


class Sizes(argparse.Namespace):
    """How much is measured."""

    events: int
    homes: int
    open_homes: int
    compared: int
    repeats: int
    questions: int
    rounds: int
    stall_s: float
    quick: bool
    write: bool
    folder: Path | None


def main() -> None:
    sizes = _sizes()
    with tempfile.TemporaryDirectory(prefix="nexus-bench-", dir=sizes.folder) as name:
        folder = Path(name)
        _require_space(folder, sizes)
        figures = list(_measure(folder, sizes))
    text = table(figures)
    print(text)
    print(machine())
    if sizes.write:
        about = "`python bench/ledgers.py`" + (" `--quick`" if sizes.quick else "")
        write_section("ledgers", f"## Ledgers\n\n{about}: {machine()}\n\n{text}")


def _sizes() -> Sizes:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--homes", type=int, default=10_000)
    parser.add_argument("--open-homes", type=int, default=200)
    parser.add_argument("--compared", type=int, default=100_000, help="events of each alternating ingest")
    parser.add_argument("--repeats", type=int, default=3, help="of the alternating ingest")
    parser.add_argument("--questions", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=200, help="of opening and closing a home")
    parser.add_argument("--stall-s", type=float, default=10.0)
    parser.add_argument("--folder", type=Path, help="where to put the files (default: the system's)")
    parser.add_argument("--quick", action="store_true", help="small sizes, a few seconds")
    parser.add_argument("--write", action="store_true", help="into RESULTS.md")
    sizes = parser.parse_args(namespace=Sizes())
    if sizes.quick:
        sizes.events, sizes.homes, sizes.open_homes, sizes.compared = 6_000, 20, 20, 2_000
        sizes.repeats, sizes.questions, sizes.rounds, sizes.stall_s = 1, 50, 10, 0.5
    return sizes


def _require_space(folder: Path, sizes: Sizes) -> None:
    needed = 2 * sizes.events * _BYTES_PER_EVENT + sizes.homes * _BYTES_PER_HOME
    free = shutil.disk_usage(folder).free
    if free < 2 * needed:
        sys.exit(f"This needs {2 * needed / 1e9:.0f} GB of free disk and there are {free / 1e9:.0f}.")


def _measure(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    home = homes.make(folder / "one", 1).homes[0]
    yield from _opening(home, "an empty home", sizes, target=True)
    home.ledger("events").unlink()
    yield from _ingest(home.ledger("events"), folder, sizes)
    yield from _search(home.ledger("events"), sizes)
    yield from _opening(home, f"a home with {sizes.events:,} events", sizes, target=True)
    yield from _stalls(folder / "stalls.db", sizes)
    yield from _many_homes(folder / "many", sizes)


def _ingest(path: Path, folder: Path, sizes: Sizes) -> Iterator[Figure]:
    large: dict[Way, Ingested] = {"nexus": ingest("nexus", path, sizes.events)}
    large["sqlite3"] = ingest("sqlite3", folder / "sqlite3.db", sizes.events)
    (folder / "sqlite3.db").unlink()
    whole = f"{sizes.events:,} events, {BATCH:,} in a transaction"
    for way in large:
        yield Figure(f"ingest with full-text index, {_NAMES[way]}, {whole}", _rate(large[way]))
    ratio = large["nexus"].rate / large["sqlite3"].rate
    yield Figure("rate through Nexus / bare `sqlite3`", f"{ratio:.2f}", "≥ 0.5", ratio >= 0.5)
    small = _alternating(folder, sizes)
    turns = f"{sizes.repeats} times {sizes.compared:,} events in turns, median"
    targets: dict[Way, float | None] = {"sqlite3": 0.5, "apsw": None}
    for bare, target in targets.items():
        ratios = [ours.rate / theirs.rate for ours, theirs in zip(small["nexus"], small[bare], strict=True)]
        median = statistics.median(ratios)
        yield Figure(
            f"rate through Nexus / bare `{bare}`, {turns}",
            f"{median:.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            f"≥ {target}" if target else "",
            median >= target if target else None,
        )
    yield Figure("size of the events ledger", f"{large['nexus'].file_bytes / sizes.events:,.0f} B an event")


_NAMES: dict[Way, str] = {
    "nexus": "through `Database.write`",
    "sqlite3": "bare `sqlite3` executemany",
    "apsw": "bare `apsw` executemany",
}


def _alternating(folder: Path, sizes: Sizes) -> dict[Way, list[Ingested]]:
    """Every way several times, each time in another order, so that none has the better moments."""
    done: dict[Way, list[Ingested]] = {way: [] for way in WAYS}
    for turn in range(sizes.repeats):
        first = turn % len(WAYS)
        for way in WAYS[first:] + WAYS[:first]:
            path = folder / f"turn-{turn}-{way}.db"
            done[way].append(ingest(way, path, sizes.compared))
            path.unlink()
            progress(f"ingest in turns, {way}: {done[way][-1].rate:,.0f}/s")
    return done


def _rate(ingested: Ingested) -> str:
    return f"{ingested.rate:,.0f}/s"


def _search(path: Path, sizes: Sizes) -> Iterator[Figure]:
    progress("search")
    answers = _apart(ask, path, sizes.questions)
    times = [answer.ms for answer in answers]
    yield Figure(
        f"search, {sizes.questions:,} questions over {sizes.events:,} events",
        _times(times),
        "p95 < 50 ms",
        percentile(times, 0.95) < 50,
    )
    for kind in sorted({answer.kind for answer in answers}):
        yield Figure(f"search, {kind}", _times([answer.ms for answer in answers if answer.kind == kind]))
    yield Figure("whole sentences whose own message is among 20 hits", _share(answers))


def _share(answers: list[Answered]) -> str:
    asked = [answer.found for answer in answers if answer.found is not None]
    return f"{100 * sum(asked) / len(asked):.0f} %"


def _opening(home: Home, which: str, sizes: Sizes, *, target: bool) -> Iterator[Figure]:
    for writes in (False, True):
        progress(f"open and close {which}")
        times = _apart(homes.open_and_close, home, sizes.rounds, writes=writes)
        what = "read one row of each ledger" + (", write one durably to each" if writes else "")
        fast = percentile(times, 0.5) < 30
        yield Figure(f"open {which}, {what}, close", _times(times), "p50 < 30 ms", fast)


def _stalls(path: Path, sizes: Sizes) -> Iterator[Figure]:
    progress("stalls of the event loop")
    late = _apart(stalls, path, sizes.stall_s)
    what = f"a 5 ms ticker beside {sizes.stall_s:g} s of steady writing comes late by"
    yield Figure(what, f"{_times(late)}, longest {max(late):.1f} ms")


def _many_homes(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    made = homes.make(folder, sizes.homes)
    yield Figure(f"make {sizes.homes:,} homes", f"{sizes.homes / made.seconds:,.0f}/s")
    size = f"{made.apparent_bytes / 1024:,.0f} KiB, {made.allocated_bytes / 1024:,.0f} KiB on disk"
    yield Figure("size of an empty home", size)
    progress("homes open at once")
    kept = _apart(homes.keep_open, made.homes[: sizes.open_homes])
    yield Figure(
        f"{kept.homes} homes open at once in one process",
        f"{kept.memory_bytes / kept.homes / 1024:,.0f} KiB and {kept.files / kept.homes:.0f} files each, "
        f"{kept.threads} threads in all",
    )
    writes = kept.homes * len(LEDGERS)
    yield Figure(
        f"one durable write to each of their {writes:,} ledgers, at once",
        f"{kept.first_writes_s:.2f} s with opening, {kept.next_writes_s:.2f} s when open "
        f"({writes / kept.next_writes_s:,.0f}/s)",
    )
    progress("homes: removing")
    yield Figure(f"remove {sizes.homes:,} homes", f"{sizes.homes / homes.remove(folder):,.0f}/s")


def _times(milliseconds: list[float]) -> str:
    return f"p50 {percentile(milliseconds, 0.5):.1f} ms, p95 {percentile(milliseconds, 0.95):.1f} ms"


def _apart(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run the work in a process of its own, so that no measurement warms or burdens another."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work, *args, **kwargs).result()


if __name__ == "__main__":
    main()
