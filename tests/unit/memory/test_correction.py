"""What the owner says about facts: corrections, decisions and pins, and what follows from them."""

from typing import Any

import pytest

from nexus.cli.memory_views import describe_fact
from nexus.errors import MissingError, UsageError
from nexus.ledgers import Ledgers, forgetting, sql
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.senders import Seen
from nexus.ledgers.memory import NewFact, append_facts, reviews, shorten_id, successors
from nexus.memory.operations import Memory
from nexus.memory.profile import OwnerProfile
from nexus.memory.recall.item import Query
from nexus.memory.recall.recall import Recall
from nexus.memory.views import facts as fact_views
from nexus.memory.writing import Provenance

OWNER = Provenance(actor="person:mona", kind="owner")
WRITER = Provenance(actor="memory-writer", kind="writer")


@pytest.fixture
def memory(opened: Ledgers) -> Memory:
    return Memory(opened)


@pytest.fixture
def ledgers(opened: Ledgers) -> Ledgers:
    return opened


async def _sarah(memory: Memory, fact: str = "Sarah works at Anthropic", **more: Any) -> str:
    await memory.run("entity", {"id": "sarah", "name": "Sarah Chen", "type": "Person"}, WRITER)
    return (await memory.run("fact", {"about": "sarah", "fact": fact, **more}, WRITER))["id"]


async def _recalled(ledgers: Ledgers, text: str) -> list[str]:
    answer = await Recall(ledgers, None).find(Query(text=text, kinds=frozenset({"fact"}), deadline_ms=20_000))
    return [match.item.text for match in answer.results if match.item.stale_since is None]


async def test_a_correction_replaces_the_fact_with_the_owner_as_source(
    memory: Memory, ledgers: Ledgers
) -> None:
    await memory.run("entity", {"id": "anthropic", "name": "Anthropic", "type": "Company"}, WRITER)
    old = await _sarah(memory, target="anthropic", type="WORKS_AT")
    done = await memory.correct(old, "Sarah works at  Mistral", OWNER)
    view = await fact_views.get(ledgers, done["id"])
    assert [each.fact for each in view.chain] == ["Sarah works at Mistral", "Sarah works at Anthropic"]
    assert (view.fact.source_entity_id, view.fact.relation_type) == ("sarah", "WORKS_AT")
    assert view.fact.target_entity_id is None, "the new statement no longer names the company"
    assert view.fact.is_written
    assert (view.fact.source_type, view.fact.state.verdict) == ("self_disclosed", "accept")
    replaced = (await fact_views.get(ledgers, old)).fact.replaced_by
    assert replaced is not None
    assert (replaced.id, replaced.basis) == (done["id"], "stated")


async def test_a_correction_keeps_whom_it_still_names(memory: Memory, ledgers: Ledgers) -> None:
    await memory.run("entity", {"id": "anthropic", "name": "Anthropic", "type": "Company"}, WRITER)
    old = await _sarah(memory, target="anthropic", type="WORKS_AT")
    done = await memory.correct(old, "Sarah left Anthropic in May", OWNER)
    assert (await fact_views.get(ledgers, done["id"])).fact.target_entity_id == "anthropic"


async def test_only_the_newest_fact_of_a_chain_can_be_corrected(memory: Memory) -> None:
    old = await _sarah(memory)
    new = (await memory.correct(old, "Sarah works at Mistral", OWNER))["id"]
    with pytest.raises(UsageError, match="was replaced already") as refused:
        await memory.correct(old, "Sarah works at Google", OWNER)
    assert new in refused.value.hint
    with pytest.raises(UsageError, match="says the same"):
        await memory.correct(new, "Sarah works at Mistral", OWNER)
    with pytest.raises(MissingError, match="Unknown fact"):
        await memory.correct("fact_none", "Anything", OWNER)


