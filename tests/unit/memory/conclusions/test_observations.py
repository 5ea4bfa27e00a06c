"""What is stored of conclusions: found by words, stale when something newer is known, gone with its facts."""

from typing import Any, cast

import apsw

from nexus.ledgers import Ledgers, forgetting, memory
from nexus.ledgers.memory import NewFact
from nexus.memory.conclusions import batches, observations
from nexus.memory.conclusions.batches import Batch, Limits
from nexus.memory.conclusions.observations import Conclusions, Draft
from nexus.memory.operations import Memory

NOW = "2026-05-01T10:00:00.000Z"
LATER = "9999-01-01T00:00:00.000Z"
LIMITS = Limits(facts=40, tokens=6_000)


async def learn(
    ledgers: Ledgers, *facts: str, about: str = "ent_tyler", target: str | None = None
) -> list[str]:
    new = [NewFact(fact=fact, source_entity_id=about, target_entity_id=target) for fact in facts]
    return await ledgers.memory.write(memory.append_facts, facts=new)


async def conclude(ledgers: Ledgers, text: str, facts: list[str], name: str = "exe_1", **more: Any) -> str:
    """Record one observation of facts; returns its id."""
    batch = Batch(root_request_id=None, fact_ids=tuple(facts))
    found = Conclusions(drafts=(Draft(text=text, fact_ids=tuple(facts), **more),))
    recorded = await observations.record(ledgers, batch, found, name=name, request_id="req_1", now=NOW)
    assert recorded is not None
    return (recorded.added + recorded.revised)[0]


async def ask(ledgers: Ledgers, query: str, *values: str) -> list[tuple[Any, ...]]:
    return await ledgers.memory.read(lambda c: cast("list[Any]", c.execute(query, values).fetchall()))


async def matching(ledgers: Ledgers, word: str) -> list[str]:
    found = await ask(ledgers, "SELECT summary_id FROM summaries_fts WHERE summaries_fts MATCH ?", word)
    return [row[0] for row in found]


async def test_what_is_concluded_is_found_by_its_words_in_whatever_form(opened: Ledgers) -> None:
    made = await conclude(opened, "Tyler collects porcelain elephants.", await learn(opened, "a"))
    assert await matching(opened, "elephant") == [made]
    await opened.memory.write(
        lambda c: c.execute("UPDATE analysis_runs SET content = 'Tyler collects stamps'") and None
    )
    assert await matching(opened, "elephant") == []
    assert await matching(opened, "stamps") == [made]


async def test_an_episode_is_indexed_once_it_has_a_summary(opened: Ledgers) -> None:
    def add(connection: apsw.Connection) -> None:
        connection.execute(
            "INSERT INTO episodes (id, channel, start_time, end_time) VALUES ('epi_1', 'cli', ?1, ?1)", (NOW,)
        )

    await opened.memory.write(add)
    assert await ask(opened, "SELECT count(*) FROM summaries") == [(0,)]
    await opened.memory.write(
        lambda c: c.execute("UPDATE episodes SET title = 'Tea', summary = 'About kettles'") and None
    )
    assert await matching(opened, "kettle tea") == ["epi_1"]


