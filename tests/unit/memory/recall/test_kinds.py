"""Every kind of thing that the memory holds can be an answer."""

from datetime import UTC, datetime

from nexus.ledgers import Ledgers, memory
from nexus.memory.embedding import Vectors, embed_new
from nexus.memory.recall.item import Kind, Match, Query
from nexus.memory.recall.recall import Recall
from unit.memory.recall.homes import ANN, BOB, LONG_MS, NOW, TEA, WordHashes, know_people, learn, run, say


def recall_of(opened: Ledgers) -> Recall:
    return Recall(opened, Vectors(opened.embeddings, WordHashes()), now=lambda: NOW)


async def found(opened: Ledgers, text: str, kind: Kind, **more: object) -> list[Match]:
    query = Query(deadline_ms=LONG_MS, text=text, kinds=frozenset({kind}), **more)  # type: ignore[arg-type]
    return list((await recall_of(opened).find(query)).results)


async def conclude(opened: Ledgers) -> None:
    await run(
        opened,
        "memory",
        "INSERT INTO analysis_runs (id, type_id, subject_entity_id, content, confidence, stale_at) VALUES "
        "('obs_old', 'observation', 'ent_ann', 'Ann prefers jasmine tea in the morning.', 0.9, NULL), "
        "('obs_other', 'observation', 'ent_bob', 'Bob runs along the river.', 0.9, NULL)",
        "INSERT INTO analysis_runs (id, type_id, subject_entity_id, content, previous_version_id, stale_at) "
        "VALUES ('obs_new', 'observation', 'ent_ann', 'Ann prefers jasmine tea all day.', 'obs_old', "
        "'2026-11-01T00:00:00.000Z')",
        "INSERT INTO mental_models (id, name, subject_entity_id, content) VALUES "
        "('mod_1', 'Ann and her garden', 'ent_ann', 'Ann plans her week around the garden.')",
        "INSERT INTO episodes (id, channel, title, summary, start_time, end_time) VALUES "
        "('epi_1', 'test', 'Moving house', 'Ann and Bob carried the piano upstairs.', "
        "'2026-03-02T09:00:00.000Z', '2026-03-02T10:00:00.000Z')",
        "INSERT INTO episode_entity_mentions (episode_id, entity_id) VALUES ('epi_1', 'ent_ann')",
    )


async def test_facts(opened: Ledgers) -> None:
    (fact_id,) = await learn(opened, memory.NewFact(fact="Ann moved to Basel"))
    assert [r.item.id for r in await found(opened, "Who moved to Basel?", "fact")] == [fact_id]


async def test_events_that_nothing_was_learned_from_yet(opened: Ledgers) -> None:
    (event_id,) = await say(opened, "t", ("Ann", "I moved to Basel last week."))
    assert [r.item.id for r in await found(opened, "Who moved to Basel?", "event")] == [event_id]


async def test_observations_in_their_last_version_with_their_staleness(opened: Ledgers) -> None:
    await conclude(opened)
    (result,) = await found(opened, "Which tea does Ann prefer?", "observation")
    assert result.item.id == "obs_new"
    assert result.reasons.stale_since == "2026-11-01T00:00:00.000Z"


async def test_mental_models(opened: Ledgers) -> None:
    await conclude(opened)
    (result,) = await found(opened, "How does Ann plan her week in the garden?", "mental_model")
    assert result.item.id == "mod_1"


async def test_episodes(opened: Ledgers) -> None:
    await conclude(opened)
    (result,) = await found(opened, "Who carried the piano?", "episode")
    assert result.item.id == "epi_1"


async def test_episodes_of_the_time_that_is_meant(opened: Ledgers) -> None:
    await conclude(opened)
    answer = await recall_of(opened).find(
        Query(deadline_ms=LONG_MS, text="What did Ann and Bob carry in March?")
    )
    (result,) = [r for r in answer.results if r.item.kind == "episode"]
    assert "temporal_memory" in result.reasons.arms


async def test_entities_by_any_of_their_names(opened: Ledgers) -> None:
    await know_people(opened)
    (result,) = await found(opened, "Who is Annie?", "entity")
    assert result.item.id == ANN
    assert result.item.text == "Ann Keller (Person), also Annie: A gardener from Basel."


async def test_what_is_concluded_about_a_named_entity_without_sharing_a_word(opened: Ledgers) -> None:
    await know_people(opened)
    await conclude(opened)
    answer = await recall_of(opened).gather(Query(deadline_ms=LONG_MS, text="Annie?"))
    assert {"mod_1", "obs_new", "epi_1"} <= answer.sightings.keys()


