"""What goes with an entity, and what stays."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nexus.errors import UsageError
from nexus.ledgers import forgetting
from unit.ledgers.forgetting.scene import Scene


async def test_what_it_said_and_what_was_said_to_it_alone_goes(scene: Scene) -> None:
    await scene.entity("ent_a", "Anna")
    for event in ("by_it", "to_it", "to_it_and_bob", "by_bob"):
        await scene.event(event)
    await scene.participant("by_it", "sender", "ent_a")
    await scene.participant("by_it", "recipient", "ent_b")
    await scene.participant("to_it", "sender", "ent_b")
    await scene.participant("to_it", "recipient", "ent_a")
    await scene.participant("to_it_and_bob", "recipient", "ent_a")
    await scene.participant("to_it_and_bob", "cc", "ent_b")
    await scene.participant("by_bob", "sender", "ent_b")
    await scene.forget_entity("ent_a")
    assert await scene.left("events.events") == {"to_it_and_bob", "by_bob"}
    assert await scene.left("events.event_participants", "entity_id") == {"ent_b"}


async def test_texts_that_name_it_go(scene: Scene) -> None:
    await scene.entity("ent_a", "Anna Smith", "annie@example.org", "Annie")
    await scene.event("evt_name", "I saw ANNA SMITH's dog")
    await scene.event("evt_alias", "ask Annie")
    await scene.event("evt_sender", sender="Annie <annie@example.org>")
    await scene.event("evt_json", metadata_json='{"subject": "re:\\nAnnie"}')
    await scene.event("evt_other", "Joannie and the anniversary")
    await scene.fact("fact_name", "Bob likes Annie")
    await scene.fact("fact_other", "Bob likes tea")
    report = await scene.forget_entity("Anna Smith")
    assert await scene.left("events.events") == {"evt_other"}
    assert await scene.left("memory.facts") == {"fact_other"}
    assert report.counts.removed["events.events"] == 4


async def test_mentions_stay_where_they_are_wanted(scene: Scene) -> None:
    await scene.entity("ent_a", "Anna")
    await scene.event("evt_1", "I saw Anna")
    await scene.fact("fact_about", "she sings", source_entity_id="ent_a")
    await scene.fact("fact_naming", "Bob met Anna")
    await scene.put("memory.fact_entities", fact_id="fact_naming", entity_id="ent_a")
    await scene.forget_entity("Anna", mentions=False)
    assert await scene.left("events.events") == {"evt_1"}
    assert await scene.left("memory.facts") == {"fact_naming"}
    assert await scene.left("memory.fact_entities", "entity_id") == set()


async def test_a_name_that_is_a_common_word_can_be_left_out(scene: Scene) -> None:
    await scene.entity("ent_a", "May Brown", "May")
    await scene.event("evt_month", "see you in May")
    await scene.event("evt_name", "May Brown called")
    plan = await scene.preview(await scene.find(lambda c: forgetting.entity(c, "May")))
    assert plan.mentions == {"May Brown": 1, "May": 2}
    await scene.forget_entity("May", without=("may",))
    assert await scene.left("events.events") == {"evt_month"}


async def test_a_name_in_a_script_without_spaces_is_found(scene: Scene) -> None:
    await scene.entity("ent_a", "田中")
    await scene.event("evt_1", "田中さんは元気です")
    await scene.event("evt_2", "元気です")
    await scene.forget_entity("田中")
    assert await scene.left("events.events") == {"evt_2"}


async def test_those_that_were_merged_into_it_go_with_it(scene: Scene) -> None:
    await scene.entity("ent_a", "Anna")
    await scene.entity("ent_b", "Annette", merged_into="ent_a")
    await scene.entity("ent_c", "Annouk", merged_into="ent_b")
    await scene.fact("fact_1", source_entity_id="ent_c")
    await scene.event("evt_1", "Annouk was here")
    target = await scene.find(lambda c: forgetting.entity(c, "Annette"))
    assert target.value == "ent_a"
    await scene.forget_entity("Annette")
    assert await scene.left("identity.entities") == set()
    assert await scene.left("memory.facts") == set()
    assert await scene.left("events.events") == set()


async def test_everything_that_identity_keeps_about_it_goes(scene: Scene) -> None:
    for entity, person in (("ent_a", "per_a"), ("ent_b", "per_b")):
        await scene.entity(entity, entity, f"{entity}@example.org")
        await scene.put("identity.persons", id=person, entity_id=entity, display_name=entity)
        await scene.put("identity.contacts", id=f"con_{entity}", entity_id=entity, channel="c")
        await scene.put("identity.contact_identifiers", contact_id=f"con_{entity}", channel="c", type="email",
                        identifier=entity, normalized=entity)  # fmt: skip
        await scene.put("identity.person_contact_links", person_id=person, contact_id=f"con_{entity}")
        await scene.put("identity.person_facts", id=f"pfa_{entity}", person_id=person, category="c",
                        fact_type="t", value="v")  # fmt: skip
    await scene.put(
        "identity.merge_candidates", id="mrg_1", entity_a_id="ent_a", entity_b_id="ent_b", score=1
    )
    await scene.put("identity.entity_merge_events", id="mev_1", action="merge", source_entity_id="ent_b",
                    target_entity_id="ent_a", actor="a", candidate_id="mrg_1")  # fmt: skip
    await scene.forget_entity("ent_a")
    assert await scene.left("identity.entities") == {"ent_b"}
    assert await scene.left("identity.entity_aliases", "entity_id") == {"ent_b"}
    assert await scene.left("identity.persons") == {"per_b"}
    assert await scene.left("identity.contact_identifiers", "contact_id") == {"con_ent_b"}
    assert await scene.left("identity.person_contact_links", "person_id") == {"per_b"}
    assert await scene.left("identity.person_facts") == {"pfa_ent_b"}
    assert await scene.left("identity.merge_candidates") == set()
    assert await scene.left("identity.entity_merge_events") == set()


async def test_a_contact_that_only_its_address_ties_to_it_goes(scene: Scene) -> None:
    await scene.entity("ent_a", "Anna", "anna@example.org")
    await scene.put("identity.contacts", id="con_1", channel="email")
    await scene.put("identity.contact_identifiers", contact_id="con_1", channel="email", type="email",
                    identifier="Anna@Example.org", normalized="anna@example.org")  # fmt: skip
    await scene.forget_entity("Anna")
    assert await scene.left("identity.contacts") == set()


async def test_somebody_who_is_known_to_be_another_keeps_the_same_name(scene: Scene) -> None:
    await scene.entity("ent_a", "Anna Smith", "Anna")
    await scene.entity("ent_b", "Anna Jones", "Anna")
    await scene.event("evt_1")
    await scene.put("events.event_participants", event_id="evt_1", role="sender", identifier="x",
                    display_name="Anna", entity_id="ent_b")  # fmt: skip
    report = await scene.forget_entity("ent_a")
    assert await scene.left("events.events") == {"evt_1"}
    assert await scene.left("identity.entities") == {"ent_b"}
    assert report.kept["identity.entities.canonical_name"] == 1


async def test_what_stays_loses_only_the_text_that_names_it(scene: Scene) -> None:
    await scene.entity("ent_a", "Anna")
    await scene.entity("ent_b", "Bob", summary="married to Anna")
    await scene.put("events.threads", id="thr_1", channel="c", title="Anna and Bob", metadata_json='["Anna"]')
    await scene.event("evt_1", "hello", thread_id="thr_1")
    await scene.request("req_1", error="Anna failed")
    await scene.put("runtime.spans", id="spn_1", request_id="req_1", root_request_id="req_1", kind="model",
                    name="n", started_at="2020", attributes_json='{"q": "Anna"}')  # fmt: skip
    await scene.put("embeddings.embedding_models", id="m", dimensions=1)
    await scene.put("embeddings.embeddings", target_type="entity", target_id="ent_b", model_id="m",
                    vector=b"", source_text_hash="h")  # fmt: skip
    report = await scene.forget_entity("Anna")
    assert await scene.left("events.threads", "title") == {None}
    assert await scene.left("events.threads", "metadata_json") == {"{}"}
    assert await scene.left("identity.entities", "summary") == {None}
    assert await scene.left("runtime.requests", "error") == {None}
    assert await scene.left("runtime.spans", "attributes_json") == {"{}"}
    # A vector made from the summary would still tell of it.
    assert await scene.left("embeddings.embeddings", "target_id") == set()
    assert report.counts.emptied["events.threads.title"] == 1


async def test_a_turn_goes_whole_and_so_does_a_summary_of_it(scene: Scene) -> None:
    await scene.entity("ent_a", "Anna")
    await scene.session("ses_1")
    await scene.turn("trn_0", "ses_1", 0)
    await scene.turn("trn_1", "ses_1", 1)
    await scene.put("agents.agent_tool_calls", id="tcl_1", session_id="ses_1", turn_id="trn_1",
                    message_id="msg_trn_1", tool_name="recall", result="Anna is 30")  # fmt: skip
    await scene.turn("trn_2", "ses_1", 2, "as we said", kind="summary")
    await scene.turn("trn_3", "ses_1", 3)
    await scene.forget_entity("Anna")
    assert await scene.left("agents.agent_turns") == {"trn_0", "trn_3"}
    assert await scene.left("agents.agent_messages", "turn_id") == {"trn_0", "trn_3"}
    assert await scene.left("agents.agent_tool_calls") == set()
    assert await scene.left("agents.agent_sessions") == {"ses_1"}


async def test_files_of_the_home_that_name_it_are_told(scene: Scene) -> None:
    await scene.entity("ent_a", "Anna")
    (scene.ledgers.home.state / "notes.md").write_text("Remember Anna's birthday")
    (scene.ledgers.home.state / "other.md").write_text("Remember the milk")
    (scene.ledgers.home.logs / "engine.bin").write_bytes(b"\x00\x01xANNAy\x00")
    report = await scene.forget_entity("Anna")
    assert {str(path) for path in report.named_in} == {"state/notes.md", "logs/engine.bin"}


async def test_the_owner_of_the_home_is_not_forgotten(scene: Scene) -> None:
    await scene.entity("ent_me", "Me Myself")
    await scene.put("identity.persons", id="per_me", entity_id="ent_me", display_name="Me", is_owner=1)
    with pytest.raises(UsageError, match="owner"):
        await scene.find(lambda c: forgetting.entity(c, "ent_me"))


async def test_a_name_that_several_bear_must_be_told_apart(scene: Scene) -> None:
    await scene.entity("ent_a", "Anna")
    await scene.entity("ent_b", "Anna")
    with pytest.raises(UsageError, match="ent_a, ent_b"):
        await scene.find(lambda c: forgetting.entity(c, "Anna"))


async def test_an_unknown_name_is_answered_with_near_ones(scene: Scene) -> None:
    await scene.entity("ent_a", "Anna Smith")
    with pytest.raises(UsageError) as caught:
        await scene.find(lambda c: forgetting.entity(c, "Ana Smith"))
    assert "Anna Smith (ent_a)" in caught.value.hint


async def test_what_it_cost_is_kept(scene: Scene) -> None:
    await scene.entity("ent_a", "Anna")
    await scene.event("evt_1", "Anna")
    await scene.request("req_1", event_id="evt_1")
    await scene.put("runtime.usage", id="use_1", request_id="req_1", root_request_id="req_1", provider="p",
                    model="m")  # fmt: skip
    await scene.forget_entity("Anna")
    assert await scene.left("runtime.requests") == set()
    assert await scene.left("runtime.usage") == {"use_1"}


Make = Callable[[Scene], Awaitable[None]]


async def _fact(scene: Scene) -> None:
    await scene.fact("fact_2", source_entity_id="ent_b")


async def _mention(scene: Scene) -> None:
    await scene.episode("epi_1")
    await scene.put("memory.episode_entity_mentions", episode_id="epi_1", entity_id="ent_b")


async def _contact(scene: Scene) -> None:
    await scene.put("identity.contacts", id="con_1", channel="c", entity_id="ent_b")


async def _participant(scene: Scene) -> None:
    await scene.event("evt_2")
    await scene.participant("evt_2", "recipient", "ent_b")


async def _owner(scene: Scene) -> None:
    await scene.put("identity.persons", id="per_1", entity_id="ent_b", display_name="b", is_owner=1)


async def _nothing(scene: Scene) -> None:
    """Nothing else is known about it."""


@pytest.mark.parametrize(
    ("known_by", "left"),
    [
        (_nothing, set[Any]()),
        (_fact, {"ent_b"}),
        (_mention, {"ent_b"}),
        (_contact, {"ent_b"}),
        (_participant, {"ent_b"}),
        (_owner, {"ent_b"}),
    ],
)
async def test_an_entity_known_only_from_what_went_goes_too(
    known_by: Make, left: set[Any], scene: Scene
) -> None:
    await scene.entity("ent_a", "Anna")
    await scene.entity("ent_b", "Bob")
    await scene.fact("fact_1", source_entity_id="ent_b", target_entity_id="ent_a")
    await known_by(scene)
    await scene.forget_entity("Anna")
    assert await scene.left("identity.entities") == left