async def test_a_replaced_fact_makes_stale_what_rests_on_it_and_nothing_else(opened: Ledgers) -> None:
    old, other = await learn(opened, "Tyler sings on Mondays", "Tyler paints")
    singing = await conclude(opened, "Tyler sings on Mondays.", [old], "exe_1")
    await conclude(opened, "Tyler paints.", [other], "exe_2")

    def model(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO mental_models (id, name, content) VALUES ('mod_1', 'n', 'c')")
        connection.execute("INSERT INTO mental_model_sources VALUES ('mod_1', 'observation', ?)", (singing,))

    await opened.memory.write(model)
    news, _ = await learn(opened, "Tyler sings on Tuesdays now", "Ada met Tyler")
    assert await ask(opened, "SELECT id FROM observations WHERE stale_at IS NOT NULL") == []
    await opened.memory.write(
        lambda c: (
            c.execute(
                "INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis) "
                "VALUES (?, ?, 0.9, 'judged')",
                (old, news),
            )
            and None
        )
    )
    stale = await ask(opened, "SELECT id, stale_reason FROM observations WHERE stale_at IS NOT NULL")
    assert stale == [(singing, f"newer: {news}")]
    assert await ask(opened, "SELECT stale_reason FROM mental_models") == [(f"stale: {singing}",)]


async def test_recording_the_same_again_changes_nothing(opened: Ledgers) -> None:
    facts = await learn(opened, "a", "b")
    first = await conclude(opened, "Both.", facts)
    assert await conclude(opened, "Both.", facts) == first
    assert await ask(opened, "SELECT count(*) FROM observations") == [(1,)]


async def test_what_was_made_from_something_forgotten_is_not_recorded(opened: Ledgers) -> None:
    facts = await learn(opened, "a")
    batch = Batch(root_request_id=None, fact_ids=(*facts, "fact_gone"))
    found = Conclusions(drafts=(Draft(text="x", fact_ids=tuple(facts)),))
    assert await observations.record(opened, batch, found, name="exe_1", request_id="req_1", now=NOW) is None
    assert await ask(opened, "SELECT count(*) FROM processing_log") == [(0,)]


async def test_facts_whose_observation_was_forgotten_with_another_fact_wait_again(opened: Ledgers) -> None:
    await Memory(opened).run("entity", {"id": "ent_tyler", "name": "Tyler", "type": "Person"})
    await Memory(opened).run("entity", {"id": "ent_sarah", "name": "Sarah", "type": "Person"})
    kept = await learn(opened, "He sings", about="ent_tyler")
    gone = await learn(opened, "She paints", about="ent_sarah")
    await conclude(opened, "He sings and she paints zebras.", [*kept, *gone])
    await conclude(opened, "She paints.", gone, "exe_2")
    none, _ = await batches.choose(opened, LIMITS, until=LATER)
    assert none is None
    sarah = await forgetting.find(opened, lambda c: forgetting.entity(c, "ent_sarah"))
    await forgetting.forget(opened, sarah, actor="test")
    assert await ask(opened, "SELECT count(*) FROM analysis_runs") == [(0,)]
    assert await ask(opened, "SELECT count(*) FROM summaries") == [(0,)]
    assert await matching(opened, "zebras") == []
    batch, _ = await batches.choose(opened, LIMITS, until=LATER)
    assert batch is not None
    assert batch.fact_ids == tuple(kept)


async def test_a_batch_holds_one_entity_after_another_within_its_limits(opened: Ledgers) -> None:
    await learn(opened, "t1")
    await learn(opened, "s1", about="ent_sarah")
    await learn(opened, "t2", "t3")
    batch, _ = await batches.choose(opened, Limits(facts=3, tokens=6_000), until=LATER)
    assert batch is not None
    texts = dict(await ask(opened, "SELECT id, fact FROM facts"))
    assert [texts[id_] for id_ in batch.fact_ids] == ["t1", "t2", "t3"]
    small, _ = await batches.choose(opened, Limits(facts=3, tokens=1), until=LATER)
    assert small is not None
    assert len(small.fact_ids) == 1


async def test_an_entity_that_was_merged_shares_its_observations(opened: Ledgers) -> None:
    for id_, name in (("ent_tyler", "Tyler"), ("ent_ty", "Ty")):
        await Memory(opened).run("entity", {"id": id_, "name": name, "type": "Person"})
    made = await conclude(opened, "Tyler sings.", await learn(opened, "a"))
    await Memory(opened).run("merge", {"source": "ent_ty", "target": "ent_tyler"})
    await learn(opened, "Ty dances", about="ent_ty")
    batch, _ = await batches.choose(opened, LIMITS, until=LATER)
    assert batch is not None
    assert batch.observation_ids == (made,)


async def test_the_index_is_rebuilt_from_the_rows(opened: Ledgers) -> None:
    made = await conclude(opened, "Tyler collects elephants.", await learn(opened, "a"))
    await opened.memory.write(
        lambda c: c.execute("INSERT INTO summaries_fts (summaries_fts) VALUES ('rebuild')") and None
    )
    assert await matching(opened, "elephants") == [made]