async def test_a_fact_is_known_by_the_end_of_its_id(memory: Memory, ledgers: Ledgers) -> None:
    old = await _sarah(memory)
    new = (await memory.correct(shorten_id(old), "Sarah works at Mistral", OWNER))["id"]
    assert (await memory.decide(shorten_id(new).lower(), "pin", OWNER)).is_pinned
    target = await forgetting.find(ledgers, forgetting.fact, wanted=shorten_id(new))
    assert target.value == new
    (change,) = await fact_views.load_changes(ledgers)
    assert change.replaced_by is not None
    assert (change.id, change.replaced_by.fact) == (old, "Sarah works at Mistral")
    for too_little in (new[-3:], "______", ""):
        with pytest.raises(MissingError, match="Unknown fact"):
            await memory.decide(too_little, "pin", OWNER)
    other = NewFact(id=f"fact_other{shorten_id(new)}", fact="Sarah likes tea")
    await ledgers.memory.write(append_facts, [other])
    with pytest.raises(UsageError, match="several facts") as refused:
        await memory.decide(shorten_id(new), "pin", OWNER)
    assert new in refused.value.hint


async def test_only_the_owner_decides(memory: Memory) -> None:
    fact = await _sarah(memory)
    for kind in ("writer", "automation", "client", "unknown"):
        other = Provenance(actor="somebody", kind=kind)
        with pytest.raises(UsageError, match="can't decide about facts"):
            await memory.decide(fact, "reject", other)
        with pytest.raises(UsageError, match="can't decide about facts"):
            await memory.correct(fact, "Sarah is rich", other)


async def test_a_rejected_fact_is_not_recalled_until_that_is_taken_back(
    memory: Memory, ledgers: Ledgers
) -> None:
    fact = await _sarah(memory)
    assert await _recalled(ledgers, "Where does Sarah work?") == ["Sarah works at Anthropic"]
    await memory.decide(fact, "reject", OWNER, reason="never said so")
    assert await _recalled(ledgers, "Where does Sarah work?") == []
    (shown,) = await fact_views.load_newest(ledgers)
    assert shown.state.verdict == "reject", "it stays in the log"
    await memory.decide(fact, "reopen", OWNER)
    assert await _recalled(ledgers, "Where does Sarah work?") == ["Sarah works at Anthropic"]
    log = await ledgers.memory.read(sql.rows, "SELECT decision, actor, reason FROM fact_reviews ORDER BY seq")
    assert log == [("reject", "person:mona", "never said so"), ("reopen", "person:mona", None)]


async def test_what_a_rejected_fact_replaced_holds_again(memory: Memory, ledgers: Ledgers) -> None:
    old = await _sarah(memory)
    new = (await memory.run("fact", {"about": "sarah", "fact": "Sarah retired", "replaces": [old]}, OWNER))[
        "id"
    ]
    assert old in await ledgers.memory.read(successors, [old])
    await memory.decide(new, "reject", OWNER)
    assert await ledgers.memory.read(successors, [old]) == {}
    await memory.decide(new, "reopen", OWNER)
    assert (await ledgers.memory.read(successors, [old]))[old].id == new


async def test_rejecting_the_middle_of_a_chain_leaves_the_first_replaced_by_the_last(
    memory: Memory, ledgers: Ledgers
) -> None:
    first = await _sarah(memory)
    middle = (await memory.correct(first, "Sarah works at Mistral", OWNER))["id"]
    last = (await memory.correct(middle, "Sarah retired", OWNER))["id"]
    await memory.decide(middle, "reject", OWNER)
    assert (await ledgers.memory.read(successors, [first]))[first].id == last


async def test_a_decision_that_stands_already_is_not_recorded_again(memory: Memory, ledgers: Ledgers) -> None:
    fact = await _sarah(memory)
    for decision in ("pin", "pin", "accept", "accept", "unpin", "unpin"):
        await memory.decide(fact, decision, OWNER)  # type: ignore[arg-type]
    log = await ledgers.memory.read(sql.rows, "SELECT decision FROM fact_reviews ORDER BY seq")
    assert [row[0] for row in log] == ["pin", "accept", "unpin"]


