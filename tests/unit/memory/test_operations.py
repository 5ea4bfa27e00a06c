"""Operations on a home's memory, as the skill's scripts send them."""

from typing import Any

import pytest

from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.memory.operations import OPERATIONS, Memory
from nexus.memory.provenance import Provenance


@pytest.fixture
def memory(opened: Ledgers) -> Memory:
    return Memory(opened)


async def asked(ledgers: Ledgers, ledger: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    return await ledgers[ledger].read(lambda c: [tuple(row) for row in c.execute(query, values)])


async def test_the_specified_examples_work_in_a_fresh_home(opened: Ledgers, memory: Memory) -> None:
    sarah = await memory.run(
        "entity",
        {"name": "Sarah Chen", "type": "Person", "alias": ["Sarah:name", "sarah.chen@company.com:email"]},
    )
    works = await memory.run(
        "relationship",
        {
            "source": "entity-123",
            "target": "entity-456",
            "type": "WORKS_AT",
            "fact": "Sarah works at Anthropic",
            "source-type": "self_disclosed",
            "confidence": "1.0",
        },
    )
    talk = await memory.run(
        "episode",
        {
            "channel": "imessage",
            "start": "2026-02-13T10:00:00Z",
            "end": "2026-02-13T10:30:00Z",
            "summary": "Discussion about project timeline",
            "events": "event-1,event-2,event-3",
            "entities": "entity-123,entity-456",
        },
    )

    aliases = await asked(
        opened, "identity", "SELECT type, normalized FROM entity_aliases WHERE entity_id = ?", sarah["id"]
    )
    assert set(aliases) == {("name", "sarah chen"), ("name", "sarah"), ("email", "sarah.chen@company.com")}
    assert await asked(opened, "identity", "SELECT entity_id FROM persons") == [(sarah["id"],)]
    assert await asked(
        opened, "memory", "SELECT id, source_entity_id, target_entity_id, source_type FROM relationships"
    ) == [(works["id"], "entity-123", "entity-456", "self_disclosed")]
    assert works["placeholders"] == ["entity-123", "entity-456"]
    assert await asked(opened, "memory", "SELECT event_id FROM episode_events ORDER BY position") == [
        ("event-1",),
        ("event-2",),
        ("event-3",),
    ]
    assert await asked(opened, "memory", "SELECT episode_id, entity_id FROM episode_entity_mentions") == [
        (talk["id"], "entity-123"),
        (talk["id"], "entity-456"),
    ]


async def test_a_batch_is_written_in_one_go_with_references_by_name(opened: Ledgers, memory: Memory) -> None:
    embedded: dict[str, list[str]] = {}

    async def enqueue(kind: str, ids: list[str]) -> None:
        embedded.setdefault(kind, []).extend(ids)

    writer = Memory(opened, enqueue_embedding=enqueue)
    answer = await writer.run(
        "batch",
        {
            "operations": [
                {"operation": "fact", "about": "Ada Byron", "fact": "Ada likes tea"},
                {"operation": "entity", "name": "Ada Byron", "type": "Person"},
            ]
        },
        Provenance(actor="memory-writer", event_id="evt_1", request_id="req_1"),
    )

    tea, ada = (result["id"] for result in answer["results"])
    assert await asked(
        opened, "memory", "SELECT id, source_entity_id, source_event_id, source_request_id FROM facts"
    ) == [(tea, ada, "evt_1", "req_1")]
    assert embedded == {"entity": [ada], "fact": [tea]}


async def test_a_batch_with_a_mistake_writes_nothing(opened: Ledgers, memory: Memory) -> None:
    with pytest.raises(UsageError, match="Operation 2 of 2: No entity is called 'Nobody Here'"):
        await memory.run(
            "batch",
            [
                {"operation": "entity", "name": "Ada", "type": "Person"},
                {"operation": "fact", "about": "Nobody Here", "fact": "…"},
            ],
        )

    assert await asked(opened, "identity", "SELECT count(*) FROM entities") == [(0,)]
    assert await asked(opened, "memory", "SELECT count(*) FROM facts") == [(0,)]


async def test_merging_moves_nothing_and_can_be_taken_back(opened: Ledgers, memory: Memory) -> None:
    one = (await memory.run("entity", {"name": "Sarah Chen", "type": "Person"}))["id"]
    made = await memory.run("entity", {"name": "Sara Chen", "type": "Person"})
    assert [candidate["entity_id"] for candidate in made["candidates"]] == [one]

    merged = await memory.run("merge", {"source": "Sara Chen", "target": one}, Provenance(actor="me"))
    assert merged["root"] == one
    assert await asked(opened, "identity", "SELECT status FROM merge_candidates") == [("accepted",)]
    fact = await memory.run("fact", {"about": "Sara Chen", "fact": "She moved"})
    assert fact["source_entity_id"] == one

    await memory.run("unmerge", {"entity": made["id"]})
    assert await asked(opened, "identity", "SELECT merged_into FROM entities") == [(None,), (None,)]
    assert await asked(opened, "identity", "SELECT status FROM merge_candidates") == [("pending",)]


@pytest.mark.parametrize("name", OPERATIONS)
async def test_empty_arguments_are_answered_with_an_example(memory: Memory, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        await memory.run(name, {})

    assert caught.value.message.startswith(f"`{name}` needs `")
    assert caught.value.hint == f"For example: {OPERATIONS[name].example}"
