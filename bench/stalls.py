"""How long the event loop is kept waiting while events are written as fast as they go."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from corpus import Corpus
from ingest import BATCH

from nexus.config import LedgersConfig
from nexus.ledgers import Database, events, migrate

_TICK_S = 0.005


def stalls(path: Path, seconds: float) -> list[float]:
    """By how many milliseconds each tick of a 5 ms ticker came late."""
    migrate.create(path, "events")
    return asyncio.run(_stalls(path, seconds))


async def _stalls(path: Path, seconds: float) -> list[float]:
    late: list[float] = []
    with ThreadPoolExecutor(4) as executor:
        database = Database(path, "events", LedgersConfig(), executor)
        writing = asyncio.create_task(_write(database, _batches(), time.monotonic() + seconds))
        await asyncio.sleep(0)
        while not writing.done():
            due = time.perf_counter() + _TICK_S
            await asyncio.sleep(_TICK_S)
            late.append(max(0.0, time.perf_counter() - due) * 1000)
        await writing
        await database.close()
    return late


def _batches() -> list[list[events.NewEvent]]:
    return [
        [replace(event, external_id=None, thread_id=None) for event in batch.events]
        for batch in Corpus().batches(4 * BATCH, BATCH)
    ]


async def _write(database: Database, batches: list[list[events.NewEvent]], until: float) -> None:
    for batch in cycle(batches):
        if time.monotonic() > until:
            return
        await database.write(events.append, batch)
