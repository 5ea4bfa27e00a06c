"""Links between a fact and the one that replaces it, derived from the log."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from nexus import ids
from nexus.ledgers import Ledgers, memory
from nexus.memory import succession
from nexus.memory.embedding import Vectors, embed_new
from nexus.memory.succession import derivation, judge
from nexus.memory.succession.pairs import UNNAMED, Nearness, Statement, features, opening_names
from unit.memory.recall.homes import WordHashes

RUTH, MARTIN = "ent_ruth", "ent_martin"
ENTITIES = (
    "INSERT INTO entities (id, type, canonical_name, normalized_name) VALUES"
    f" ('{RUTH}', 'Person', 'Ruth', 'ruth'), ('{MARTIN}', 'Person', 'Martin', 'martin')"
)


@pytest.fixture(autouse=True)
async def people(opened: Ledgers) -> None:
    await opened.identity.write(lambda c: c.execute(ENTITIES).fetchall())


def fact(text: str, month: int, *, about: str = RUTH) -> memory.NewFact:
    return memory.NewFact(
        id=ids.new("fact"), fact=text, source_entity_id=about, as_of=datetime(2025, month, 3, tzinfo=UTC)
    )


def at_minute(text: str, minute: int) -> memory.NewFact:
    said = datetime(2026, 5, 3, 9, minute, tzinfo=UTC)
    return memory.NewFact(id=ids.new("fact"), fact=text, source_entity_id=RUTH, as_of=said)


async def learn(opened: Ledgers, *facts: memory.NewFact) -> list[str]:
    recorded = await opened.memory.write(memory.append_facts, facts)
    return [str(id_) for id_ in recorded]


async def derive(opened: Ledgers) -> int:
    vectors = Vectors(opened.embeddings, WordHashes())
    await embed_new(opened, vectors)
    return await succession.derive(opened, vectors)


async def links(opened: Ledgers) -> dict[str | None, tuple[str | None, str]]:
    query = "SELECT old_fact_id, new_fact_id, basis FROM fact_successions"
    rows = await opened.memory.read(lambda c: c.execute(query).fetchall())
    return {str(old): (str(new), str(basis)) for old, new, basis in rows}


OLD = fact("Ruth's GP is Dr Osei at Bentcliffe Surgery", 1)
NEW = fact("Ruth's GP is now Dr Lindley at Bentcliffe Surgery", 8)


async def test_a_changed_value_replaces_the_old_one(opened: Ledgers) -> None:
    await learn(opened, OLD, fact("Ruth grows sweet peas on her allotment", 2), NEW)
    assert await derive(opened) == 1
    assert await links(opened) == {OLD.id: (NEW.id, "judged")}


async def test_deriving_again_finds_nothing_new(opened: Ledgers) -> None:
    await learn(opened, OLD, NEW)
    assert await derive(opened) == 1
    assert await derive(opened) == 0


async def test_a_chain_links_each_fact_to_the_next(opened: Ledgers) -> None:
    first = fact("Ruth's knee operation is on 18 September", 1)
    second = fact("Ruth's knee operation has been moved to 6 November", 4)
    third = fact("Ruth's knee operation has now been moved to 8 December", 9)
    await learn(opened, first, second, third)
    await derive(opened)
    assert await links(opened) == {first.id: (second.id, "judged"), second.id: (third.id, "judged")}


async def test_facts_that_both_hold_are_not_linked(opened: Ledgers) -> None:
    await learn(
        opened,
        fact("Ruth has a daughter named Alison", 1),
        fact("Ruth also has a son named Martin", 5),
        fact("Martin takes his coffee black", 2, about=MARTIN),
        fact("Ruth takes her tea with milk", 6),
    )
    await derive(opened)
    assert await links(opened) == {}


async def test_a_fact_said_again_or_in_more_detail_is_not_replaced(opened: Ledgers) -> None:
    await learn(
        opened,
        fact("Ruth's GP is Dr Osei", 1),
        fact("Ruth's GP is Dr Osei at Bentcliffe Surgery", 3),
        fact("Ruth's GP is Dr Osei at Bentcliffe Surgery", 9),
    )
    await derive(opened)
    assert await links(opened) == {}


@pytest.mark.parametrize(
    ("old", "new", "how"),
    [
        ("Ruth works at Google", "Ruth works at Anthropic now", "changed"),
        ("Ruth lives in Aarhus with Martin", "Ruth lives in Rotterdam now: she moved from Aarhus", "changed"),
        ("Ruth's trip to Leeds is on Monday", "Ruth's trip to Leeds is cancelled", "cancelled"),
    ],
)
async def test_what_is_taught_in_one_conversation_is_replaced(
    opened: Ledgers, old: str, new: str, how: str
) -> None:
    told = [at_minute(old, 0), at_minute("Ruth has a dog named Biscuit", 1), at_minute(new, 2)]
    await learn(opened, *told)
    await derive(opened)
    assert await links(opened) == {told[0].id: (told[2].id, "judged")}
    by = (await opened.memory.read(memory.successors, [str(told[0].id)]))[str(told[0].id)]
    assert by.how == how
    assert by.signals


async def test_lists_and_look_alikes_of_one_conversation_stay(opened: Ledgers) -> None:
    texts = ["Ruth wants to read book 1", "Ruth wants to read book 2", "Ruth is allergic to nuts"]
    texts += ["Ruth is allergic to cashews", "Ruth has a dog named Biscuit", "Ruth has a cat named Tom"]
    await learn(opened, *(at_minute(text, place) for place, text in enumerate(texts)))
    await derive(opened)
    assert await links(opened) == {}


def test_a_claim_carries_a_doubtful_pair_and_not_an_impossible_one() -> None:
    def said(id_: str, text: str, minute: int) -> Statement:
        return Statement(id=id_, text=text, at=f"2026-05-03T09:0{minute}:00.000Z", seq=minute, **ruth)

    ruth: dict[str, Any] = {"subject": RUTH, "entities": frozenset({RUTH}), "names": frozenset({"ruth"})}
    old = said("old", "Ruth's choir meets on Tuesdays", 0)
    other = said("other", "Ruth grows sweet peas", 1)
    new = said("new", "Ruth sings with her choir on Thursdays", 2)
    near = {"old": 3.0, "other": -0.5}
    weighed = judge.load()
    assert weighed.links(new, [old, other], near, {}) == {}
    claimed = weighed.links(new, [old, other], near, {}, claims={"old": "corrected", "other": None})
    assert list(claimed) == ["old"]
    assert claimed["old"].how == "corrected"
    assert "the writer says so" in claimed["old"].signals


async def test_what_a_person_calls_distinct_is_never_linked_again(opened: Ledgers) -> None:
    await learn(opened, OLD, NEW)
    await derive(opened)
    await _link(opened, str(OLD.id), str(NEW.id), "distinct", 1.0)
    assert await links(opened) == {}
    await derive(opened)
    assert await succession.rebuild(opened, Vectors(opened.embeddings, WordHashes())) == 0
    assert await links(opened) == {}


async def _link(opened: Ledgers, old: str, new: str, relation: str, confidence: float) -> None:
    row = (ids.new("cau"), old, new, relation, confidence)
    await opened.memory.write(
        lambda c: c.execute(
            "INSERT INTO causal_links (id, cause_fact_id, effect_fact_id, relation, confidence)"
            " VALUES (?, ?, ?, ?, ?)",
            row,
        )
    )


async def test_the_later_one_in_time_replaces_whatever_was_recorded_first(opened: Ledgers) -> None:
    await learn(opened, NEW)
    await derive(opened)
    await learn(opened, OLD)
    await derive(opened)
    assert await links(opened) == {OLD.id: (NEW.id, "judged")}


async def test_a_stated_replacement_counts_at_once_and_stands(opened: Ledgers) -> None:
    stated = fact("Dr Patel looks after Ruth", 9)
    await learn(opened, OLD, NEW, stated)
    await opened.memory.write(
        lambda c: c.execute(
            "INSERT INTO causal_links (id, cause_fact_id, effect_fact_id, relation)"
            " VALUES ('cau_1', ?, ?, 'replaced')",
            (OLD.id, stated.id),
        )
    )
    assert await links(opened) == {OLD.id: (stated.id, "stated")}
    await derive(opened)
    assert (await links(opened))[OLD.id] == (stated.id, "stated")


async def test_links_can_be_thrown_away_and_derived_again(opened: Ledgers) -> None:
    await learn(opened, OLD, NEW)
    await derive(opened)
    before = await links(opened)
    vectors = Vectors(opened.embeddings, WordHashes())
    assert await succession.rebuild(opened, vectors) == 1
    assert await links(opened) == before


async def test_a_new_model_judges_everything_again(opened: Ledgers) -> None:
    class OtherHashes(WordHashes):
        model_id = "word-hashes@2"

    await learn(opened, OLD, NEW)
    await derive(opened)
    await opened.memory.write(lambda c: c.execute("UPDATE fact_successions SET confidence = 0.0"))
    vectors = Vectors(opened.embeddings, OtherHashes())
    await embed_new(opened, vectors)
    assert await succession.derive(opened, vectors) == 1


async def test_a_lost_successor_is_searched_again(opened: Ledgers) -> None:
    middle = fact("Ruth's GP is now Dr Weir at Bentcliffe Surgery", 4)
    await learn(opened, OLD, middle, NEW)
    await derive(opened)
    assert (await links(opened))[OLD.id][0] == middle.id
    await opened.memory.write(
        lambda c: c.execute(
            "DELETE FROM fact_successions WHERE ? IN (old_fact_id, new_fact_id)", (middle.id,)
        )
    )
    assert (await succession.state(opened, WordHashes.model_id)).waiting == 2
    await derive(opened)
    assert OLD.id in await links(opened)


async def test_the_state_counts_links_and_what_waits(opened: Ledgers) -> None:
    await learn(opened, OLD, NEW)
    assert await succession.state(opened, WordHashes.model_id) == succession.State(
        stated=0, judged=0, waiting=2
    )
    await derive(opened)
    assert await succession.state(opened, WordHashes.model_id) == succession.State(
        stated=0, judged=1, waiting=0
    )


def test_the_judge_weighs_only_features_that_exist() -> None:
    one = Statement(id="a", text="one", at="2025-01-01T00:00:00.000Z", seq=1)
    known = features(one, one, Nearness(closeness=1.0, rank=1, margin=0.0))
    for weights in (judge.load().named, judge.load().unnamed):
        assert weights.weights.keys() == weights.means.keys() == known.keys()
    assert np.isfinite(list(known.values())).all()


def test_facts_that_name_nobody_are_compared_by_any_word_they_share() -> None:
    old, new, other = (
        Statement(
            id=text,
            text=text,
            at=at,
            seq=seq,
            subject=UNNAMED + opening_names(text)[-1],
            entities=frozenset(UNNAMED + name for name in opening_names(text)),
            names=frozenset(opening_names(text)),
        )
        for seq, (at, text) in enumerate(
            (
                ("2026-10-01T09:00:00.000Z", "My dentist is Dr. Patel on Mill Road"),
                ("2026-11-10T09:00:00.000Z", "I've switched to Dr. Okafor as my dentist"),
                ("2026-11-11T09:00:00.000Z", "We sold the boat"),
            )
        )
    )
    assert list(judge.load().links(new, [old], {old.id: 4.0}, {})) == [old.id]
    assert not judge.fit(old, other)
    assert opening_names("I've moved") == opening_names("I\u2019m here") == opening_names("I live") == ("i",)


def _said(id_: str, text: str, minute: int, *about: str) -> Statement:
    return Statement(
        id=id_,
        text=text,
        at=f"2026-05-03T09:0{minute}:00.000Z",
        seq=minute,
        subject=about[0],
        entities=frozenset(about),
        names=frozenset(about),
    )


async def test_a_judged_link_never_leads_back_to_where_a_stated_chain_began(opened: Ledgers) -> None:
    middle = fact("Dr Patel looks after Ruth", 9)
    await learn(opened, OLD, middle, NEW)
    await _link(opened, str(NEW.id), str(middle.id), "replaced", 1.0)
    await _link(opened, str(middle.id), str(OLD.id), "replaced", 1.0)
    await derive(opened)
    stated = {NEW.id: (middle.id, "stated"), middle.id: (OLD.id, "stated")}
    assert await links(opened) == stated
    await succession.rebuild(opened, Vectors(opened.embeddings, WordHashes()))
    assert await links(opened) == stated


def test_the_judge_links_no_pair_that_would_close_a_circle() -> None:
    old = _said("old", "Ruth works at Google", 0, "ruth")
    new = _said("new", "Ruth works at Anthropic now", 1, "ruth")
    near = {"old": 4.0}
    assert list(judge.load().links(new, [old], near, {})) == ["old"]
    back = {"new": judge.Link("between", 1.0, stated=True), "between": judge.Link("old", 1.0, stated=True)}
    assert judge.load().links(new, [old], near, back) == {}


async def test_of_two_statements_in_opposite_directions_the_later_one_counts(opened: Ledgers) -> None:
    await learn(opened, OLD, NEW)
    await _link(opened, str(OLD.id), str(NEW.id), "replaced", 1.0)
    await _link(opened, str(NEW.id), str(OLD.id), "replaced", 1.0)
    assert await links(opened) == {NEW.id: (OLD.id, "stated")}
    await derive(opened)
    await succession.rebuild(opened, Vectors(opened.embeddings, WordHashes()))
    assert await links(opened) == {NEW.id: (OLD.id, "stated")}


def test_a_claim_counts_only_in_the_direction_in_which_it_was_made() -> None:
    later = _said("later", "Ruth's choir meets on Tuesdays", 2, "ruth")
    written = _said("written", "Ruth sings with her choir on Thursdays", 0, "ruth")
    found = judge.load().links(written, [later], {"later": 3.0}, {}, claims={"later": "cancelled"})
    assert found == judge.load().links(written, [later], {"later": 3.0}, {})
    earlier = _said("later", "Ruth's choir meets on Tuesdays", 0, "ruth")
    written = _said("written", "Ruth sings with her choir on Thursdays", 2, "ruth")
    claimed = judge.load().links(written, [earlier], {"later": 3.0}, {}, claims={"later": "cancelled"})
    assert claimed["later"].how == "cancelled"


def test_facts_about_different_people_are_not_linked_even_if_a_writer_says_so() -> None:
    def claim(old: Statement, new: Statement) -> list[str]:
        return list(judge.load().links(new, [old], {"old": 4.0}, {}, claims={"old": None}))

    leo = _said("old", "Leo has piano lessons on Monday", 0, "leo")
    assert claim(leo, _said("new", "Leo has piano lessons on Tuesday now", 2, "leo")) == ["old"]
    assert claim(leo, _said("new", "Mia has piano lessons on Tuesday now", 2, "mia")) == []
    assert claim(leo, _said("new", "Mia now has the piano lessons on Monday instead of Leo", 2, "mia")) == [
        "old"
    ]


async def test_only_what_a_lost_successor_concerns_is_weighed_again(
    opened: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = fact("Ruth's GP is Dr Abara at Bentcliffe Surgery now", 9)
    others = [fact(f"Martin baked bread number {number} with rye", 2, about=MARTIN) for number in range(40)]
    await learn(opened, OLD, NEW, *others, third)
    await derive(opened)
    assert (await links(opened))[OLD.id] == (NEW.id, "judged")
    monkeypatch.setattr(derivation, "_AROUND", 8)
    weighed: list[str] = []
    weigh = judge.Judge.links

    def note(own: judge.Judge, new: Statement, *arguments: Any, **named: Any) -> dict[str, judge.Link]:
        weighed.append(new.id)
        return weigh(own, new, *arguments, **named)

    monkeypatch.setattr(judge.Judge, "links", note)
    await opened.memory.write(lambda c: c.execute("DELETE FROM fact_successions").fetchall())
    await derive(opened)
    found = await links(opened)
    assert {NEW.id, third.id} <= set(weighed)
    assert len(weighed) < 12
    weighed.clear()
    assert await derive(opened) == 0
    assert not weighed
    await succession.rebuild(opened, Vectors(opened.embeddings, WordHashes()))
    assert await links(opened) == found
