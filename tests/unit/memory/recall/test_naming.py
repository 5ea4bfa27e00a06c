"""A thing is found by whatever it is called, and what was said of it counts as speaking of it."""

import pytest

from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory
from nexus.memory.recall.item import Match, Query
from nexus.memory.recall.question import entities_misspelt, entities_named, understand
from nexus.memory.recall.reading import Deadline
from nexus.memory.recall.recall import Recall
from nexus.request import Visibility
from unit.memory.recall.homes import LONG_MS, NOW, say


async def _know(
    opened: Ledgers, name: str, *facts: str, alias: tuple[str, ...] = (), **more: str
) -> list[str]:
    memory = Memory(opened)
    await memory.run("entity", {"name": name, "type": "Thing", "alias": list(alias)})
    made = [await memory.run("fact", {"about": name, "fact": fact, **more}) for fact in facts]
    return [str(each["id"]) for each in made]


async def _find(opened: Ledgers, text: str, *, for_task: bool = False) -> list[Match]:
    recall = Recall(opened, None, now=lambda: NOW)
    query = Query(text=text, budget="low", deadline_ms=LONG_MS, for_task=for_task)
    return list((await recall.find(query)).results)


async def test_a_fact_is_found_by_an_alias_that_it_does_not_say(opened: Ledgers) -> None:
    (fact,) = await _know(
        opened, "Kubernetes", "Services are deployed with Helm charts.", alias=("k8s", "kube")
    )
    (result,) = [each for each in await _find(opened, "What about k8s?") if each.item.kind == "fact"]
    assert result.item.id == fact
    assert result.reasons.about == "Kubernetes"
    assert "Kubernetes" in result.reasons.matched_names


async def test_a_reason_quotes_only_words_that_the_text_says(opened: Ledgers) -> None:
    await _know(opened, "Clara", "She moved to Ghent.")
    (result,) = [each for each in await _find(opened, "Where did Clara move?") if each.item.kind == "fact"]
    assert result.reasons.matched_words == ("move",)
    assert result.reasons.matched_names == ("Clara",)


@pytest.mark.parametrize(
    ("word", "is_one"),
    [
        ("typscript", True),
        ("typsecript", True),
        ("typescripts", True),
        ("TypeScrypt", True),
        ("tapescript", False),
        ("postscript", False),
        ("tpescript", False),
        ("typsrcipt", False),
    ],
)
async def test_a_slip_of_the_pen_is_forgiven_but_not_at_the_beginning(
    opened: Ledgers, word: str, is_one: bool
) -> None:
    await _know(opened, "TypeScript")
    found = await opened.identity.read(entities_misspelt, [word])
    assert bool(found) is is_one
    assert all(word.lower().startswith(term[:3]) for named in found.values() for term in named.words)


async def test_a_short_word_is_what_it_is(opened: Ledgers) -> None:
    await _know(opened, "k8s")
    assert not await opened.identity.read(entities_misspelt, ["k9s"])


async def test_a_word_that_people_use_is_no_slip(opened: Ledgers) -> None:
    await _know(opened, "Mara", "Her father never writes.")
    for _ in range(3):
        await say(opened, "talk", ("Ann", "The rocket flies to mars again."))
    assert [each.reasons.about for each in await _find(opened, "mars") if each.reasons.about] == []


async def test_the_words_that_name_it_are_known(opened: Ledgers) -> None:
    await _know(opened, "Dead Letter Queue", alias=("DLQ",))
    question = understand("What is in the dead letter queue, the DLQ?", NOW)
    (named,) = (await opened.identity.read(entities_named, question)).values()
    assert named.name == "Dead Letter Queue"
    assert named.words >= {"dead", "letter", "dlq"}


async def test_what_was_replaced_or_has_run_out_is_stale(opened: Ledgers) -> None:
    old, new = await _know(opened, "Linting", "Linting is done with TSLint", "Linting is done with Biome")
    await Memory(opened).run("causal-link", {"cause": old, "effect": new, "relation": "replaced"})
    (past,) = await _know(opened, "Hosting", "Hosting is being decided", valid_until="2026-03-01")
    (still,) = await _know(opened, "Leave", "Leave is granted to Ann", valid_until="2030-01-01")
    found = {each.item.id: each.item for each in await _find(opened, "linting hosting leave")}
    assert found[old].stale_since is not None
    assert found[past].stale_since == "2026-03-01T00:00:00.000Z"
    assert found[new].stale_since is None
    assert found[still].stale_since is None


async def test_for_a_task_need_is_estimated_and_a_message_that_facts_were_taken_from_left_out(
    opened: Ledgers,
) -> None:
    (event,) = await say(opened, "talk", ("Ann", "My new cello is made of maple."))
    await _know(opened, "Cello", "Ann has a cello of maple", event=event)
    for_task = await _find(opened, "the cello of maple", for_task=True)
    kinds = [each.item.kind for each in for_task]
    assert "event" not in kinds
    assert "fact" in kinds
    assert all(each.need > 0 for each in for_task)
    assert not any(each.need for each in await _find(opened, "the cello of maple"))


async def test_things_are_looked_up_by_id_as_far_as_they_may_be_seen(opened: Ledgers) -> None:
    (event,) = await say(opened, "talk", ("Ann", "My new cello is made of maple."), channel="home")
    (fact,) = await _know(opened, "Cello", "Ann has a cello of maple", event=event)
    (other,) = await _know(opened, "Tea", "The tea is green")
    recall = Recall(opened, None, now=lambda: NOW)
    known = await recall.load_items([other, event, "fact_0", fact], deadline_ms=LONG_MS)
    assert [item.id for item in known] == [other, event, fact]
    narrow = Recall(opened, None, visible=Visibility(channels=frozenset({"home"})), now=lambda: NOW)
    assert [item.id for item in await narrow.load_items([other, event, fact], deadline_ms=LONG_MS)] == [
        event,
        fact,
    ]


async def test_what_is_looked_up_too_late_is_no_error(
    opened: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fact,) = await _know(opened, "Tea", "The tea is green")
    recall = Recall(opened, None, now=lambda: NOW)
    assert not await recall.knows("Coffee")
    monkeypatch.setattr(Deadline, "passed", True)
    assert await recall.knows("Coffee")
    assert await recall.load_items([fact]) == []
