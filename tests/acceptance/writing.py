"""A program that writes to a home until it is stopped, and tells of each write once it is durable.

`python writing.py HOME NAME SECONDS`: several tasks at once append events, facts and spans of a thing
called NAME in small batches; after each batch its key is printed. It makes the home if there is none.
It ends after SECONDS.
"""

import asyncio
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw

from nexus import ids, ledgers
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Database, Ledgers, attach, events, memory

BATCH = 3
_TASKS = 3


def _events(key: str, connection: apsw.Connection) -> None:
    said = (events.NewEvent(channel="cli", content=f"{key} {part}") for part in range(BATCH))
    events.append(connection, said)


def _facts(key: str, connection: apsw.Connection) -> None:
    memory.append_facts(connection, (memory.NewFact(fact=f"{key} {part}") for part in range(BATCH)))


def _spans(key: str, connection: apsw.Connection) -> None:
    connection.executemany(
        "INSERT INTO spans (id, request_id, root_request_id, kind, name, started_at)"
        " VALUES (?, 'req', 'req', 'test', ?, '2026-02-01T00:00:00.000Z')",
        [(ids.new("spn"), f"{key} {part}") for part in range(BATCH)],
    )


def _tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def _write(
    database: Database, work: Callable[[str, apsw.Connection], None], keys: Iterator[str], until: float
) -> None:
    while time.monotonic() < until:
        key = next(keys)
        await database.write(partial(work, key))
        _tell(key)


async def _write_everything(opened: Ledgers, name: str, until: float) -> None:
    kinds = {"events": _events, "memory": _facts, "runtime": _spans}
    async with asyncio.TaskGroup() as tasks:
        for ledger, work in kinds.items():
            keys = map(f"{ledger}/{name}/{{}}".format, itertools.count())
            for _ in range(_TASKS):
                tasks.create_task(_write(opened[ledger], work, keys, until))


async def main(root: Path, name: str, seconds: float) -> None:
    home = Home(root)
    home.create_files()
    ledgers.create(home)
    attach.ensure(home)
    async with Ledgers(home, LedgersConfig()) as opened:
        await _write_everything(opened, name, time.monotonic() + seconds)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