async def test_an_entity_that_was_merged_away_brings_what_is_known_of_the_one_that_stays(
    opened: Ledgers,
) -> None:
    await know_people(opened)
    await run(
        opened,
        "identity",
        "INSERT INTO entities (id, type, canonical_name, normalized_name, merged_into) VALUES "
        "('ent_ann2', 'Person', 'A. Keller', 'a. keller', 'ent_ann')",
    )
    old, new = await learn(
        opened,
        memory.NewFact(fact="She keeps bees", source_entity_id="ent_ann2"),
        memory.NewFact(fact="She sold the hives", source_entity_id=ANN),
    )
    answer = await recall_of(opened).gather(Query(deadline_ms=LONG_MS, text="What about Annie?"))
    assert {old, new} <= answer.sightings.keys()


async def test_facts_about_related_entities_come_after_those_about_the_named(opened: Ledgers) -> None:
    await know_people(opened)
    own, beyond = await learn(
        opened,
        memory.NewFact(
            fact="He drinks it daily", source_entity_id=BOB, relation_type="LIKES", target_entity_id=TEA
        ),
        memory.NewFact(fact="It grows in Assam", source_entity_id=TEA),
    )
    seen = (await recall_of(opened).gather(Query(deadline_ms=LONG_MS, text="What about Robert?"))).sightings
    assert seen[own][0].score > seen[beyond][0].score


async def test_causes_and_effects_of_what_was_found(opened: Ledgers) -> None:
    cause, effect = await learn(
        opened, memory.NewFact(fact="The dam broke"), memory.NewFact(fact="Everybody left town")
    )
    await run(
        opened,
        "memory",
        "INSERT INTO causal_links (id, cause_fact_id, effect_fact_id) "
        f"VALUES ('cau_1', '{cause}', '{effect}')",
    )
    seen = (
        await recall_of(opened).gather(Query(deadline_ms=LONG_MS, text="Why did the dam break?"))
    ).sightings
    assert [sighting.arm for sighting in seen[effect]] == ["causal"]


async def test_an_entity_narrows_the_answer_to_what_is_about_it(opened: Ledgers) -> None:
    await know_people(opened)
    await conclude(opened)
    about, other = await learn(
        opened,
        memory.NewFact(fact="Likes green tea", source_entity_id=ANN),
        memory.NewFact(fact="Likes black tea", source_entity_id=BOB),
    )
    named, _ = await say(opened, "t", ("Ann Keller", "Tea for me."), ("Bob", "Tea for me too."))
    for entity in (ANN, "Annie"):
        answer = await recall_of(opened).find(
            Query(deadline_ms=LONG_MS, text="Who likes tea?", entity_id=entity, budget="high")
        )
        ids = {result.item.id for result in answer.results}
        assert about in ids
        assert named in ids
        assert other not in ids
        assert {result.item.speaker for result in answer.results} <= {None, "Ann Keller"}


async def test_all_kinds_are_found_by_meaning_once_they_are_embedded(opened: Ledgers) -> None:
    await learn(opened, memory.NewFact(fact="Ann moved to Basel"))
    vectors = Vectors(opened.embeddings, WordHashes())
    await embed_new(opened, vectors)
    answer = await Recall(opened, vectors, now=lambda: NOW).find(
        Query(deadline_ms=LONG_MS, text="moved Basel")
    )
    assert {"semantic", "gist"} <= answer.results[0].reasons.arms.keys()


async def test_a_stale_unsure_or_inferred_thing_stands_behind_its_equal(opened: Ledgers) -> None:
    said = datetime(2026, 5, 1, tzinfo=UTC)
    unsure, guessed, sure = await learn(
        opened,
        memory.NewFact(fact="Ann moved to Basel in 2019", confidence=0.3, as_of=said),
        memory.NewFact(fact="Ann moved to Basel in 2020", source_type="inferred", as_of=said),
        memory.NewFact(fact="Ann moved to Basel in 2021", source_type="self_disclosed", as_of=said),
    )
    results = await found(opened, "When did Ann move to Basel?", "fact")
    assert [r.item.id for r in results] == [sure, guessed, unsure]
    assert results[2].reasons.factors["unsure"] < 0


async def test_of_two_equal_things_the_newer_stands_first(opened: Ledgers) -> None:
    old, new = await learn(
        opened,
        memory.NewFact(fact="Bob weighs 80 kilos", as_of=datetime(2024, 5, 1, tzinfo=UTC)),
        memory.NewFact(fact="Bob weighs 75 kilos", as_of=datetime(2026, 11, 1, tzinfo=UTC)),
    )
    results = await found(opened, "How much does Bob weigh?", "fact")
    assert [r.item.id for r in results] == [new, old]
