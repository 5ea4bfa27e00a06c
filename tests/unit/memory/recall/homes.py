"""A small home with something of every kind in it, for the tests of recall."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import apsw
import numpy as np

from nexus.ledgers import Ledgers, events, memory
from nexus.memory.operations import Memory
from nexus.memory.recall.words import tokens

# What is found must not depend on what else the machine does.
LONG_MS = 60_000
NOW = datetime(2026, 11, 15, tzinfo=UTC)
ANN, BOB, TEA = "ent_ann", "ent_bob", "ent_tea"


class WordHashes:
    """An embedder by hashed words: texts that share words are near."""

    model_id = "word-hashes@1"
    dimensions = 64

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.full((len(texts), self.dimensions), 1e-3, np.float32)
        for row, text in enumerate(texts):
            for word in tokens(text):
                vectors[row, hashlib.sha256(word.encode()).digest()[0] % self.dimensions] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self.embed(texts)


async def own(opened: Ledgers, name: str, *aliases: str) -> str:
    """Make somebody the owner of the home."""
    entity_id = str(
        (await Memory(opened).run("entity", {"name": name, "type": "Person", "alias": list(aliases)}))["id"]
    )
    statement = "UPDATE persons SET is_owner = 1 WHERE entity_id = ?"
    await opened.identity.write(lambda c: c.execute(statement, (entity_id,)))
    return entity_id


async def say(
    opened: Ledgers, thread: str, *lines: tuple[str, str], channel: str = "test", day: int = 1
) -> list[str]:
    """Record what was said in a thread, a minute apart."""
    moment = datetime(2026, 5, day, tzinfo=UTC)

    def work(connection: apsw.Connection) -> list[str]:
        thread_id = events.ensure_thread(connection, channel=channel, external_id=thread)
        return events.append(
            connection,
            [
                events.NewEvent(
                    channel=channel,
                    content=text,
                    sender=speaker,
                    thread_id=thread_id,
                    occurred_at=moment + timedelta(minutes=minute),
                )
                for minute, (speaker, text) in enumerate(lines)
            ],
        )

    return await opened.events.write(work)


async def learn(opened: Ledgers, *facts: memory.NewFact) -> list[str]:
    """Record facts."""
    return await opened.memory.write(memory.append_facts, facts)


async def run(opened: Ledgers, ledger: str, *statements: str) -> None:
    """Write with plain SQL what no function of the ledgers writes yet."""

    def work(connection: apsw.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    await opened[ledger].write(work)


async def know_people(opened: Ledgers) -> None:
    """Ann, Bob and the tea, with their names."""
    await run(
        opened,
        "identity",
        "INSERT INTO entities (id, type, canonical_name, normalized_name, summary) VALUES "
        "('ent_ann', 'Person', 'Ann Keller', 'ann keller', 'A gardener from Basel.'), "
        "('ent_bob', 'Person', 'Bob', 'bob', NULL), ('ent_tea', 'Thing', 'Tea', 'tea', NULL)",
        "INSERT INTO entity_aliases (id, entity_id, alias, normalized) VALUES "
        "('ali_1', 'ent_ann', 'Annie', 'annie'), ('ali_2', 'ent_bob', 'Robert', 'robert')",
    )
