"""The observation log: everything that was observed, in order, with where it comes from."""

from datetime import UTC, datetime
from typing import Any

import pytest

from nexus import clock
from nexus.errors import UsageError
from nexus.ledgers import Ledgers, events
from nexus.ledgers.events import NewEvent
from nexus.memory.operations import Memory
from nexus.memory.views import facts as fact_views
from nexus.memory.writing import Provenance

TYLER = [
    ("2024-03-15", "Tyler works at Google", 0.8),
    ("2025-01-10", "Tyler left Google", 0.9),
    ("2025-02-01", "Tyler works at Anthropic", 1.0),
    ("2026-02-10", "Tyler is building Nexus at Anthropic", 1.0),
]


async def rows(ledgers: Ledgers, query: str) -> list[tuple[Any, ...]]:
    return await ledgers.memory.read(lambda c: [tuple(row) for row in c.execute(query)])


async def test_four_observations_over_two_years_come_back_in_order(opened: Ledgers) -> None:
    for day, fact, confidence in TYLER:
        memory = Memory(opened, now=lambda day=day: clock.parse(day))
        observed = {"source": "tyler", "type": "WORKS_AT", "fact": fact, "confidence": confidence}
        await memory.run("relationship", observed)

    log = await fact_views.load_log(opened, "tyler")

    assert [(fact.at[:10], fact.fact, fact.confidence) for fact in log] == TYLER
    specified = (
        "SELECT fact, confidence, created_at FROM relationships "
        "WHERE source_entity_id = 'tyler' AND relation_type = 'WORKS_AT' ORDER BY created_at ASC"
    )
    assert [(at[:10], fact, sure) for fact, sure, at in await rows(opened, specified)] == TYLER


async def test_the_same_observation_ten_times_is_ten_rows(opened: Ledgers) -> None:
    memory = Memory(opened, now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    same = {"source": "ada", "target": "museum", "type": "WORKS_AT", "fact": "Ada works at the museum"}
    await memory.run("batch", [{"operation": "relationship", **same}] * 9)
    await memory.run("relationship", same)

    found = await rows(opened, "SELECT count(*), count(DISTINCT id), count(DISTINCT valid_at) FROM facts")
    assert found == [(10, 10, 1)]
    assert len(await fact_views.load_log(opened, "museum")) == 10


async def test_what_was_learned_late_stands_where_it_was_true(opened: Ledgers) -> None:
    memory = Memory(opened)
    await memory.run("fact", {"about": "ada", "fact": "Ada moved to Rome", "as_of": "2024-05-01"})
    await memory.run("fact", {"about": "ada", "fact": "Ada lived in Oslo", "as_of": "2020-05-01"})

    log = await fact_views.load_log(opened, "ada")

    assert [fact.fact for fact in log] == ["Ada lived in Oslo", "Ada moved to Rome"]
    assert all(fact.created_at > "2026" for fact in log)


async def test_an_observation_names_its_source(opened: Ledgers) -> None:
    (event,) = await opened.events.write(
        events.append, [NewEvent(channel="slack", sender="Ada", content="I left the museum")]
    )
    memory = Memory(opened)
    talk = await memory.run("episode", {"channel": "slack", "start": "2026-01-01", "end": "2026-01-02"})
    written = await memory.run(
        "relationship",
        {
            "source": "ada",
            "target": "museum",
            "type": "WORKS_AT",
            "fact": "Ada left the museum",
            "source_type": "self_disclosed",
            "entities": ["rome"],
            "extracted_fact": "I left the museum",
        },
        Provenance(actor="writer", kind="writer", event_id=event, episode_id=talk["id"], request_id="req_1"),
    )

    (fact,) = await fact_views.load_log(opened, "rome")

    assert (fact.id, fact.source_name, fact.target_name) == (written["id"], "ada", "museum")
    assert fact.said is not None
    assert (fact.said.sender, fact.said.content) == ("Ada", "I left the museum")
    assert (fact.source_episode_id, fact.source_request_id) == (talk["id"], "req_1")
    assert await rows(
        opened,
        "SELECT episode_id, relationship_id, source_type, extracted_fact FROM episode_relationship_mentions",
    ) == [(talk["id"], written["id"], "self_disclosed", "I left the museum")]
    assert await rows(opened, "SELECT entity_id, mention_count FROM episode_entity_mentions") == [
        ("ada", 1),
        ("museum", 1),
        ("rome", 1),
    ]


async def test_causes_are_linked_and_must_exist(opened: Ledgers) -> None:
    memory = Memory(opened)
    rain = await memory.run("fact", {"fact": "It rained"})
    wet = await memory.run("fact", {"fact": "The street is wet", "caused_by": [rain["id"]]})
    await memory.run("causal-link", {"cause": wet["id"], "effect": rain["id"], "relation": "revealed"})

    assert await rows(
        opened, "SELECT cause_fact_id, effect_fact_id, relation FROM causal_links ORDER BY rowid"
    ) == [(rain["id"], wet["id"], "caused"), (wet["id"], rain["id"], "revealed")]
    with pytest.raises(UsageError, match="Unknown fact 'fact_none'"):
        await memory.run("fact", {"fact": "…", "caused_by": "fact_none"})


async def test_unknown_types_pass_through(opened: Ledgers) -> None:
    memory = Memory(opened)
    await memory.run(
        "entity", {"id": "x", "name": "X-ray", "type": "Apparatus", "alias": "4711:serial_number"}
    )
    await memory.run("relationship", {"source": "4711", "type": "HUMS_AT", "fact": "It hums at 50 Hz"})

    (fact,) = await fact_views.load_log(opened, "x-ray")
    assert (fact.relation_type, fact.source_entity_id) == ("HUMS_AT", "x")


async def test_facts_of_merged_entities_are_one_log_and_part_again(opened: Ledgers) -> None:
    memory = Memory(opened)
    for id_, name in (("sarah", "Sarah Chen"), ("sara", "Sara C")):
        await memory.run("entity", {"id": id_, "name": name, "type": "Person"})
        await memory.run("fact", {"about": id_, "fact": f"{name} likes tea"})
    await memory.run("merge", {"source": "sara", "target": "sarah"})
    await memory.run("fact", {"about": "sara", "fact": "Written to the merged one"})
    await memory.run("fact", {"about": "Sara C", "fact": "Written to the name"})

    assert (
        len(await fact_views.load_log(opened, "Sara C"))
        == len(await fact_views.load_log(opened, "sarah"))
        == 4
    )

    await memory.run("unmerge", {"entity": "Sara C"})

    assert [fact.fact for fact in await fact_views.load_log(opened, "sara")] == [
        "Sara C likes tea",
        "Written to the merged one",
    ]
    assert [fact.fact for fact in await fact_views.load_log(opened, "sarah")] == [
        "Sarah Chen likes tea",
        "Written to the name",
    ]
