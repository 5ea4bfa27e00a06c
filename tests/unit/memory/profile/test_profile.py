"""The owner's profile: built from facts by rule, versioned, and the owner's to edit."""

from datetime import timedelta

import pytest

from nexus import clock
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.senders import Seen
from nexus.memory.operations import Memory
from nexus.memory.profile import MAX_TOKENS, OwnerProfile, versions


async def _owner(opened: Ledgers, name: str = "Mona Petersen") -> None:
    seen = Seen(channel="cli", identifier="owner", display_name=name, event_id=None, is_owner=True)
    await opened.identity.write(senders.resolve, seen=seen)


async def _know(opened: Ledgers, about: str, *facts: str, type_: str = "Person", **more: str) -> list[str]:
    memory = Memory(opened)
    if about != "Mona Petersen":
        await memory.run("entity", {"name": about, "type": type_})
    return [(await memory.run("fact", {"about": about, "fact": each, **more}))["id"] for each in facts]


async def test_restrictions_people_and_preferences_come_before_the_rest(opened: Ledgers) -> None:
    await _owner(opened)
    trivia = [f"Mona saw {number} birds on the way home." for number in range(30)]
    await _know(opened, "Mona Petersen", *trivia)
    (diet,) = await _know(opened, "Mona Petersen", "Mona is a vegetarian.")
    related = ["Idris is Mona's husband.", "Idris is allergic to hazelnuts."]
    husband, allergy = await _know(opened, "Idris", *related, entities="Mona Petersen")
    await _know(opened, "Mona Petersen", "Mona prefers the window seat.")
    version = await OwnerProfile(opened).refresh()
    assert version is not None
    assert version.content.splitlines() == [
        "Name: Mona Petersen",
        "- Mona is a vegetarian.",
        "- Idris is Mona's husband.",
        "- Idris is allergic to hazelnuts.",
        "- Mona prefers the window seat.",
    ]
    cited = await versions.citations(opened, version.id)
    assert [(each.line, each.fact_id) for each in cited][:3] == [(2, diet), (3, husband), (4, allergy)]


@pytest.mark.parametrize(
    "restriction",
    [
        "Mona ist Vegetarierin.",
        "Mona es alérgica a los frutos secos.",
        "Mona est intolérante au lactose.",
        "Mona é celíaca e não come glúten.",
        "Mona must not take ibuprofen.",
    ],
)
async def test_restrictions_are_noticed_in_several_languages(opened: Ledgers, restriction: str) -> None:
    await _owner(opened)
    await _know(opened, "Mona Petersen", "Mona saw a film.", restriction)
    version = await OwnerProfile(opened).refresh()
    assert version is not None
    assert version.content == f"Name: Mona Petersen\n- {restriction}"


async def test_what_was_replaced_is_left_out(opened: Ledgers) -> None:
    await _owner(opened)
    old, new = await _know(opened, "Mona Petersen", "Mona is a vegetarian.", "Mona is a vegan now.")
    await Memory(opened).run("causal-link", {"cause": old, "effect": new, "relation": "replaced"})
    version = await OwnerProfile(opened).refresh()
    assert version is not None
    assert version.content == "Name: Mona Petersen\n- Mona is a vegan now."


async def test_it_never_takes_more_than_its_share_of_a_prompt(opened: Ledgers) -> None:
    await _owner(opened)
    await _know(
        opened, "Mona Petersen", *(f"Mona is allergic to {n} {'very ' * 20}odd things." for n in range(20))
    )
    version = await OwnerProfile(opened).refresh()
    assert version is not None
    assert 100 < len(version.content) / 4 <= MAX_TOKENS


async def test_an_edit_is_kept_and_only_news_is_added(opened: Ledgers) -> None:
    await _owner(opened)
    await _know(opened, "Mona Petersen", "Mona is a vegetarian.")
    profile = OwnerProfile(opened)
    await profile.refresh()
    edited = await profile.write("Call me Mo.\nI eat fish.\n")
    assert (edited.version, edited.content) == (2, "Call me Mo.\nI eat fish.")
    await _know(opened, "Mona Petersen", "Mona is allergic to kiwis.")
    later = await profile.refresh()
    assert later is not None
    assert later.content == "Call me Mo.\nI eat fish.\n- Mona is allergic to kiwis."
    assert [each.origin for each in await versions.list_versions(opened)] == ["facts", "owner", "facts"]
    assert [each.line for each in await versions.citations(opened, later.id)] == [3]
    reset = await profile.reset()
    assert reset is not None
    assert "- Mona is a vegetarian." in reset.content
    assert "Mo." not in reset.content


async def test_an_edit_that_is_too_long_is_refused(opened: Ledgers) -> None:
    with pytest.raises(UsageError, match="longer than 300 tokens"):
        await OwnerProfile(opened).write("word " * 400)


async def test_it_is_made_again_when_facts_came_and_some_time_has_passed(opened: Ledgers) -> None:
    await _owner(opened)
    await _know(opened, "Mona Petersen", "Mona is a vegetarian.")
    later = timedelta()
    profile = OwnerProfile(opened, now=lambda: clock.now() + later)
    assert "vegetarian" in await profile.text()
    await _know(opened, "Mona Petersen", "Mona is allergic to kiwis.")
    assert "kiwis" not in await profile.text()
    later = timedelta(minutes=11)
    assert "kiwis" in await profile.text()
    assert len(await versions.list_versions(opened)) == 2


@pytest.mark.parametrize("origin", ["facts", "consolidation"])
async def test_it_is_made_again_when_a_fact_that_it_rests_on_was_replaced(
    opened: Ledgers, origin: versions.Origin
) -> None:
    await _owner(opened)
    old, new = await _know(opened, "Mona Petersen", "Mona is a vegetarian.", "Mona is a vegan now.")
    later = timedelta()
    profile = OwnerProfile(opened, now=lambda: clock.now() + later)
    assert "vegetarian" in await profile.text()
    lines = (versions.Line(text="- Mona is a vegetarian.", fact_ids=(old,)),)
    await versions.append(
        opened, versions.NewVersion(lines=lines, origin=origin), now=clock.timestamp(clock.now())
    )
    later = timedelta(minutes=11)
    assert "vegetarian" in await profile.text()
    link = (
        "INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis)"
        " VALUES (?, ?, 0.9, 'judged')"
    )
    await opened.memory.write(lambda c: c.execute(link, (old, new)).fetchall())
    later = timedelta(minutes=22)
    assert await profile.text() == "Name: Mona Petersen\n- Mona is a vegan now."