async def test_the_inbox_holds_what_nobody_has_decided_about(memory: Memory, ledgers: Ledgers) -> None:
    first = await _sarah(memory)
    second = (await memory.run("fact", {"about": "sarah", "fact": "Sarah likes tea"}, WRITER))["id"]
    await memory.add({"about": "sarah", "fact": "Sarah is my sister"}, OWNER)
    since = "2000-01-01T00:00:00.000Z"
    found = await fact_views.load_to_review(ledgers, since=since)
    assert [each.id for each in found.items] == [second, first], "what the owner wrote needs no review"
    await memory.decide(second, "accept", OWNER)
    await memory.decide(first, "reject", OWNER)
    assert (await fact_views.load_to_review(ledgers, since=since)).items == ()
    rejected = await fact_views.load_to_review(ledgers, since=since, status="rejected")
    assert [each.id for each in rejected.items] == [first]
    assert await fact_views.count_waiting(ledgers, since=since) == 0
    await memory.decide(first, "reopen", OWNER)
    assert await fact_views.count_waiting(ledgers, since=since) == 1


async def test_a_pin_goes_over_to_the_correction(memory: Memory, ledgers: Ledgers) -> None:
    old = await _sarah(memory)
    await memory.decide(old, "pin", OWNER)
    new = (await memory.correct(old, "Sarah works at Mistral", OWNER))["id"]
    assert (await ledgers.memory.read(reviews.states, [new]))[new].is_pinned
    about, free = await ledgers.memory.read(reviews.pinned_about, ["sarah"])
    assert (about, free) == ([new], []), "the old one was replaced"


async def test_the_owners_profile_follows_decisions(memory: Memory, ledgers: Ledgers) -> None:
    seen = Seen(channel="cli", identifier="owner", display_name="Mona", is_owner=True)
    owner = (await ledgers.identity.write(senders.resolve, seen)).entity_id
    plain = (await memory.run("fact", {"about": owner, "fact": "Mona once saw a comet"}, WRITER))["id"]
    allergy = (await memory.run("fact", {"about": owner, "fact": "Mona is allergic to nuts"}, WRITER))["id"]
    profile = OwnerProfile(ledgers)
    assert "nuts" in await profile.text()
    assert "comet" not in await profile.text()
    await memory.decide(plain, "pin", OWNER)
    await memory.decide(allergy, "reject", OWNER)
    assert await OwnerProfile(ledgers).text() == "Name: Mona\n- Mona once saw a comet"


async def test_a_fact_is_forgotten_with_its_decisions_and_conclusions(
    memory: Memory, ledgers: Ledgers
) -> None:
    fact = await _sarah(memory)
    kept = (await memory.run("fact", {"about": "sarah", "fact": "Sarah likes tea"}, WRITER))["id"]
    await memory.decide(fact, "pin", OWNER)
    target = await forgetting.find(ledgers, forgetting.fact, wanted=fact)
    plan = await forgetting.preview(ledgers, target)
    assert plan.removed == {"memory.facts": 1, "memory.fact_reviews": 1}
    report = await forgetting.forget(ledgers, target, actor="owner")
    assert report is not None
    assert [each.id for each in await fact_views.load_newest(ledgers)] == [kept]
    data = (ledgers.home.data / "memory.db").read_bytes()
    assert b"Anthropic" not in data
    with pytest.raises(MissingError, match="Unknown fact"):
        await forgetting.find(ledgers, forgetting.fact, wanted=fact)


async def test_both_are_true_takes_a_replacement_back(memory: Memory, ledgers: Ledgers) -> None:
    old = await _sarah(memory)
    new = (await memory.correct(old, "Sarah works at Mistral", OWNER, how="corrected"))["id"]
    assert (await ledgers.memory.read(successors, [old]))[old].how == "corrected"
    assert await memory.keep_both(old, None, OWNER) == {"id": old, "distinct_from": new}
    assert await ledgers.memory.read(successors, [old]) == {}
    with pytest.raises(UsageError, match="Nothing replaced"):
        await memory.keep_both(old, None, OWNER)


async def test_a_writers_claim_is_no_statement(memory: Memory, ledgers: Ledgers) -> None:
    old = await _sarah(memory)
    await memory.run("fact", {"about": "sarah", "fact": "Sarah keeps bees", "replaces": [old]}, WRITER)
    assert await ledgers.memory.read(successors, [old]) == {}, "the judge decides"
    with pytest.raises(UsageError, match="`how` is"):
        await memory.run("fact", {"fact": "Sarah keeps bees", "replaces": [old], "how": "so"}, OWNER)


