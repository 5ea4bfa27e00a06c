"""How long a preview of a change takes, and how much it copies.

    python bench/preview.py [FACTS]     the demo's month, with so many facts of invented words besides

Without FACTS the vectors are those of the English model; with them, of hashed words, which are made quickly.
"""

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

import apsw
from exam import Words

from nexus import clock
from nexus.config import Config
from nexus.demo.filling import Demo, fill
from nexus.evaluation import preview
from nexus.home import Home
from nexus.ledgers import Ledgers, backup, forgetting, sql
from nexus.memory.embedding import Vectors, open_vectors
from nexus.memory.writing import Provenance

_OWNER = Provenance(actor="person:mira", kind="owner", channel="cli")


def add_facts(connection: apsw.Connection, count: int) -> None:
    """Add facts of invented words about everybody."""
    rng = random.Random(3)
    words = ["".join(rng.choices("bcdfglmnprstaeiou", k=rng.randint(4, 9))) for _ in range(20_000)]
    people = [row[0] for row in connection.execute("SELECT DISTINCT source_entity_id FROM facts").fetchall()]
    for number in range(count):
        at = f"202{number % 6}-0{1 + number % 9}-1{number % 10}T10:00:00.000Z"
        connection.execute(
            "INSERT INTO facts (id, source_entity_id, fact, as_of, created_at, valid_at) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (f"fact_{number:026}", rng.choice(people), " ".join(rng.choices(words, k=8)), at, at, at),
        )


async def fill_home(home: Home, facts: int) -> str:
    """Fill the home; returns a fact that many prompts got."""
    await fill(home, Config(), Demo(seed=7, until=clock.now()))
    async with Ledgers(home, Config().ledgers) as ledgers:
        if facts:
            await ledgers.memory.write(add_facts, facts)
        vectors = await open_(ledgers) if facts else await open_vectors(ledgers, Config().memory)
        await preview.update(ledgers, vectors)
        query = "SELECT id FROM facts WHERE fact LIKE '%allergic to hazelnuts%'"
        return str(await ledgers.memory.read(sql.value, query))


async def open_(ledgers: Ledgers) -> Vectors:
    """Open vectors of hashed words."""
    vectors = Vectors(ledgers.embeddings, Words())
    await preview.update(ledgers, vectors)
    return vectors


def measure(facts: int) -> None:
    """Measure a correction and a forget."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Home(Path(scratch) / "home")
        home.create()
        fact = asyncio.run(fill_home(home, facts))
        changes = {
            "correct": preview.correct(fact, "Tomas is allergic to walnuts", _OWNER),
            "forget": preview.forget(lambda connection: forgetting.fact(connection, fact)),
        }
        for name, change in changes.items():
            began, spent = time.perf_counter(), time.process_time()
            with backup.private_copy(home) as copy:
                size = sum(path.stat().st_size for path in copy.data.glob("*.db"))
                copied = time.perf_counter() - began
                found = asyncio.run(preview.preview(copy, Config(), change, open_=open_ if facts else None))
            alone = sum(not (each.added or each.removed) for each in found.differences)
            took, spent = time.perf_counter() - began, time.process_time() - spent
            print(
                f"{name}, {facts:,} facts added: {found.prompts} prompts, {len(found.differences)} "
                f"different, {alone} only by earlier messages; {took:.1f} s, "
                f"{spent:.1f} s of processor time, {size / 2**20:.1f} MiB copied in {copied:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("facts", nargs="?", type=int, default=0)
    measure(parser.parse_args().facts)
