"""The long form of the engine's contract: the same promises as in `tests/contract`, with large numbers.

    python bench/engine_contract.py                      everything, both databases
    python bench/engine_contract.py --database sqlite    one of them
    python bench/engine_contract.py --scale 0.1          a tenth of the numbers

Prints one line for each promise, for `bench/RESULTS.md`; exits with 1 when one was broken.
"""

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from contract import promises
from contract.harness import Harness
from contract.postgres import Postgres
from contract.workload import Evidence, engine

_WORKERS = 4
_PRODUCERS = 8
_KILL_EVERY_S = 4.0
_LEASE_MS = 10_000


class Run:
    """One database, one set of numbers, and whether every promise was kept."""

    def __init__(self, kind: str, scale: float) -> None:
        self._kind = kind
        self._scale = scale
        self._folder = Path(tempfile.mkdtemp(prefix="nexus-contract-"))
        self._cluster = Postgres() if kind == "postgres" else None
        self._made = 0
        self.broken = 0

    def all(self) -> None:
        if self._cluster is not None:
            self._cluster.start()
        print(f"## {self._kind}", flush=True)
        for part in (self._order, self._kills, self._freezes, self._stops, self._acknowledged):
            part()
        if self._cluster is not None:
            self._cluster.stop()

    def _order(self) -> None:
        harness, count = self._harness(), self._number(20_000)
        begun = time.monotonic()
        harness.workers(_WORKERS)
        self._produce(harness, count, work="plain")
        drained = harness.drain(3_600)
        rate = count / (time.monotonic() - begun)
        title = f"{count:,} executions over {self._number(500)} sessions, {rate:.0f}/s"
        checks = (promises.overlaps, promises.reorderings, promises.lost, promises.repeats)
        self._report(harness, title, drained, *checks)

    def _kills(self) -> None:
        harness, count = self._harness(), self._number(20_000) // 4
        workers, kills = harness.workers(_WORKERS), 0
        producers = self._producers(harness, count, work="steps", ms=20, step_ms=5)
        chance = random.Random(1)
        while any(process.poll() is None for process in producers) or not harness.drain(0.2):
            time.sleep(_KILL_EVERY_S)
            harness.kill(workers.pop(chance.randrange(len(workers))))
            workers.append(harness.worker())
            kills += 1
        delays = promises.takeover_delays_ms(harness)
        late = f"latest {max(delays):.0f} ms after the lease" if delays else "nothing was running"
        title = f"{count:,} executions, {kills} kills, {len(delays)} takeovers, {late}"
        checks = (promises.overlaps, promises.reorderings, promises.lost, promises.repeated_steps)
        self._report(harness, title, not delays or max(delays) < 5_000, *checks)

    def _freezes(self) -> None:
        harness = self._harness(lease_ms=3_000)
        times = self._number(20)
        for number in range(times):
            (frozen,) = harness.workers(1)
            harness.producer(
                number, count=6, keys=6, work="steps", payload={"ms": 100, "step_ms": 1_500}
            ).wait()
            harness.await_line(frozen, "ran")
            (other,) = harness.workers(1)
            with harness.freeze(frozen):
                time.sleep(6)
            harness.drain(120)
            time.sleep(1)
            for process in (frozen, other):
                harness.kill(process)
        checks = (promises.late_writes, promises.overlaps, promises.lost, promises.repeated_steps)
        self._report(harness, f"{times} workers frozen past their lease and thawed", True, *checks)

    def _stops(self) -> None:
        harness, count = self._harness(), self._number(1_000)
        asyncio.run(_stop_many(harness, count))
        self._report(
            harness, f"{count:,} executions stopped, half by cancel, half by limit", True, promises.overlaps
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
        title = f"{count:,} acknowledged executions over {kills} kill -9"
        self._report(harness, title, drained, promises.lost, promises.reorderings)

    def _harness(self, lease_ms: int = _LEASE_MS) -> Harness:
        self._made += 1
        folder = self._folder / str(self._made)
        folder.mkdir()
        database = str(folder / "engine.db") if self._cluster is None else self._cluster.new_database()
        return Harness(database, folder, lease_ms=lease_ms)

    def _number(self, full: int) -> int:
        return max(int(full * self._scale), 1)

    def _producers(
        self, harness: Harness, count: int, *, work: str, **payload: int
    ) -> list[subprocess.Popen[bytes]]:
        keys = self._number(500)
        return [
            harness.producer(number, count=count // _PRODUCERS, keys=keys, work=work, payload=payload)
            for number in range(_PRODUCERS)
        ]

    def _produce(self, harness: Harness, count: int, *, work: str) -> None:
        for process in self._producers(harness, count, work=work):
            process.wait()

    def _report(
        self, harness: Harness, title: str, fine: bool, *checks: Callable[[Harness], list[str]]
    ) -> None:
        harness.stop()
        found = {check.__name__: check(harness) for check in checks}
        counts = ", ".join(f"{name.replace('_', ' ')} {len(broken)}" for name, broken in found.items())
        kept = fine and not any(found.values())
        self.broken += not kept
        print(f"- {title}: {counts}{'' if kept else '  BROKEN'}", flush=True)
        for broken in found.values():
            for one in broken[:3]:
                print(f"    {one}", flush=True)


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
        await made.finished(first.id)
        await made.finished(second.id)

    for begin in range(0, count, 20):
        await asyncio.gather(*[one(number) for number in range(begin, min(begin + 20, count))])
    await made.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    broken = 0
    for kind in ["sqlite", "postgres"] if given.database == "both" else [given.database]:
        run = Run(kind, given.scale)
        run.all()
        broken += run.broken
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
