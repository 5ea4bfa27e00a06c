"""Chains of merges, and what taking one link out leaves."""

from typing import Any

import pytest

from nexus.errors import UsageError
from nexus.ledgers import Ledgers, forgetting
from nexus.memory.operations import Memory
from nexus.memory.upkeep import review
from nexus.memory.views import entities as entity_views
from nexus.memory.views import facts as fact_views
from nexus.memory.views.names import find_family
from nexus.memory.writing import Provenance


@pytest.fixture
async def memory(opened: Ledgers) -> Memory:
    made = Memory(opened)
    for name in ("Anna Meyer", "Benedikt Oslo", "Carla Quist"):
        await made.run("entity", {"id": name[0].lower(), "name": name, "type": "Person"})
    return made


async def merge(memory: Memory, source: str, target: str) -> dict[str, Any]:
    return await memory.run(
        "merge", {"source": source, "target": target}, Provenance(actor="me", kind="owner")
    )


async def test_the_middle_of_a_chain_takes_its_own_along(memory: Memory) -> None:
    await merge(memory, "a", "b")
    await merge(memory, "b", "c")
    await memory.run("unmerge", {"entity": "b"})

    assert await find_family(memory.ledgers, "a") == ["b", "a"]
    assert await find_family(memory.ledgers, "c") == ["c"]


async def test_a_merge_into_a_merged_entity_follows_that_one(memory: Memory) -> None:
    await merge(memory, "b", "c")
    assert (await merge(memory, "a", "b"))["root"] == "c"
    await memory.run("unmerge", {"entity": "b"})

    assert await find_family(memory.ledgers, "a") == ["b", "a"]


async def test_merging_a_merged_entity_merges_its_root(memory: Memory) -> None:
    await merge(memory, "a", "b")
    assert (await merge(memory, "a", "c"))["merged"] == "b"
    await memory.run("unmerge", {"entity": "b"})

    assert await find_family(memory.ledgers, "a") == ["b", "a"]


async def test_what_is_one_cannot_be_merged_and_what_is_apart_not_taken_apart(memory: Memory) -> None:
    await merge(memory, "a", "b")

    with pytest.raises(UsageError, match="one entity already: b"):
        await merge(memory, "b", "a")
    with pytest.raises(UsageError, match="b is not merged") as caught:
        await memory.run("unmerge", {"entity": "b"})
    assert "Merged into it are a" in caught.value.hint


async def test_forgetting_a_merged_entity_takes_the_whole_of_it(memory: Memory) -> None:
    opened = memory.ledgers
    for each in "abc":
        await memory.run("fact", {"about": each, "fact": f"Something of {each}"})
    await merge(memory, "a", "b")

    target = await forgetting.find(opened, lambda c: forgetting.entity(c, "Anna Meyer"))
    await forgetting.forget(opened, target, actor="test")

    left = await opened.identity.read(
        lambda c: [
            c.execute(f"SELECT count(*) FROM {table}").get for table in ("entities", "entity_merge_events")
        ]
    )
    assert left == [1, 0]
    assert [fact.source_entity_id for fact in await fact_views.load_newest(opened)] == ["c"]
    keys = "SELECT count(*) FROM alias_keys WHERE alias_id NOT IN (SELECT id FROM entity_aliases)"
    assert await opened.identity.read(lambda c: c.execute(keys).get) == 0


async def test_company_makes_a_candidate_of_a_name_within_a_name(memory: Memory) -> None:
    await memory.run("entity", {"id": "anna", "name": "Anna", "type": "Person"})
    assert await entity_views.load_candidates(memory.ledgers) == ()
    for who in ("a", "anna"):
        for other in ("b", "c"):
            await memory.run("relationship", {"source": who, "target": other, "type": "KNOWS", "fact": "…"})

    assert await review(memory.ledgers) == 1

    (pair,) = await entity_views.load_candidates(memory.ledgers)
    assert set(pair.entities) == {"a", "anna"}
    assert [reason.signal for reason in pair.reasons] == ["name within name", "shared context"]
    await merge(memory, "anna", "a")
    assert await entity_views.load_candidates(memory.ledgers) == ()
    assert await review(memory.ledgers) == 0


async def test_names_written_by_hand_are_found_after_a_review(memory: Memory) -> None:
    await memory.ledgers.identity.write(
        lambda c: c.execute(
            "INSERT INTO entities (id, type, canonical_name, normalized_name) "
            "VALUES ('d', 'Person', 'Ana Meyer', 'ana meyer');"
            "INSERT INTO entity_aliases (id, entity_id, alias, normalized) "
            "VALUES ('x', 'd', 'Ana Meyer', 'ana meyer')"
        )
    )

    assert await review(memory.ledgers) == 1
