"""What writing to the memory costs: facts in batches beside plain inserts, and new entities among many.

python bench/memory_writes.py              the full size: 20,000 facts, 100,000 entities; a few minutes
python bench/memory_writes.py --write      the same, into RESULTS.md
python bench/memory_writes.py --quick      a few seconds, to see that it runs
"""

import argparse
import asyncio
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
from report import Figure, machine, percentile, progress, table, write_section

from nexus import ids
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers, sql
from nexus.memory import aliases
from nexus.memory.aliases import Alias
from nexus.memory.normalisation import normalize
from nexus.memory.operations import Memory

FACTS_PER_S = 2_000
_BATCH = 500
_SYLLABLES = (
    "ba", "ben", "chen", "dor", "el", "fi", "gar", "hol", "in", "jo", "kar", "lan", "mi", "nor", "ot", "pel",
    "qui", "ros", "sen", "tor", "ul", "van", "wei", "xu", "yam", "zim",
)  # fmt: skip


class Sizes(argparse.Namespace):
    """How much is measured."""

    facts: int
    entities: int
    new: int
    quick: bool
    write: bool


def main() -> None:
    sizes = _sizes()
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as name:
        home = Home(Path(name) / "home")
        home.create()
        figures = asyncio.run(_measure(home, sizes))
    text = table(figures)
    print(text)
    print(machine())
    if sizes.write:
        about = "`python bench/memory_writes.py`" + (" `--quick`" if sizes.quick else "")
        write_section("memory writes", f"## Memory writes\n\n{about}: {machine()}\n\n{text}")


async def _measure(home: Home, sizes: Sizes) -> list[Figure]:
    async with Ledgers(home, LedgersConfig()) as opened:
        memory = Memory(opened)
        batched, plain = await _facts(memory, home, sizes.facts)
        single = await _single_facts(memory, min(200, sizes.facts))
        progress(f"making {sizes.entities:,} entities")
        await _fill(memory, sizes.entities)
        progress("adding to them")
        creating = await _entities_in_batches(memory, sizes.new)
        among = await _new_entities(memory, sizes.new)
    return [
        Figure(
            f"facts in batches of {_BATCH}",
            f"{batched:,.0f}/s",
            f"at least {FACTS_PER_S:,}/s",
            batched >= FACTS_PER_S,
        ),
        Figure(
            "the same rows by plain inserts with `sqlite3`, a transaction for each batch", f"{plain:,.0f}/s"
        ),
        Figure("one fact at a time, each durable", f"p50 {_ms(single, 0.5)}, p95 {_ms(single, 0.95)}"),
        Figure(f"new entities in a batch, each checked against {sizes.entities:,}", f"{creating:,.0f}/s"),
        Figure(
            f"one new entity, checked against {sizes.entities:,}",
            f"p50 {_ms(among, 0.5)}, p95 {_ms(among, 0.95)}",
        ),
    ]


async def _facts(memory: Memory, home: Home, count: int) -> tuple[float, float]:
    """Batches of ours and of plain inserts in turn, so that both meet the same machine."""
    await memory.run(
        "batch", [{"operation": "entity", "id": f"p{n}", "name": f"Person {n}"} for n in range(50)]
    )
    ours: list[float] = []
    theirs: list[float] = []
    plain = _plain(home)
    for number in range(count // _BATCH):
        facts = [_fact(number * _BATCH + n) for n in range(_BATCH)]
        started = time.perf_counter()
        await memory.run("batch", facts)
        ours.append(time.perf_counter() - started)
        started = time.perf_counter()
        _insert(plain, facts)
        theirs.append(time.perf_counter() - started)
    plain.close()
    return _BATCH / statistics.median(ours), _BATCH / statistics.median(theirs)


def _fact(number: int) -> dict[str, Any]:
    return {
        "operation": "relationship",
        "source": f"p{number % 50}",
        "target": f"p{(number * 7 + 1) % 50}",
        "type": "KNOWS",
        "fact": f"Person {number % 50} told person {(number * 7 + 1) % 50} about plan {number} at tea",
        "source_type": "observed",
        "event": f"evt_{number}",
    }


def _plain(home: Home) -> sqlite3.Connection:
    """A file with the same schema, written with nothing but the standard library."""
    plain = sqlite3.connect(home.root / "plain.db", isolation_level=None)
    plain.executescript(sql.text("memory", "schema.sql"))
    plain.execute("PRAGMA journal_mode = WAL")
    plain.execute("PRAGMA synchronous = FULL")
    return plain


def _insert(plain: sqlite3.Connection, facts: list[dict[str, Any]]) -> None:
    columns = ("source", "target", "type", "fact", "source_type", "event")
    plain.execute("BEGIN IMMEDIATE")
    plain.executemany(
        "INSERT INTO facts (id, source_entity_id, target_entity_id, relation_type, fact, source_type, "
        "source_event_id) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(ids.new("fact"), *(each[column] for column in columns)) for each in facts],
    )
    plain.execute("COMMIT")


async def _single_facts(memory: Memory, count: int) -> list[float]:
    spent: list[float] = []
    for number in range(count):
        arguments = _fact(number)
        operation = arguments.pop("operation")
        started = time.perf_counter()
        await memory.run(operation, arguments)
        spent.append(time.perf_counter() - started)
    return spent


async def _fill(memory: Memory, count: int) -> None:
    """Very many entities, written below the check for candidates, which would take its time for each."""

    def work(connection: apsw.Connection) -> None:
        queries = sql.queries("identity")
        for name in _names(count, seed=1):
            entity_id, normalized = ids.new("ent"), normalize(name)
            values = {"id": entity_id, "type": "Person", "name": name, "normalized": normalized}
            values |= {"summary": None, "event": None, "metadata": "{}", "now": "2026-01-01T00:00:00.000Z"}
            connection.execute(queries["add_entity"], values)
            aliases.add(connection, entity_id, Alias(text=name, type="name"), None, None, "")

    await memory.ledgers.identity.write(work)


async def _entities_in_batches(memory: Memory, count: int) -> float:
    names = list(_names(count, seed=3))
    started = time.perf_counter()
    for first in range(0, count, _BATCH):
        named = names[first : first + _BATCH]
        await memory.run("batch", [{"operation": "entity", "name": name, "type": "Person"} for name in named])
    return count / (time.perf_counter() - started)


async def _new_entities(memory: Memory, count: int) -> list[float]:
    spent: list[float] = []
    for name in _names(count, seed=2):
        started = time.perf_counter()
        await memory.run("entity", {"name": name, "type": "Person"})
        spent.append(time.perf_counter() - started)
    return spent


def _names(count: int, seed: int) -> Iterator[str]:
    """Names of several hundred first and very many last ones, as people have them."""
    draw = random.Random(seed)
    for _ in range(count):
        first = "".join(draw.choices(_SYLLABLES, k=2)).title()
        last = "".join(draw.choices(_SYLLABLES, k=draw.choice((2, 3, 4)))).title()
        yield f"{first} {last}"


def _ms(seconds: list[float], share: float) -> str:
    return f"{percentile(seconds, share) * 1000:.1f} ms"


def _sizes() -> Sizes:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--facts", type=int, default=20_000)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--new", type=int, default=300)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    sizes = parser.parse_args(namespace=Sizes())
    if sizes.quick:
        sizes.facts, sizes.entities, sizes.new = 2_000, 2_000, 20
    return sizes


if __name__ == "__main__":
    main()
