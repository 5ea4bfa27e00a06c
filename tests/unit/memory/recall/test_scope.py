"""Nothing that the asker may not see is ranked, whatever arm brings it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from nexus.ledgers import Ledgers, memory
from nexus.memory.embedding import Vectors, embed_new
from nexus.memory.recall.item import Query, Sighting
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.search import ARMS, Search
from nexus.request import Visibility
from unit.memory.recall.homes import ANN, LONG_MS, NOW, WordHashes, know_people, learn, run, say


async def two_channels(opened: Ledgers) -> dict[str, str]:
    """The same words on two channels, with what was learned from each and what was concluded."""
    await know_people(opened)
    (work,) = await say(opened, "office", ("Ann", "The secret project is called Heron."), channel="slack")
    (home,) = await say(opened, "family", ("Ann", "My secret project is a treehouse."), channel="imessage")
    facts = await learn(
        opened,
        memory.NewFact(fact="The secret project is Heron", source_event_id=work, source_entity_id=ANN),
        memory.NewFact(fact="The secret project is a treehouse", source_event_id=home, source_entity_id=ANN),
        memory.NewFact(fact="A secret project without a source", source_entity_id=ANN),
    )
    await run(
        opened,
        "memory",
        "INSERT INTO mental_models (id, name, subject_entity_id, content) VALUES "
        "('mod_1', 'Secret projects', 'ent_ann', 'Ann has two secret projects.')",
        "INSERT INTO episodes (id, channel, summary, start_time, end_time) VALUES "
        "('epi_slack', 'slack', 'The secret project', '2026-05-01T00:00Z', '2026-05-01T01:00Z'), "
        "('epi_home', 'imessage', 'Secret project', '2026-05-01T00:00Z', '2026-05-01T01:00Z')",
    )
    return {
        "work": work,
        "home": home,
        "work fact": facts[0],
        "home fact": facts[1],
        "fact without a source": facts[2],
    }


async def asked(opened: Ledgers, visible: Visibility, **query: Any) -> set[str]:
    vectors = Vectors(opened.embeddings, WordHashes())
    await embed_new(opened, vectors)
    recall = Recall(opened, vectors, visible=visible, now=lambda: NOW)
    text = "Annie's secret project"
    found = await recall.gather(Query(deadline_ms=LONG_MS, text=text, budget="high", **query))
    return {item.id for item in found.pool.items}


async def test_the_owner_sees_everything(opened: Ledgers) -> None:
    ids = await two_channels(opened)
    seen = await asked(opened, Visibility())
    assert {*ids.values(), "mod_1", "epi_slack", "epi_home", ANN} <= seen


async def test_a_channel_opens_what_was_said_there_and_what_came_from_it(opened: Ledgers) -> None:
    ids = await two_channels(opened)
    seen = await asked(opened, Visibility(channels=frozenset({"slack"})))
    assert seen == {ids["work"], ids["work fact"], "epi_slack"}


async def test_a_thread_opens_what_was_said_in_it_and_nothing_else(opened: Ledgers) -> None:
    """A fact may rest on what a tool gave to the owner in the same thread."""
    ids = await two_channels(opened)
    thread_id = await opened.events.read(
        lambda c: c.execute("SELECT thread_id FROM events WHERE id = ?", (ids["home"],)).get
    )
    seen = await asked(opened, Visibility(thread_ids=frozenset({str(thread_id)})))
    assert seen == {ids["home"]}


async def test_nothing_allowed_is_nothing_seen(opened: Ledgers) -> None:
    await two_channels(opened)
    assert await asked(opened, Visibility(channels=frozenset())) == set()


async def test_a_query_narrows_and_never_widens_what_its_asker_may_see(opened: Ledgers) -> None:
    await two_channels(opened)
    slack = Visibility(channels=frozenset({"slack"}))
    assert await asked(opened, slack, channel="imessage") == set()
    assert await asked(opened, slack, kinds=frozenset({"mental_model", "entity"})) == set()


async def test_times_hold_for_facts_and_conclusions_too(opened: Ledgers) -> None:
    await learn(
        opened,
        memory.NewFact(fact="secret project old", as_of=datetime(2020, 1, 1, tzinfo=UTC)),
        memory.NewFact(fact="secret project new", as_of=datetime(2026, 1, 1, tzinfo=UTC)),
    )
    vectors = Vectors(opened.embeddings, WordHashes())
    recall = Recall(opened, vectors, now=lambda: NOW)
    answer = await recall.find(
        Query(deadline_ms=LONG_MS, text="secret project", time_after=datetime(2025, 1, 1, tzinfo=UTC))
    )
    assert [result.item.text for result in answer.results] == ["secret project new"]


@pytest.mark.parametrize("kind", ["event", "fact", "mental_model", "entity"])
async def test_the_gate_does_not_rely_on_the_arms(opened: Ledgers, kind: str) -> None:
    ids = await two_channels(opened)
    forbidden = {"event": ids["home"], "fact": ids["home fact"], "mental_model": "mod_1", "entity": ANN}[kind]

    def careless(search: Search) -> list[Sighting]:
        return [Sighting(arm="careless", kind=kind, id=forbidden, rank=1, score=1.0)]  # type: ignore[arg-type]

    recall = Recall(
        opened,
        None,
        visible=Visibility(channels=frozenset({"slack"})),
        now=lambda: NOW,
        arms={**ARMS, "careless": careless},
    )
    found = await recall.gather(Query(deadline_ms=LONG_MS, text="project"))
    assert forbidden not in {item.id for item in found.pool.items}


async def test_an_arm_of_ones_own_is_used_beside_the_others(opened: Ledgers) -> None:
    ids = await two_channels(opened)

    def arm(search: Search) -> list[Sighting]:
        return [Sighting(arm="mine", kind="event", id=ids["home"], rank=1, score=1.0)]

    recall = Recall(opened, None, now=lambda: NOW, arms={**ARMS, "mine": arm})
    found = await recall.gather(Query(deadline_ms=LONG_MS, text="Heron"))
    assert found.sightings[ids["home"]][0].arm == "mine"


async def test_what_is_left_out_is_no_answer_not_even_beside_one(opened: Ledgers) -> None:
    said = await say(
        opened,
        "t",
        ("Ann", "The secret project is called Heron."),
        ("Ann", "What is the secret project called?"),
    )
    for without in ({said[1]}, set(said)):
        recall = Recall(opened, None, without=frozenset(without), now=lambda: NOW)
        query = Query(deadline_ms=LONG_MS, text="What is the secret project called?", budget="high")
        answer = await recall.find(query)
        assert {result.item.id for result in answer.results} == set(said) - without
