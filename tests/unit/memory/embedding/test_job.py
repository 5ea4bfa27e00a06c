"""Whatever has a text gets a vector of it, once, and keeps none that it should not have."""

from datetime import timedelta
from typing import Any

import apsw
import pytest

from embedders import Hashes
from nexus import clock
from nexus.ledgers import Ledgers, events, memory
from nexus.memory.embedding import Vectors, backlog, embed_new
from nexus.memory.embedding.job import Pass
from nexus.memory.embedding.vectors import serving_model
from nexus.memory.operations import Memory


async def filled(opened: Ledgers) -> dict[str, str]:
    """One thing of each kind that agents write; returns their ids."""
    writer = Memory(opened)
    (event,) = await opened.events.write(
        events.append, [events.NewEvent(channel="cli", sender="Ann", content="Tomatoes!")]
    )
    entity = (await writer.run("entity", {"name": "Ann", "type": "Person"}))["id"]
    fact = (await writer.run("fact", {"about": entity, "fact": "Ann grows tomatoes"}))["id"]
    episode = await writer.run(
        "episode",
        {
            "channel": "cli",
            "start": "2026-02-13T10:00:00Z",
            "end": "2026-02-13T10:30:00Z",
            "summary": "About the garden",
            "events": [event],
        },
    )
    await opened.memory.write(_summaries)
    return {"event": event, "entity": entity, "fact": fact, "episode": episode["id"]}


def _summaries(connection: apsw.Connection) -> None:
    connection.execute(
        "INSERT INTO analysis_runs (id, type_id, content) VALUES ('obs_1', 'observation', 'Ann gardens')"
    )
    connection.execute("INSERT INTO mental_models (id, name, content) VALUES ('mod_1', 'Ann', 'A gardener')")


async def vectors_of(opened: Ledgers) -> list[tuple[Any, ...]]:
    query = "SELECT target_type, target_id, model_id FROM embeddings ORDER BY target_type"
    return await opened.embeddings.read(lambda c: c.execute(query).fetchall())


async def append(opened: Ledgers, *facts: str) -> list[str]:
    return await opened.memory.write(memory.append_facts, [memory.NewFact(fact=fact) for fact in facts])


async def test_every_kind_is_embedded_by_its_text(opened: Ledgers) -> None:
    ids = await filled(opened)
    embedder = Hashes()

    assert await embed_new(opened, Vectors(opened.embeddings, embedder)) == 6

    assert [row[:2] for row in await vectors_of(opened)] == [
        ("entity", ids["entity"]),
        ("episode", ids["episode"]),
        ("event", ids["event"]),
        ("fact", ids["fact"]),
        ("mental_model", "mod_1"),
        ("observation", "obs_1"),
    ]
    assert sorted(embedder.embedded) == [
        "A gardener",
        "About the garden\nAnn: Tomatoes!",
        "Ann",
        "Ann gardens",
        "Ann grows tomatoes",
        "Ann: Tomatoes!",
    ]


async def test_nothing_is_embedded_twice_and_a_changed_text_anew(opened: Ledgers) -> None:
    ids = await filled(opened)
    embedder = Hashes()
    vectors = Vectors(opened.embeddings, embedder)
    await embed_new(opened, vectors)
    assert await embed_new(opened, vectors) == 0

    now = clock.timestamp(clock.now())
    await opened.identity.write(
        lambda c: c.execute(
            "UPDATE entities SET summary = 'A gardener', updated_at = ? WHERE id = ?", (now, ids["entity"])
        ).fetchall()
    )

    assert await Pass(ledgers=opened, vectors=vectors, careful=False).run() == 1
    assert embedder.embedded[-1] == "Ann. A gardener"
    assert len(await vectors_of(opened)) == 6


async def test_a_write_that_commits_late_and_one_from_the_future_hide_nothing(opened: Ledgers) -> None:
    vectors = Vectors(opened.embeddings, Hashes())

    async def entity(id_: str, minutes: float) -> None:
        at = clock.timestamp(clock.now() + timedelta(minutes=minutes))
        row = (id_, id_, id_, at)
        add = """INSERT INTO entities (id, type, canonical_name, normalized_name, updated_at)
          VALUES (?, 'Person', ?, ?, ?)"""
        await opened.identity.write(lambda c: c.execute(add, row).fetchall())

    for id_, minutes in [("now", 0.0), ("late", -1.0), ("future", 600.0), ("after", 0.0)]:
        await entity(id_, minutes)
        assert await Pass(ledgers=opened, vectors=vectors, careful=False).run() == 1


