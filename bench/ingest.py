"""How fast events with their full-text index go into a ledger: through Nexus, and bare.

Each way has a process and a file of its own. All have the same tables, indexes, triggers and pragmas,
the same rows and the same number of rows in a transaction; making the rows is not measured.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, Protocol

import apsw
from corpus import Batch, Corpus, Row
from report import progress

from nexus.config import LedgersConfig
from nexus.ledgers import Database, events, migrate, sql

BATCH = 1_000
Way = Literal["nexus", "sqlite3", "apsw"]
WAYS: tuple[Way, ...] = ("nexus", "sqlite3", "apsw")

_THREADS = "INSERT INTO threads (id, channel, external_id) VALUES (?, ?, ?)"
_PRAGMAS = (
    "foreign_keys = ON",
    "synchronous = FULL",
    f"cache_size = -{LedgersConfig().cache_kib}",
    f"journal_size_limit = {64 * 1024 * 1024}",
    "temp_store = MEMORY",
)


@dataclass(frozen=True)
class Ingested:
    """What one way took for all events."""

    way: Way
    events: int
    seconds: float
    file_bytes: int

    @property
    def rate(self) -> float:
        return self.events / self.seconds


def ingest(way: Way, path: Path, count: int) -> Ingested:
    """Put `count` events into a new ledger at `path`, in a process that does nothing else."""
    os.sync()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_run, way, path, count).result()


def _run(way: Way, path: Path, count: int) -> Ingested:
    migrate.create(path, "events")
    corpus = Corpus()
    batches = corpus.batches(count, BATCH)
    threads = corpus.thread_rows()
    if way == "nexus":
        seconds = asyncio.run(_through_nexus(path, threads, batches))
    else:
        connect: Callable[[str], _Bare] = _sqlite3 if way == "sqlite3" else apsw.Connection
        seconds = _bare(connect(str(path)), threads, batches)
    return Ingested(way, count, seconds, path.stat().st_size)


async def _through_nexus(path: Path, threads: list[Row], batches: Iterator[Batch]) -> float:
    seconds = 0.0
    with ThreadPoolExecutor(2) as executor:
        database = Database(path, "events", LedgersConfig(), executor)
        await database.write(lambda connection: connection.executemany(_THREADS, threads))
        for number, batch in enumerate(batches, start=1):
            started = time.perf_counter()
            await database.write(events.append, batch.events)
            seconds += time.perf_counter() - started
            _tell("nexus", number, seconds)
        started = time.perf_counter()
        await database.close()
        return seconds + time.perf_counter() - started


class _Bare(Protocol):
    """What the two SQLite libraries have in common."""

    def execute(self, sql: str, /) -> object: ...
    def executemany(self, sql: str, rows: list[Row], /) -> object: ...
    def close(self) -> None: ...


def _sqlite3(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def _bare(connection: "_Bare", threads: list[Row], batches: Iterator[Batch]) -> float:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    queries = sql.queries("events")
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_THREADS, threads)
    connection.execute("COMMIT")
    way, seconds = type(connection).__module__, 0.0
    for number, batch in enumerate(batches, start=1):
        started = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(queries["append"], batch.event_rows)
        connection.executemany(queries["add_participant"], batch.participant_rows)
        connection.execute("COMMIT")
        seconds += time.perf_counter() - started
        _tell(way, number, seconds)
    started = time.perf_counter()
    connection.close()
    return seconds + time.perf_counter() - started


def _tell(way: str, batches: int, seconds: float) -> None:
    if batches % 100 == 0:
        progress(f"ingest, {way}: {batches * BATCH:,} events, {batches * BATCH / seconds:,.0f}/s")
