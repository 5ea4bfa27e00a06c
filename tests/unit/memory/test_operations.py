"""Operations on a home's memory, as the skill's scripts send them."""

import asyncio
from typing import Any

import pytest

from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.memory.operations import OPERATIONS, Memory
from nexus.memory.writing import Provenance


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
        Provenance(actor="memory-writer", kind="writer", event_id="evt_1", request_id="req_1"),
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

    merged = await memory.run(
        "merge", {"source": "Sara Chen", "target": one}, Provenance(actor="me", kind="owner")
    )
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


async def test_a_batch_that_stops_between_the_ledgers_can_be_written_again(
    opened: Ledgers, memory: Memory
) -> None:
    who = {
        "operation": "entity",
        "id": "ada",
        "name": "Ada Byron",
        "type": "Person",
        "alias": ["a@b.org:email"],
    }
    talk = {
        "operation": "episode",
        "id": "talk",
        "channel": "cli",
        "start": "2026-01-01",
        "end": "2026-01-02",
    }
    fact = {"operation": "fact", "about": "ada", "fact": "Ada likes tea", "episode": "talk"}
    with pytest.raises(UsageError, match="Operation 4 of 4: There is an episode 'talk' already"):
        await memory.run("batch", [who, talk, fact, talk])

    # The first ledger is written, the second is not: an entity that nothing is known about.
    assert await asked(opened, "identity", "SELECT id FROM entities") == [("ada",)]
    assert await asked(opened, "memory", "SELECT count(*) FROM facts") == [(0,)]

    await memory.run("batch", [who, talk, fact])

    assert await asked(opened, "identity", "SELECT count(*) FROM entity_aliases") == [(2,)]
    assert await asked(opened, "identity", "SELECT count(*) FROM merge_candidates") == [(0,)]
    assert await asked(opened, "memory", "SELECT source_entity_id, source_episode_id FROM facts") == [
        ("ada", "talk")
    ]


async def test_an_id_of_another_entity_is_refused_and_a_placeholder_is_described(
    opened: Ledgers, memory: Memory
) -> None:
    await memory.run("fact", {"about": "entity-123", "fact": "It hums"})
    await memory.run("entity", {"id": "entity-123", "name": "The fridge", "type": "Thing"})

    assert await asked(opened, "identity", "SELECT canonical_name, type, metadata_json FROM entities") == [
        ("The fridge", "Thing", "{}")
    ]
    with pytest.raises(UsageError, match="of another name already"):
        await memory.run("entity", {"id": "entity-123", "name": "The stove"})


async def test_names_that_are_not_known_or_not_clear_are_refused(memory: Memory) -> None:
    for _ in range(2):
        await memory.run("entity", {"name": "Sam", "type": "Person"})

    with pytest.raises(UsageError, match="2 entities are called 'sam'"):
        await memory.run("fact", {"about": "sam", "fact": "…"})
    with pytest.raises(UsageError, match="No entity is called 'Nobody'") as caught:
        await memory.run("fact", {"about": "Nobody", "fact": "…"})
    assert caught.value.hint == "Check the spelling, or create it first.", "a script's example is for agents"
    with pytest.raises(UsageError, match="No entity is called 'ent_01M7'"):
        await memory.run("fact", {"about": "ent_01M7", "fact": "…"})


@pytest.mark.parametrize(
    ("operation", "arguments", "message"),
    [
        ("fact", {"fact": "…", "confidence": 2}, "`confidence` must be a number from 0 to 1, not 2"),
        ("fact", {"fact": "…", "confidence": True}, "`confidence` must be a number from 0 to 1, not true"),
        ("fact", {"fact": " "}, "`fact` must be a text that is not empty"),
        ("fact", {"fact": "…", "as_of": "soon"}, "`as_of` must be a time such as"),
        ("fact", {"fact": "…", "entities": [1]}, "`entities` must be a list of texts"),
        ("fact", {"fact": "…", "metadata": "[1]"}, "`metadata` must be a JSON object"),
        ("fact", {"fact": "…", "confidense": 1}, "has no argument `confidense`: did you mean `confidence`?"),
        ("fact", {"fact": "…", "episode": "epi_0"}, "Unknown episode 'epi_0'"),
        ("fact", ["fact"], "must be a JSON object"),
        ("entity", {"name": "Ada", "alias": [" "]}, "must be a JSON object"),
        ("entity", {"name": "Ada", "id": "Ada B"}, "'Ada B' is not a valid id"),
        (
            "episode",
            {"channel": "c", "start": "2026-01-02", "end": "2026-01-01"},
            "cannot end before it starts",
        ),
        ("person-fact", {"entity": "x", "category": "c", "type": "t", "value": "v"}, "'x' is not a person"),
        ("fly", {}, "Unknown operation 'fly'"),
        ("batch", {}, "A batch is a list of operations"),
        ("batch", [{"fact": "…"}], "Each operation of a batch is an object with `operation`"),
    ],
)
async def test_mistakes_are_named(memory: Memory, operation: str, arguments: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        await memory.run(operation, arguments)

    assert message in caught.value.message
    assert caught.value.hint


async def test_people_have_contacts_and_hard_facts(opened: Ledgers, memory: Memory) -> None:
    ada = (await memory.run("entity", {"name": "Ada", "type": "Person"}))["id"]
    mail = {"entity": "Ada", "channel": "email", "identifier": "Ada@X.org"}
    first, again = await memory.run("contact", mail), await memory.run("contact", mail)
    born = {"entity": "Ada", "category": "personal", "type": "birthday", "value": "1815-12-10"}
    await memory.run("person-fact", born)

    assert first["id"] == again["id"]
    assert await asked(
        opened,
        "identity",
        "SELECT entity_id, normalized, confidence FROM contacts "
        "JOIN contact_identifiers ON contact_id = contacts.id JOIN person_contact_links USING (contact_id)",
    ) == [(ada, "ada@x.org", 1.0)]
    assert await asked(opened, "identity", "SELECT fact_type, value FROM person_facts") == [
        ("birthday", "1815-12-10")
    ]
    await memory.run("entity", {"name": "Ben", "type": "Person"})
    with pytest.raises(UsageError, match=f"is a contact of {ada}"):
        await memory.run("contact", mail | {"entity": "Ben"})
    await memory.run("merge", {"source": "Ben", "target": "Ada"})
    assert (await memory.run("contact", mail | {"entity": "Ben"}))["id"] == first["id"]


async def test_four_writers_at_once_lose_nothing(opened: Ledgers) -> None:
    async def write(writer: int) -> None:
        memory = Memory(opened)
        for turn in range(10):
            named = {"operation": "entity", "id": f"w{writer}-{turn}", "name": f"Writer {writer} turn {turn}"}
            facts = [{"operation": "fact", "about": f"w{writer}-{turn}", "fact": f"{n}"} for n in range(20)]
            await memory.run("batch", [named, *facts])

    await asyncio.gather(*(write(writer) for writer in range(4)))

    assert await asked(opened, "memory", "SELECT count(*), count(DISTINCT source_entity_id) FROM facts") == [
        (800, 40)
    ]
