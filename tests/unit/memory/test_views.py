"""Entities, facts, episodes and conclusions, as pages show them."""

import pytest

from nexus.errors import MissingError
from nexus.ledgers import Ledgers
from nexus.memory.views import conclusions, entities, episodes, events, facts
from unit.gateway.scene import Scene


@pytest.fixture
def scene(opened: Ledgers) -> Scene:
    """An empty home that can be filled."""
    return Scene(ledgers=opened)


async def test_an_entity_is_one_with_what_was_merged_into_it(scene: Scene) -> None:
    await scene.remember("entity", id="sarah", name="Sarah Chen", type="Person", alias=["Sarah"])
    await scene.remember("entity", id="schen", name="S. Chen", type="Person")
    await scene.remember("fact", about="schen", fact="S. Chen likes tea")
    await scene.remember("merge", source="schen", target="sarah")
    (line,) = (await entities.load_page(scene.ledgers)).items
    assert (line.name, line.facts, line.merged) == ("Sarah Chen", 1, 1)
    whole = await entities.get(scene.ledgers, "Sarah Chen")
    assert [each.name for each in whole.merged] == ["S. Chen"]
    assert "S. Chen" in {each.alias for each in whole.aliases}
    timeline = await entities.load_timeline(scene.ledgers, whole.same)
    assert [fact.fact for fact in timeline.items] == ["S. Chen likes tea"]


async def test_entities_are_found_by_a_part_of_any_name(scene: Scene) -> None:
    await scene.remember("entity", id="one", name="Sarah Chen", type="Person", alias=["Sally"])
    await scene.remember("entity", id="two", name="Tom Berg", type="Person")
    found = await entities.load_page(scene.ledgers, matching="sall")
    assert [line.name for line in found.items] == ["Sarah Chen"]
    assert await entities.count_types(scene.ledgers) == (("Person", 2),)


async def test_a_timeline_goes_from_the_latest_truth_to_the_first_over_pages(scene: Scene) -> None:
    await scene.remember("entity", id="tom", name="Tom", type="Person")
    for month in (3, 1, 2):
        await scene.remember("fact", about="tom", fact=f"Month {month}", as_of=f"2026-0{month}-01")
    whole = await entities.get(scene.ledgers, "tom")
    first = await entities.load_timeline(scene.ledgers, whole.same, limit=2)
    assert [fact.fact for fact in first.items] == ["Month 3", "Month 2"]
    second = await entities.load_timeline(scene.ledgers, whole.same, limit=2, cursor=first.next)
    assert [fact.fact for fact in second.items] == ["Month 1"]
    assert second.next is None


async def test_neighbours_are_those_of_the_same_facts(scene: Scene) -> None:
    await scene.remember("entity", id="tom", name="Tom", type="Person")
    await scene.remember("entity", id="acme", name="Acme", type="Company")
    await scene.remember(
        "relationship", source="tom", type="WORKS_AT", target="acme", fact="Tom works at Acme"
    )
    whole = await entities.get(scene.ledgers, "tom")
    assert [(each.name, each.facts) for each in whole.neighbours] == [("Acme", 1)]


async def test_a_fact_leads_to_the_message_that_it_came_from(scene: Scene) -> None:
    before, source, _ = await scene.say("Hello", "I am allergic to nuts", "Noted?")
    await scene.remember("fact", fact="The owner is allergic to nuts", event_id=source)
    (fact,) = (await facts.load_page(scene.ledgers, matching="allergic")).items
    assert fact.said is not None
    assert fact.said.content == "I am allergic to nuts"
    view = await events.get(scene.ledgers, source)
    assert [each.id for each in view.before] == [before]
    assert [each.content for each in view.after] == ["Noted?"]
    assert [each.fact for each in view.learned] == ["The owner is allergic to nuts"]


async def test_an_episode_holds_what_was_said_in_it(scene: Scene) -> None:
    ids = await scene.say("We sail in May", "From Bergen")
    made = await scene.remember(
        "episode",
        title="Sailing",
        channel="cli",
        events=ids,
        start="2026-05-01T10:00:00Z",
        end="2026-05-01T11:00:00Z",
    )
    (line,) = (await episodes.load_page(scene.ledgers)).items
    view = await episodes.get(scene.ledgers, line.id)
    assert made["id"] == line.id
    assert [each.content for each in view.said] == ["We sail in May", "From Bergen"]


async def test_a_conclusion_tells_its_versions_its_sources_and_since_when_it_is_stale(scene: Scene) -> None:
    fact = await scene.remember("fact", fact="Tom drinks tea")
    await scene.ledgers.memory.write(
        lambda c: c.execute(
            """
            INSERT INTO analysis_runs (id, type_id, content, version, previous_version_id, stale_at) VALUES
              ('obs_1', 'observation', 'Tom likes coffee', 1, NULL, NULL),
              ('obs_2', 'observation', 'Tom likes tea', 2, 'obs_1', '2026-05-01T00:00:00.000Z');
            INSERT INTO observation_facts VALUES ('obs_2', ?);
            INSERT INTO mental_models (id, name, content) VALUES ('mod_1', 'Tom', 'Tom is calm');
            INSERT INTO mental_model_sources VALUES ('mod_1', 'observation', 'obs_2');
            """,
            (fact["id"],),
        ).fetchall()
    )
    (line,) = (await conclusions.load_page(scene.ledgers, "observation")).items
    assert (line.id, line.sources, line.stale_at) == ("obs_2", 1, "2026-05-01T00:00:00.000Z")
    view = await conclusions.get(scene.ledgers, "observation", "obs_1")
    assert [each.id for each in view.versions] == ["obs_2", "obs_1"]
    model = await conclusions.get(scene.ledgers, "mental_model", "mod_1")
    assert [(each.kind, each.text) for each in model.sources] == [("observation", "Tom likes tea")]
    assert not (await conclusions.load_page(scene.ledgers, "mental_model", stale=True)).items


async def test_a_stale_conclusion_tells_what_was_learned_since(scene: Scene) -> None:
    newer = await scene.remember("fact", fact="Tom likes coffee again")
    await scene.ledgers.memory.write(
        lambda c: c.execute(
            """
            INSERT INTO analysis_runs (id, type_id, content, stale_at, stale_reason)
            VALUES ('obs_1', 'observation', 'Tom likes tea', '2026-05-01T00:00:00.000Z', 'newer: ' || ?)
            """,
            (newer["id"],),
        ).fetchall()
    )
    view = await conclusions.get(scene.ledgers, "observation", "obs_1")
    assert view.newer is not None
    assert (view.newer.id, view.newer.text) == (newer["id"], "Tom likes coffee again")


async def test_what_is_not_there_is_said_to_be_missing(scene: Scene) -> None:
    for looking in (
        events.get(scene.ledgers, "evt_none"),
        episodes.get(scene.ledgers, "epi_none"),
        conclusions.get(scene.ledgers, "mental_model", "mod_none"),
    ):
        with pytest.raises(MissingError, match="Unknown"):
            await looking