async def test_what_somebody_writes_by_hand_says_who_where_and_when(memory: Memory, ledgers: Ledgers) -> None:
    old = await _sarah(memory)
    at_terminal = Provenance(actor="person:mona", kind="owner", channel="cli")
    on_dashboard = Provenance(actor="person:dashboard", kind="owner", channel="dashboard")
    new = (await memory.correct(old, "Sarah works at Mistral", at_terminal))["id"]
    added = (await memory.add({"about": "sarah", "fact": "Sarah likes tea"}, on_dashboard))["id"]
    sails = {"about": "sarah", "fact": "Sarah sails", "event": "evt_1"}
    learned = (await memory.run("fact", sails, at_terminal))["id"]
    told = {each.id: describe_fact(each) for each in await fact_views.load_log(ledgers, "sarah")}
    for id_, by, channel in ((new, "mona", "cli"), (added, "owner", "dashboard")):
        said = told[id_]["said"]
        assert (said["sender"], said["channel"], said["at"]) == (by, channel, told[id_]["created_at"])
        fact = (await fact_views.get(ledgers, id_)).fact
        assert fact.written is not None
        assert (fact.written.by, fact.written.channel, fact.is_written) == (by, channel, True)
    assert (await fact_views.get(ledgers, learned)).fact.written is None
    assert told[old]["said"] is None


async def test_both_are_true_outlasts_a_rejection_taken_back(memory: Memory, ledgers: Ledgers) -> None:
    old = await _sarah(memory)
    new = (await memory.correct(old, "Sarah works at Mistral", OWNER))["id"]
    await memory.keep_both(old, None, OWNER)
    await memory.decide(new, "reject", OWNER)
    await memory.decide(new, "reopen", OWNER)
    assert await ledgers.memory.read(successors, [old]) == {}


async def test_both_are_true_outlasts_the_rejection_of_what_came_between(
    memory: Memory, ledgers: Ledgers
) -> None:
    first = await _sarah(memory)
    middle = (await memory.correct(first, "Sarah works at Mistral", OWNER))["id"]
    last = (await memory.correct(middle, "Sarah teaches", OWNER))["id"]
    await memory.keep_both(first, last, OWNER)
    await memory.decide(middle, "reject", OWNER)
    assert await ledgers.memory.read(successors, [first]) == {}


async def test_only_the_owner_says_that_both_are_true(memory: Memory) -> None:
    first = await _sarah(memory)
    second = await _sarah(memory, "Sarah teaches")
    link = {"cause": first, "effect": second, "relation": " distinct"}
    for kind in ("writer", "client", "unknown"):
        with pytest.raises(UsageError, match="both true"):
            await memory.run("causal-link", link, Provenance(actor="somebody", kind=kind))  # type: ignore[arg-type]
    await memory.run("causal-link", link, OWNER)


async def test_each_fact_of_a_chain_says_what_holds_now_and_until_when_it_held(
    memory: Memory, ledgers: Ledgers
) -> None:
    first = await _sarah(memory, as_of="2026-01-01")
    texts = {"2026-03-01": "Sarah works at Mistral", "2026-06-01": "Sarah retired"}
    chain = [first]
    for at, text in texts.items():
        given = {"about": "sarah", "fact": text, "as_of": at, "replaces": [chain[-1]]}
        chain.append((await memory.run("fact", given, OWNER))["id"])
    found = await ledgers.memory.read(successors, chain)
    assert {old: (by.id, by.note) for old, by in found.items()} == {
        chain[0]: (chain[2], "until 2026-03-01; now: Sarah retired"),
        chain[1]: (chain[2], "until 2026-06-01; now: Sarah retired"),
    }
    answer = await Recall(ledgers, None).find(
        Query(text="Where does Sarah work?", kinds=frozenset({"fact"}), deadline_ms=20_000)
    )
    by = next(match.item.replaced_by for match in answer.results if match.item.id == first)
    assert by is not None
    assert (by.id, by.next_id, by.note) == (chain[2], chain[1], "until 2026-03-01; now: Sarah retired")
