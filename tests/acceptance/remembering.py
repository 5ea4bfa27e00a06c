"""A program that writes batches to a home's memory until it is killed, and tells of each once it is durable.

`python remembering.py HOME NAME`: four tasks at once, each batch an entity, its facts, and a merge.
"""

import asyncio
import os
import sys
from pathlib import Path

from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory

FACTS = 10
_TASKS = 4


async def _remember(memory: Memory, name: str) -> None:
    turn = 0
    while True:
        key = f"{name}-{turn}"
        who = {"operation": "entity", "id": key, "name": f"Somebody called {key}", "type": "Person"}
        facts = [{"operation": "fact", "about": key, "fact": f"{key} said {n}"} for n in range(FACTS)]
        merge = {"operation": "merge", "source": key, "target": f"{name}-0"}
        await memory.run("batch", [who, *facts, *([merge] if turn else [])])
        os.write(1, f"{key}\n".encode())
        turn += 1


async def _main(home: Path, name: str) -> None:
    async with Ledgers(Home(home), LedgersConfig()) as ledgers, asyncio.TaskGroup() as tasks:
        for task in range(_TASKS):
            tasks.create_task(_remember(Memory(ledgers), f"{name}{task}"))


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2]))
