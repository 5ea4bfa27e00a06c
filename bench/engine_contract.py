"""The long form of the engine's contract: the same promises as in `tests/contract`, with large numbers.

    python bench/engine_contract.py                      everything, both databases
    python bench/engine_contract.py --database sqlite    one of them
    python bench/engine_contract.py --scale 0.01         a hundredth of the numbers
    python bench/engine_contract.py --write              also puts the figures into bench/RESULTS.md

Prints one line for each promise; exits with 1 when one was broken.
"""

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from report import Figure, machine, progress, table, write_section

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from contract import promises
from contract.harness import Harness
from contract.postgres import Postgres
from contract.workload import Evidence, engine

_WORKERS = 4
_PRODUCERS = 8
_KILL_EVERY_S = 4.0
_LEASE_MS = 10_000
_FREEZE_S = _LEASE_MS / 1000 + 3
_TAKEOVER_MS = 5_000
_PARTS = ("order", "kills", "freezes", "stops", "acknowledged")

Workers = list[subprocess.Popen[bytes]]
Check = Callable[[Harness], list[str]]


class Run:
    """One database, one set of numbers, and whether every promise was kept."""

    def __init__(self, kind: str, scale: float) -> None:
        self._scale = scale
        self._place = tempfile.TemporaryDirectory(prefix="nexus-contract-")
        self._cluster = Postgres() if kind == "postgres" else None
        self._harnesses: list[Harness] = []
        self._sessions = self._number(500)
        self.figures: list[Figure] = []

    def all(self, parts: Sequence[str]) -> None:
        if self._cluster is not None:
            self._cluster.start()
        try:
            for part in parts:
                getattr(self, f"_{part}")()
        finally:
            for harness in self._harnesses:
                harness.stop()
            if self._cluster is not None:
                self._cluster.stop()
            self._place.cleanup()

    def _order(self) -> None:
        harness, count = self._harness(), self._number(20_000)
        begun = time.monotonic()
        harness.workers(_WORKERS)
        for process in self._producers(harness, count, work="plain"):
            process.wait()
        drained = harness.drain(3_600)
        rate = count / (time.monotonic() - begun)
        what = f"{self._load(count)}, {rate:.0f}/s"
        checks = (promises.overlaps, promises.reorderings, promises.lost, promises.repeats)
        self._report(harness, what, *checks, fine=drained)

    def _kills(self) -> None:
        kills = 0
        chance = random.Random(1)

        def kill(harness: Harness, workers: Workers) -> None:
            nonlocal kills
            time.sleep(_KILL_EVERY_S)
            harness.kill(workers.pop(chance.randrange(len(workers))))
            # The next one dies when there are four again: killing what has not begun yet shows nothing.
            workers += harness.workers(1)
            kills += 1

        harness, count = self._disturbed(kill)
        delays = promises.takeover_delays_ms(harness)
        latest = max(delays, default=0.0)
        what = f"{self._load(count)}, kill -9 of a random worker every {_KILL_EVERY_S:.0f} s: {kills} times"
        checks = (promises.overlaps, promises.reorderings, promises.lost, promises.repeated_steps)
        self._report(harness, what, *checks)
        self.figures.append(
            Figure(
                what=f"{len(delays)} interrupted executions began elsewhere: the latest, after the lease",
                value=f"{latest:.0f} ms",
                target=f"≤ {_TAKEOVER_MS:,} ms",
                met=bool(delays) and latest <= _TAKEOVER_MS,
            )
        )
        progress(f"  {self.figures[-1]}")

    def _freezes(self) -> None:
        freezes = 0
        chance = random.Random(2)

        def freeze(harness: Harness, workers: Workers) -> None:
            nonlocal freezes
            time.sleep(_KILL_EVERY_S)
            with harness.freeze(workers[chance.randrange(len(workers))]):
                time.sleep(_FREEZE_S)
            freezes += 1

        harness, count = self._disturbed(freeze)
        what = f"{self._load(count)}, a random worker frozen for {_FREEZE_S:.0f} s, {freezes} times"
        checks = (promises.late_writes, promises.overlaps, promises.reorderings, promises.lost)
        self._report(harness, what, *checks, promises.repeated_steps)

    def _disturbed(self, disturb: Callable[[Harness, Workers], None]) -> tuple[Harness, int]:
        """Work in two steps, under something that happens to its workers again and again."""
        harness, count = self._harness(), self._number(20_000)
        workers = harness.workers(_WORKERS)
        producers = self._producers(harness, count, work="steps", ms=20, step_ms=5)
        while any(process.poll() is None for process in producers) or not harness.drain(0.2):
            disturb(harness, workers)
        return harness, count

    def _stops(self) -> None:
        harness, count = self._harness(), self._number(1_000)
        asyncio.run(_stop_many(harness, count))
        self._report(
            harness, f"{count:,} executions stopped, half by cancel, half by limit", promises.overlaps
        )

    def _acknowledged(self) -> None:
        harness, kills = self._harness(lease_ms=2_000), self._number(50)
        chance = random.Random(3)
        for number in range(kills):
            process = harness.both(number, keys=10, work="plain")
            time.sleep(chance.uniform(0.05, 0.8))
            harness.kill(process)
        harness.workers(1)
        drained = harness.drain(600)
        count = sum(line["what"] == "acknowledged" for line in harness.lines())
        what = f"{count:,} acknowledged executions over {kills} kill -9"
        self._report(harness, what, promises.lost, promises.reorderings, fine=drained)

    def _harness(self, lease_ms: int = _LEASE_MS) -> Harness:
        folder = Path(self._place.name, str(len(self._harnesses)))
        folder.mkdir()
        database = str(folder / "engine.db") if self._cluster is None else self._cluster.new_database()
        self._harnesses.append(Harness(database, folder, lease_ms=lease_ms))
        return self._harnesses[-1]

    def _number(self, full: int) -> int:
        return max(int(full * self._scale), 1)

    def _load(self, count: int) -> str:
        return (
            f"{count:,} executions over {self._sessions} sessions, {_PRODUCERS} producers, {_WORKERS} workers"
        )

    def _producers(self, harness: Harness, count: int, *, work: str, **payload: int) -> Workers:
        share = max(count // _PRODUCERS, 1)
        return [
            harness.producer(number, count=share, keys=self._sessions, work=work, payload=payload)
            for number in range(_PRODUCERS)
        ]

    def _report(self, harness: Harness, what: str, *checks: Check, fine: bool = True) -> None:
        harness.stop()
        found = {check.__name__.replace("_", " "): check(harness) for check in checks}
        counts = ", ".join(f"{name} {len(broken)}" for name, broken in found.items())
        kept = fine and not any(found.values())
        self.figures.append(Figure(what=what, value=counts, target="0 of each", met=kept))
        progress(f"{'kept' if kept else 'BROKEN'}: {what}: {counts}")
        for broken in found.values():
            for one in broken[:3]:
                progress(f"    {one}")


async def _stop_many(harness: Harness, count: int) -> None:
    """Stop bodies that take 20 ms to stop, each with another behind it in its session."""
    made = engine({"database": harness.database, "lease_ms": 20_000}, Evidence(str(harness.evidence)))
    await made.open()

    async def one(number: int) -> None:
        slow = {"producer": 0, "seq": 0, "ms": 60_000, "cleanup_ms": 20}
        limit_ms = 30 if number % 2 else None
        key = f"stop-{number}"
        first = await made.start("stubborn", slow, key=key, lane="chat", timeout_ms=limit_ms)
        second = await made.start("plain", {"producer": 0, "seq": 1}, key=key, lane="chat")
        if limit_ms is None:
            while (await first.state()).state != "running":  # noqa: ASYNC110 - the database knows
                await asyncio.sleep(0.02)
            await first.cancel()
        await made.wait_for_end(first.id)
        await made.wait_for_end(second.id)

    for begin in range(0, count, 20):
        await asyncio.gather(*[one(number) for number in range(begin, min(begin + 20, count))])
    await made.close()


def _stop(number: int, frame: object) -> None:
    sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--part", choices=_PARTS, action="append", help="only this part; may be given again")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    # So that whoever stops it leaves no worker and no server behind.
    signal.signal(signal.SIGTERM, _stop)
    kept = True
    for kind in ["sqlite", "postgres"] if given.database == "both" else [given.database]:
        run = Run(kind, given.scale)
        run.all(given.part or _PARTS)
        kept = kept and all(figure.met for figure in run.figures)
        text = f"### {kind}\n\n{table(run.figures)}"
        print(text, flush=True)
        if given.write and not given.part:
            about = (
                f"## The engine's contract on {kind}\n\n`python bench/engine_contract.py`: {machine()}\n\n"
            )
            write_section(f"engine_contract {kind}", about + table(run.figures))
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
