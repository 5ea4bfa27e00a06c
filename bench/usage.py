"""How long it takes to say what was spent, and whether a budget is used up, in a home after a year of use.

    python bench/usage.py --rows 1000000 [--write]

Each row is a call of a model; every second one begins a new message, and the rows are spread evenly over the
last 365 days. What the program does is timed beside the same sums over the rows themselves, with the index
over their times: that is what each of these would cost without the sums that the ledger keeps.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import report
from report import Figure

from nexus import clock, ids
from nexus.broker import budgets
from nexus.config import BudgetsConfig, Config
from nexus.gateway.views import usage as views
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import usage
from nexus.ledgers.runtime.usage import UsageRow

_DAYS = 365
_QUICK_ROWS = 2_000
_ROLES = ("manager", "worker", "fast", "writer")
_AUTOMATIONS = (None, None, None, "memory-writer", "evening-notes")
_INSERT = (
    "INSERT INTO usage (id, request_id, root_request_id, role, automation, provider, model, input_tokens,"
    " cache_read_tokens, output_tokens, cost_microusd, created_at)"
    " VALUES (?, ?, ?, ?, ?, 'p', ?, 900, 20000, 300, ?, ?)"
)
_SUMS = "count(*), sum(input_tokens), sum(cache_read_tokens), sum(output_tokens), sum(cost_microusd)"
_ROWS_SINCE = f"SELECT {_SUMS} FROM usage WHERE created_at >= ?"
_ROWS_BY_DAY = (
    f"SELECT substr(created_at, 1, 10), model, {_SUMS} FROM usage WHERE created_at >= ? GROUP BY 1, 2"
)
_ROWS_BY_ROOT = (
    f"SELECT root_request_id, {_SUMS} FROM usage WHERE created_at >= ? GROUP BY 1 ORDER BY 6 DESC LIMIT 10"
)
_LIMITS = BudgetsConfig(day_usd=1e9, month_usd=1e9)


def build_home(root: Path, rows: int) -> Home:
    """A home that holds nothing but usage."""
    home = Home(root)
    home.create()
    connection = apsw.Connection(str(home.ledger("runtime")))
    connection.execute("PRAGMA journal_mode = wal; PRAGMA synchronous = off")
    begun = time.perf_counter()
    with connection:
        connection.executemany(_INSERT, _made(rows, clock.now()))
    report.progress(f"{rows:,} rows in {time.perf_counter() - begun:.0f} s")
    connection.execute("PRAGMA wal_checkpoint(truncate)")
    connection.close()
    return home


def _made(rows: int, now: datetime) -> Iterator[tuple[Any, ...]]:
    draw = random.Random(7)
    for n in range(rows):
        at = clock.timestamp(now - timedelta(days=_DAYS - 1) * (1 - n / rows))
        request = f"req_{n // 2:09}"
        model, automation = f"model-{draw.randrange(4)}", draw.choice(_AUTOMATIONS)
        cost = draw.randrange(500, 90_000)
        yield f"use_{n:09}", request, request, draw.choice(_ROLES), automation, model, cost, at


async def measure(home: Home, rounds: int) -> list[Figure]:
    """Each question to the sums, and to the rows."""
    now = clock.now()
    year, month = clock.day(now - timedelta(days=_DAYS - 1)), clock.first_of_month(now)
    async with Ledgers(home, Config().ledgers) as opened:

        async def rows(query: str, since: str) -> None:
            await opened.runtime.read(lambda c: c.execute(query, (since,)).fetchall())

        standing = partial(opened.runtime.read, lambda c: list(budgets.of_home(c, _LIMITS, now)))
        return [
            await _compared("a day and a month against their budgets", standing, None, rounds),
            await _compared(
                "the sum of a month",
                partial(opened.runtime.read, partial(usage.since, day=month)),
                partial(rows, _ROWS_SINCE, month),
                rounds,
            ),
            await _compared(
                "a year by day, model and automation",
                partial(views.load_usage, opened, days=_DAYS),
                partial(rows, _ROWS_BY_DAY, year),
                rounds,
            ),
            await _compared(
                "the ten dearest messages of a year",
                partial(views.load_most_expensive, opened, days=_DAYS),
                partial(rows, _ROWS_BY_ROOT, year),
                rounds,
            ),
            await _compared("writing a row, durably", partial(_record, opened), None, rounds),
        ]


async def _record(opened: Ledgers) -> None:
    row = UsageRow(
        id=ids.new("use"), request_id="req_1", root_request_id="req_1", provider="p", model="model-1"
    )
    await opened.runtime.write(usage.record, row=row)


async def _compared(
    what: str,
    ours: Callable[[], Awaitable[Any]],
    over_rows: Callable[[], Awaitable[Any]] | None,
    rounds: int,
) -> Figure:
    value = await _timed(ours, rounds)
    if over_rows is not None:
        value += f"; over the rows {await _timed(over_rows, max(3, rounds // 10))}"
    report.progress(f"{what}: {value}")
    return Figure(what, value)


async def _timed(ask: Callable[[], Awaitable[Any]], rounds: int) -> str:
    await ask()
    times: list[float] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        await ask()
        times.append((time.perf_counter() - begun) * 1000)
    return f"p50 {report.percentile(times, 0.5):.1f} ms, p95 {report.percentile(times, 0.95):.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="Few rows, a few rounds.")
    parser.add_argument("--write", action="store_true", help="Write the figures to RESULTS.md.")
    given = parser.parse_args()
    rows, rounds = (_QUICK_ROWS, 3) if given.quick else (given.rows, given.rounds)
    with tempfile.TemporaryDirectory() as folder:
        lines = asyncio.run(measure(build_home(Path(folder) / "home", rows), rounds))
    text = report.table(lines)
    print(text)
    if given.write:
        about = f"{rows:,} calls of models in a year, {rounds} rounds, warm. "
        command = "`python bench/usage.py --write`"
        report.write_section("usage", f"## What was spent\n\n{command}: {about}{report.machine()}\n\n{text}")


if __name__ == "__main__":
    main()
