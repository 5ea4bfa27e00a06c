"""What homes cost: to make, to open, to keep open by the hundred."""

import asyncio
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import apsw
from report import progress

from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers

_SHARED_THREADS = 8


@dataclass(frozen=True)
class Made:
    """Many homes on one disk."""

    homes: list[Home]
    seconds: float
    apparent_bytes: int
    allocated_bytes: int


@dataclass(frozen=True)
class KeptOpen:
    """Many homes open in one process."""

    homes: int
    threads: int
    files: int
    memory_bytes: int
    first_writes_s: float
    next_writes_s: float


def make(folder: Path, count: int) -> Made:
    """Make homes exactly as `nexus init` does."""
    started, homes = time.perf_counter(), list[Home]()
    for number in range(count):
        home = Home(folder / f"{number // 1000:03d}" / f"{number % 1000:03d}")
        home.create()
        homes.append(home)
        if (number + 1) % 1000 == 0:
            progress(f"homes: {number + 1:,} made")
    seconds = time.perf_counter() - started
    sizes = [path.lstat() for path in homes[0].root.rglob("*")]
    return Made(
        homes, seconds, sum(size.st_size for size in sizes), sum(size.st_blocks * 512 for size in sizes)
    )


def remove(folder: Path) -> float:
    """Remove them all; returns the seconds it took."""
    started = time.perf_counter()
    shutil.rmtree(folder)
    return time.perf_counter() - started


def open_and_close(home: Home, times: int, *, writes: bool) -> list[float]:
    """Open a home, use all six ledgers once, close it: milliseconds of each round."""
    return [asyncio.run(_open_and_close(home, writes=writes)) for _ in range(times)]


async def _open_and_close(home: Home, *, writes: bool) -> float:
    started = time.perf_counter()
    async with Ledgers(home, LedgersConfig()) as opened:
        await asyncio.gather(*(database.read(_read_one) for database in opened))
        if writes:
            await asyncio.gather(*(database.write(_write_one) for database in opened))
    return (time.perf_counter() - started) * 1000


def keep_open(homes: list[Home]) -> KeptOpen:
    """Open all homes at once over a few shared threads and write to each."""
    return asyncio.run(_keep_open(homes))


async def _keep_open(homes: list[Home]) -> KeptOpen:
    threads, files, memory = threading.active_count(), _open_files(), _resident_bytes()
    with ThreadPoolExecutor(_SHARED_THREADS) as executor:
        async with AsyncExitStack() as stack:
            each_home = (Ledgers(home, LedgersConfig(), executor) for home in homes)
            opened = [await stack.enter_async_context(each) for each in each_home]
            first_s = await _one_write_each(opened)
            await asyncio.gather(*(database.read(_read_one) for each in opened for database in each))
            next_s = await _one_write_each(opened)
            return KeptOpen(
                len(homes),
                threading.active_count() - threads,
                _open_files() - files,
                _resident_bytes() - memory,
                first_s,
                next_s,
            )


async def _one_write_each(opened: list[Ledgers]) -> float:
    started = time.perf_counter()
    await asyncio.gather(*(database.write(_write_one) for each in opened for database in each))
    return time.perf_counter() - started


def _read_one(connection: apsw.Connection) -> object:
    return connection.execute("SELECT version, name, applied_at FROM schema_migrations LIMIT 1").fetchone()


def _write_one(connection: apsw.Connection) -> None:
    connection.execute("UPDATE schema_migrations SET applied_at = applied_at")


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