async def test_a_clock_that_was_ahead_hides_nothing_once_it_is_right(opened: Ledgers) -> None:
    vectors = Vectors(opened.embeddings, Hashes())
    add = """INSERT INTO entities (id, type, canonical_name, normalized_name, updated_at)
      VALUES (?1, 'Person', ?1, ?1, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"""
    await opened.identity.write(lambda c: c.execute(add, ("before",)).fetchall())
    await embed_new(opened, vectors)
    ahead = "UPDATE embedding_progress SET position = '2999-01-01T00:00:00.000Z' WHERE target_type = 'entity'"
    await opened.embeddings.write(lambda c: c.execute(ahead).fetchall())
    await opened.identity.write(lambda c: c.execute(add, ("after",)).fetchall())
    assert await Pass(ledgers=opened, vectors=vectors, careful=False).run() == 1
    await opened.identity.write(lambda c: c.execute(add, ("later",)).fetchall())
    assert await Pass(ledgers=opened, vectors=vectors, careful=False).run() == 1


async def test_a_pass_that_is_not_careful_reads_only_what_is_new(opened: Ledgers) -> None:
    embedder = Hashes()
    vectors = Vectors(opened.embeddings, embedder)
    await append(opened, "one", "two")
    await embed_new(opened, vectors)
    await opened.embeddings.write(lambda c: c.execute("DELETE FROM embeddings").fetchall())
    await append(opened, "three")

    assert await Pass(ledgers=opened, vectors=vectors, careful=False).run() == 1
    assert embedder.embedded == ["one", "two", "three"]
    assert await Pass(ledgers=opened, vectors=vectors, whole=True).run() == 2


async def test_a_ledger_that_was_brought_back_is_embedded_on(opened: Ledgers) -> None:
    """Its log may end before the place that embedding had reached."""
    vectors = Vectors(opened.embeddings, Hashes())
    await append(opened, "one")
    await embed_new(opened, vectors)
    await opened.embeddings.write(
        lambda c: c.execute(
            "UPDATE embedding_progress SET position = '900' WHERE target_type = 'fact'"
        ).fetchall()
    )
    assert await Pass(ledgers=opened, vectors=vectors, careful=False).run() == 0
    await append(opened, "two")

    assert await Pass(ledgers=opened, vectors=vectors, careful=False).run() == 1


async def test_what_waits_is_counted_with_its_age(opened: Ledgers) -> None:
    vectors = Vectors(opened.embeddings, Hashes())
    await append(opened, "one", "two")
    await Memory(opened).run("entity", {"name": "Ann", "type": "Person"})

    before = await backlog(opened, "hashes@1")
    await embed_new(opened, vectors)
    after = await backlog(opened, "hashes@1")

    assert (before.depth, before.serving_model_id) == (3, None)
    assert 0 < before.lag_ms(clock.now()) < 600_000
    assert {kind.kind: (kind.total, kind.waiting) for kind in before.kinds}["fact"] == (2, 2)
    assert (after.depth, after.lag_ms(clock.now()), after.serving_model_id) == (0, 0, "hashes@1")
    assert {kind.kind: kind.embedded for kind in after.kinds}["fact"] == 2


async def test_a_new_model_serves_when_it_is_complete_and_the_old_vectors_go(opened: Ledgers) -> None:
    await append(opened, "one", "two")
    await embed_new(opened, Vectors(opened.embeddings, Hashes("old@1")))
    new = Vectors(opened.embeddings, Hashes("new@1"))

    await Pass(ledgers=opened, vectors=new).run()
    assert await serving_model(opened.embeddings) == "old@1"
    assert len(await vectors_of(opened)) == 4
    await new.serve()

    assert await serving_model(opened.embeddings) == "new@1"
    assert {row[2] for row in await vectors_of(opened)} == {"new@1"}


async def test_what_is_forgotten_while_it_is_embedded_keeps_no_vector(opened: Ledgers) -> None:
    (fact,) = await append(opened, "a secret")

    class Forgetting(Hashes):
        """Something is forgotten, from both ledgers, just while its vector is being made."""

        def embed(self, texts: Any) -> Any:
            connection = apsw.Connection(str(opened.memory.path))
            connection.execute("DROP TRIGGER facts_are_not_deleted; DELETE FROM facts")
            connection.close()
            return super().embed(texts)

    await Pass(ledgers=opened, vectors=Vectors(opened.embeddings, Forgetting())).run()

    assert fact
    assert await vectors_of(opened) == []


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 600])
async def test_batches_leave_nothing_out(opened: Ledgers, count: int) -> None:
    await append(opened, *(f"fact {number}" for number in range(count)))

    assert await embed_new(opened, Vectors(opened.embeddings, Hashes())) == count
    assert len(await vectors_of(opened)) == count


async def test_searches_by_meaning_see_every_kind(opened: Ledgers) -> None:
    ids = await filled(opened)
    vectors = Vectors(opened.embeddings, Hashes())
    await embed_new(opened, vectors)
    await vectors.mirror.refresh()

    (hits,) = await vectors.mirror.search(vectors.embedder.embed(["Ann"]), 10)

    assert {*ids.values(), "obs_1", "mod_1"} <= set(hits.ids)
