"""How long a lost home takes to come back from its copy, by size, and how far a copy is behind.

    python bench/takeover.py [--quick] [--write]

Homes of several sizes are filled with messages and copied by Litestream to a folder on the same disk. What is
measured: the first copy, the lag of the copy while messages are written, and bringing the home back, that is
fetching it, reconciling its ledgers, and opening it.
"""

import argparse
import asyncio
import resource
import shutil
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

import apsw
from report import machine, progress, write_section

from nexus.app import App
from nexus.config import Config, LedgersConfig
from nexus.home import LEDGERS, Home
from nexus.hosting.replication import Replicas
from nexus.ledgers import Ledgers, events, reconcile
from nexus.ledgers.events import NewEvent

_TEXT = "On that day we talked about the garden, the broken gate and who would come to dinner on Sunday. "
_BATCH = 1_000
_PROBES = 30


async def _filled(home: Home, messages: int) -> None:
    home.create()
    async with Ledgers(home, LedgersConfig()) as opened:
        thread = await opened.events.write(events.ensure_thread, channel="cli", external_id="main")
        for first in range(0, messages, _BATCH):
            batch = [
                NewEvent(
                    channel="cli", content=f"{_TEXT}{first + number}", thread_id=thread, direction="outbound"
                )
                for number in range(min(_BATCH, messages - first))
            ]
            await opened.events.write(events.append, batch)


async def _lag_ms(home: Home, copy: Path) -> list[float]:
    """From a commit to its first piece in the copy."""
    lags: list[float] = []
    async with Ledgers(home, LedgersConfig()) as opened:
        for _ in range(_PROBES):
            before = _pieces(copy)
            await opened.events.write(
                events.append, [NewEvent(channel="probe", content="", direction="outbound")]
            )
            began = time.perf_counter()
            while _pieces(copy) <= before:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.005)
            lags.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.137)
    return lags


def _pieces(copy: Path) -> int:
    return sum(1 for _ in copy.rglob("*.ltx"))


async def _measured(folder: Path, messages: int) -> tuple[float, ...]:
    home, there = Home(folder / "host" / "homes" / "one"), Home(folder / "other" / "one")
    (folder / "host" / "run").mkdir(parents=True)
    await _filled(home, messages)
    async with Replicas(folder / "host", f"file://{folder}/copies") as replicas:
        began = time.perf_counter()
        await replicas.follow("hom_1", home)
        first_s = time.perf_counter() - began
        lags = await _lag_ms(home, folder / "copies" / "hom_1" / "events")
        await replicas.leave("hom_1")
        size_mib = sum(home.ledger(name).stat().st_size for name in LEDGERS) / 2**20
        began, used_s = time.perf_counter(), _children_s()
        await replicas.bring_back("hom_1", there)
        fetched_s, fetching_cpu_s = time.perf_counter() - began, _children_s() - used_s
    with closing(apsw.Connection(str(there.ledger("events")))) as connection:
        assert connection.execute("SELECT count(*) FROM events").get == messages + _PROBES
    began = time.perf_counter()
    await asyncio.to_thread(reconcile.reconcile, there)
    reconciled_s = time.perf_counter() - began
    began = time.perf_counter()
    async with App(there, Config()):
        opened_s = time.perf_counter() - began
    return (
        size_mib,
        first_s,
        statistics.median(lags),
        max(lags),
        fetched_s,
        fetching_cpu_s,
        reconciled_s,
        opened_s,
    )


def _children_s() -> float:
    """Processor time of Litestream's runs that have ended, which a busy machine doesn't change much."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small homes only")
    parser.add_argument("--write", action="store_true", help="put the figures into bench/RESULTS.md")
    asked = parser.parse_args()
    lines = [
        "| messages | home | first copy | copy behind, p50 | most "
        "| fetched | its processor | reconciled | opened |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for messages in (100, 2_000) if asked.quick else (100, 10_000, 100_000, 1_000_000):
        folder = Path(tempfile.mkdtemp(prefix="takeover-"))
        try:
            size, first, p50, most, fetched, cpu, reconciled, opened = asyncio.run(
                _measured(folder, messages)
            )
        finally:
            shutil.rmtree(folder)
        lines.append(
            f"| {messages:,} | {size:,.1f} MiB | {first:.2f} s | {p50:,.0f} ms | {most:,.0f} ms "
            f"| {fetched:.2f} s | {cpu:.2f} s | {reconciled:.2f} s | {opened:.2f} s |"
        )
        progress(lines[-1])
    text = "\n".join(lines) + "\n"
    print(text)
    if asked.write:
        write_section("takeover", f"## A lost home comes back from its copy\n\n{machine()}\n\n{text}")


if __name__ == "__main__":
    main()
