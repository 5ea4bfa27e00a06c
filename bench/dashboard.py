"""How long the server takes to make each page of the dashboard, and how large the pages are, in a large home.

    python bench/dashboard.py --events 1000000 --facts 100000 [--cache FOLDER] [--write]

A quarter of the events asked for something: each of those requests has a run, two model calls and four
spans. One entity, the owner, is a part of every third fact, and one session holds half of all messages, so
that the pages about them are the largest that a home of that size has. The pages are asked for in this
process, without a network between. Processor time is what a page took of all cores together: on a machine
that does other things too it tells more than the clock.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import report
from large_home import Size, build_home
from report import Figure

from nexus.app import App
from nexus.config import Config
from nexus.gateway.dependencies import Served
from nexus.gateway.guard import Keys
from nexus.gateway.server import build
from nexus.home import Home

_TARGET_MS = 200
_TARGET_BYTES = 300_000
_QUICK = Size(events=2_000, facts=500)
_PAGES = {
    "home": "/",
    "search everything": "/search?q=harbor+garden",
    "search everything, a name": "/search?q=name+42",
    "commands": "/help",
    "chat": "/chat/main",
    "requests": "/requests",
    "requests, failed": "/requests?status=failed",
    "requests, of dates": "/requests?when=custom&since=2026-01-01&until=2026-01-31",
    "requests, next page": "/requests?cursor=2026-01-01T00:00:00.000Z~req_0",
    "a request's trace": "/requests/req_000000000",
    "a message": "/events/evt_000000000",
    "recall": "/memory?q=when+does+the+harbor+garden+open",
    "entities": "/memory/entities",
    "entities, by name": "/memory/entities?q=name+42",
    "the busiest entity": "/memory/entities/ent_000000",
    "facts": "/memory/facts",
    "facts, by words": "/memory/facts?q=harbor+garden",
    "facts, of dates": "/memory/facts?when=custom&until=2026-01-31",
    "episodes": "/memory/episodes",
    "an episode": "/memory/episodes/epi_000000",
    "observations": "/memory/observations",
    "mental models": "/memory/models",
    "merge candidates": "/memory/merges",
    "automations": "/automations",
    "an automation": "/automations/busy",
    "a new script": "/automations/new/script",
    "sessions": "/sessions",
    "sessions, by words": "/sessions?q=harbor+garden",
    "a transcript": "/sessions/main",
    "usage, 30 days": "/usage",
    "usage, a year": "/usage?days=365",
    "settings": "/settings",
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A page: how long it took, how much of that the processor was busy for it, and its bytes."""

    name: str
    clock_ms: list[float]
    processor_ms: list[float]
    size: int


async def measure(home: Home, rounds: int) -> list[Measured]:
    """Every page, one after the other."""
    found: list[Measured] = []
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(App(home, Config(), serve=False))
        server = build(Served(app, Keys("t" * 43), stack))
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(server), base_url="http://127.0.0.1", timeout=300
        )
        await stack.enter_async_context(client)
        for name, path in _PAGES.items():
            await client.get(path)
            times, busy, size = await _timed(lambda path=path: client.get(path), rounds)
            found.append(Measured(name=name, clock_ms=times, processor_ms=busy, size=size))
            report.progress(f"{name}: p50 {report.percentile(times, 0.5):.0f} ms, {size / 1000:.0f} KB")
    return found


async def _timed(
    ask: Callable[[], Awaitable[httpx.Response]], rounds: int
) -> tuple[list[float], list[float], int]:
    clock_ms: list[float] = []
    processor_ms: list[float] = []
    size = 0
    for _ in range(rounds):
        begun, busy = time.perf_counter(), time.process_time()
        answer = await ask()
        clock_ms.append((time.perf_counter() - begun) * 1000)
        processor_ms.append((time.process_time() - busy) * 1000)
        assert answer.status_code == 200, answer.text[:2000]
        size = max(size, len(answer.content))
    return clock_ms, processor_ms, size


def figures(found: list[Measured]) -> list[Figure]:
    """A line for each page."""
    lines: list[Figure] = []
    for each in found:
        p50, p95 = (report.percentile(each.clock_ms, share) for share in (0.5, 0.95))
        busy = report.percentile(each.processor_ms, 0.95)
        lines.append(
            Figure(
                what=each.name,
                value=f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, processor time p95 {busy:.0f} ms, "
                f"{each.size / 1000:.0f} KB",
                target=f"p95 under {_TARGET_MS} ms, under {_TARGET_BYTES // 1000} KB",
                met=p95 < _TARGET_MS and each.size < _TARGET_BYTES,
            )
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--facts", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--cache", type=Path, help="Where the home is kept for another run.")
    parser.add_argument("--quick", action="store_true", help="A small home, a few rounds.")
    parser.add_argument("--write", action="store_true", help="Write the figures to RESULTS.md.")
    given = parser.parse_args()
    size = _QUICK if given.quick else Size(events=given.events, facts=given.facts)
    rounds = 3 if given.quick else given.rounds
    with tempfile.TemporaryDirectory() as folder:
        home = build_home((given.cache or Path(folder)) / "home", size)
        found = asyncio.run(measure(home, rounds))
    lines = figures(found)
    text = report.table(lines)
    print(text)
    if given.write:
        about = f"{size.events:,} events, {size.facts:,} facts, {rounds} rounds of each page, warm. "
        command = "`python bench/dashboard.py --write`"
        report.write_section(
            "dashboard", f"## The dashboard of a large home\n\n{command}: {about}{report.machine()}\n\n{text}"
        )


if __name__ == "__main__":
    main()
