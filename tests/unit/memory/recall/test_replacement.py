"""Recall shows what replaced a fact, and dates conclusions by their evidence."""

from datetime import UTC, datetime
from itertools import pairwise

from nexus import ids
from nexus.ledgers import Ledgers, memory
from nexus.memory.embedding import Vectors, embed_new
from nexus.memory.operations import Memory
from nexus.memory.recall.item import Link, Query, Sighting
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.search import Arm
from nexus.memory.succession import derive
from nexus.memory.views import facts as fact_views
from nexus.memory.writing import Provenance
from nexus.request import Visibility
from unit.memory.recall.homes import ANN, LONG_MS, NOW, WordHashes, know_people, learn, run, say

OLD = "Ann's dentist is Dr Moser in the Rosengasse"
NEW = "Ann's dentist is now Dr Frick in the Bahnhofstrasse"
# One says what was, one says something else, and one tells of the change.
EPISODES = {
    "epi_1": "Ann sees Dr Moser in the Rosengasse.",
    "epi_2": "Ann complains about the tomatoes.",
    "epi_3": "Ann now goes from Dr Moser in the Rosengasse to Dr Frick in the Bahnhofstrasse.",
}


def fact(text: str, month: int, event: str | None = None) -> memory.NewFact:
    return memory.NewFact(
        id=ids.new("fact"),
        fact=text,
        source_entity_id=ANN,
        as_of=datetime(2026, month, 1, tzinfo=UTC),
        source_event_id=event,
    )


async def ready(opened: Ledgers, visible: Visibility | None = None) -> Recall:
    vectors = Vectors(opened.embeddings, WordHashes())
    await embed_new(opened, vectors)
    await derive(opened, vectors)
    return Recall(opened, vectors, now=lambda: NOW, visible=visible or Visibility())


async def test_the_successor_comes_first_though_only_the_replaced_fact_fits_the_words(
    opened: Ledgers,
) -> None:
    await know_people(opened)
    old, new = await learn(opened, fact(OLD, 1), fact(NEW, 6))
    recall = await ready(opened)
    query = Query(text="Is Dr Moser in the Rosengasse my dentist?", deadline_ms=LONG_MS)
    found = {result.item.id: result.item for result in (await recall.find(query)).results}
    assert [id_ for id_ in found if id_ in (old, new)] == [new, old]
    by = found[old].replaced_by
    assert by is not None
    assert (by.id, by.text, by.at[:10]) == (new, NEW, "2026-06-01")
    assert found[old].stale_since == by.at
    assert found[new].replaced_by is None


async def replace_facts(opened: Ledgers, *pairs: tuple[str, str]) -> None:
    rows = ", ".join(f"('{old}', '{new}', 1.0, 'stated')" for old, new in pairs)
    await run(
        opened,
        "memory",
        f"INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis) VALUES {rows}",
    )


async def test_a_successor_ranks_like_the_best_sighting_of_what_it_replaced(opened: Ledgers) -> None:
    old, new = await learn(opened, fact(OLD, 1), fact(NEW, 6))
    await replace_facts(opened, (old, new))

    def see(arm: str, rank: int) -> Arm:
        return lambda _: [Sighting(arm=arm, kind="fact", id=old, rank=rank, score=1.0)]

    recall = Recall(opened, None, now=lambda: NOW, arms={"first": see("first", 1), "last": see("last", 40)})
    gathered = await recall.gather(Query(text="dentist", deadline_ms=LONG_MS))
    assert [(each.arm, each.rank) for each in gathered.sightings[new]] == [("succession", 1)]
    (_, result) = (await recall.find(Query(text="dentist", deadline_ms=LONG_MS))).results
    assert list(result.reasons.arms.items()) == [("first", (1, 1.0)), ("last", (40, 1.0))]


async def test_what_holds_now_is_found_however_many_replacements_there_are(opened: Ledgers) -> None:
    olds = await learn(opened, *(fact(f"The cello stands in room {n}", 1) for n in range(40)))
    between = await learn(opened, *(fact(f"It went to Ann, round {n}", 2) for n in range(80)))
    ends = await learn(opened, *(fact(f"It went to Bob, round {n}", 3) for n in range(40)))
    chains = zip(olds, between[:40], between[40:], ends, strict=True)
    await replace_facts(opened, *(pair for chain in chains for pair in pairwise(chain)))
    recall = Recall(opened, None, now=lambda: NOW)
    query = Query(text="Where does the cello stand?", budget="low", deadline_ms=LONG_MS)
    sightings = (await recall.gather(query)).sightings
    assert set(olds) <= sightings.keys()
    assert set(ends) <= sightings.keys()


async def test_a_successor_is_not_told_to_who_may_not_see_it(opened: Ledgers) -> None:
    await know_people(opened)
    (shared,) = await say(opened, "one", ("Ann", "My dentist is Dr Moser."), channel="shared")
    (private,) = await say(opened, "two", ("Ann", "My dentist is now Dr Frick."), channel="private")
    old, new = await learn(opened, fact(OLD, 1, shared), fact(NEW, 6, private))
    query = Query(text="Who is Ann's dentist?", deadline_ms=LONG_MS)
    seen = await (await ready(opened, Visibility(channels=frozenset({"shared"})))).find(query)
    items = {result.item.id: result.item for result in seen.results}
    assert new not in items
    assert items[old].replaced_by is None
    everything = await (await ready(opened)).find(query)
    assert next(r.item for r in everything.results if r.item.id == old).replaced_by is not None


async def test_a_chain_ends_with_what_may_be_seen(opened: Ledgers) -> None:
    await know_people(opened)
    shared = await say(opened, "one", ("Ann", "My dentist."), ("Ann", "My next one."), channel="shared")
    (private,) = await say(opened, "two", ("Ann", "My dentist is now Dr Lutz."), channel="private")
    last = "Ann's dentist is now Dr Lutz"
    old, new, _ = chain = await learn(
        opened, fact(OLD, 1, shared[0]), fact(NEW, 6, shared[1]), fact(last, 8, private)
    )
    await replace_facts(opened, *pairwise(chain))
    query = Query(text="Who is Ann's dentist?", deadline_ms=LONG_MS)
    guest = Recall(opened, None, now=lambda: NOW, visible=Visibility(channels=frozenset({"shared"})))
    seen = {result.item.id: result.item for result in (await guest.find(query)).results}
    by = seen[old].replaced_by
    assert [id_ for id_ in seen if id_ in (old, new)] == [new, old]
    assert by is not None
    assert (by.id, by.text, by.next_id) == (new, NEW, None)
    assert seen[new].replaced_by is None


async def test_a_later_replacement_neither_cancels_nor_dates_what_the_first_one_did(opened: Ledgers) -> None:
    await know_people(opened)
    said = await say(opened, "one", ("Ann", f"{OLD}."))
    last = "Ann's dentist is now Dr Lutz"
    chain = await learn(opened, fact(OLD, 1, said[0]), fact("Ann has no dentist", 6), fact(last, 8))
    await replace_facts(opened, *pairwise(chain))
    await run(
        opened,
        "memory",
        f"UPDATE fact_successions SET how = 'cancelled' WHERE old_fact_id = '{chain[0]}'",
        "INSERT INTO episodes (id, channel, start_time, end_time, summary) VALUES ('epi_1', 'cli',"
        f" '2026-01-01T09:00:00.000Z', '2026-01-01T10:00:00.000Z', '{EPISODES['epi_1']}')",
        f"INSERT INTO episode_events VALUES ('epi_1', '{said[0]}', 0)",
    )
    recall = Recall(opened, None, now=lambda: NOW)
    first, second, episode = await recall.load_items([*chain[:2], "epi_1"], deadline_ms=LONG_MS)
    assert first.note == f"cancelled on 2026-06-01; now: {last}"
    assert second.note == f"until 2026-08-01; now: {last}"
    assert episode.note == f"out of date since 2026-06-01; now: {last}"


async def test_the_timeline_and_the_list_of_facts_show_what_replaced_a_fact(opened: Ledgers) -> None:
    await know_people(opened)
    old, new = await learn(opened, fact(OLD, 1), fact(NEW, 6))
    await ready(opened)
    for listed in (await fact_views.load_log(opened, "Ann Keller"), await fact_views.load_newest(opened)):
        replaced = {each.id: each.replaced_by for each in listed}
        assert replaced[new] is None
        successor = replaced[old]
        assert successor is not None
        assert (successor.id, successor.basis) == (new, "judged")


async def test_a_writer_may_state_what_a_fact_replaces(opened: Ledgers) -> None:
    await know_people(opened)
    (old,) = await learn(opened, fact("Ann likes tea", 1))
    given = {"fact": "Ann has taken to coffee", "about": "Ann Keller", "replaces": [old]}
    made = await Memory(opened).run("fact", given, Provenance(actor="test"))
    assert await opened.memory.read(memory.successors, [old]) == {
        old: memory.Successor(
            id=made["id"],
            fact="Ann has taken to coffee",
            at=(await fact_views.load_newest(opened))[-1].at,
            confidence=1.0,
            basis="stated",
        )
    }


async def test_a_conclusion_is_as_old_as_its_newest_evidence(opened: Ledgers) -> None:
    await know_people(opened)
    early, late = await learn(opened, fact("Ann grows zucchini", 2), fact("Ann grows basil", 4))
    await run(
        opened,
        "memory",
        "INSERT INTO analysis_runs (id, type_id, subject_entity_id, content, created_at)"
        f" VALUES ('obs_1', 'observation', '{ANN}', 'Ann grows vegetables', '2026-10-01T00:00:00.000Z')",
        f"INSERT INTO observation_facts VALUES ('obs_1', '{early}'), ('obs_1', '{late}')",
        "INSERT INTO mental_models (id, name, subject_entity_id, content, created_at)"
        f" VALUES ('mod_1', 'Ann', '{ANN}', 'Ann is a gardener', '2026-10-02T00:00:00.000Z')",
        "INSERT INTO mental_model_sources VALUES ('mod_1', 'observation', 'obs_1')",
    )
    recall = await ready(opened)
    known = await recall.load_items(["obs_1", "mod_1"], deadline_ms=LONG_MS)
    assert [item.at[:10] for item in known] == ["2026-04-01", "2026-04-01"]
    before = Query(
        text="What does Ann grow?",
        deadline_ms=LONG_MS,
        time_before=datetime(2026, 5, 1, tzinfo=UTC),
    )
    assert "obs_1" in {result.item.id for result in (await recall.find(before)).results}


async def test_what_rests_on_a_replaced_fact_comes_with_the_fact_that_it_does_not_know(
    opened: Ledgers,
) -> None:
    await know_people(opened)
    said = await say(opened, "one", ("Ann", f"{OLD}."), ("Ann", "The frost took our tomatoes."))
    old, new = await learn(opened, fact(OLD, 1, said[0]), fact(NEW, 6))
    await run(
        opened,
        "memory",
        "INSERT INTO analysis_runs (id, type_id, subject_entity_id, content)"
        f" VALUES ('obs_1', 'observation', '{ANN}', 'Ann sees Dr Moser')",
        f"INSERT INTO observation_facts VALUES ('obs_1', '{old}')",
        "INSERT INTO mental_models (id, name, subject_entity_id, content)"
        f" VALUES ('mod_1', 'Ann', '{ANN}', 'Teeth')",
        "INSERT INTO mental_model_sources VALUES ('mod_1', 'observation', 'obs_1')",
        *(
            f"INSERT INTO episodes (id, channel, start_time, end_time, summary) VALUES ('{id_}', 'cli',"
            f" '2026-01-01T09:00:00.000Z', '2026-01-01T10:00:00.000Z', '{summary}')"
            for id_, summary in EPISODES.items()
        ),
        *(f"INSERT INTO episode_events VALUES ('{id_}', '{each}', 0)" for id_ in EPISODES for each in said),
    )
    ids_ = ["obs_1", "mod_1", *EPISODES]
    known = await (await ready(opened)).load_items(ids_, deadline_ms=LONG_MS)
    newer = Link(new, NEW, "newer")
    assert [item.outdated_by for item in known] == [newer, newer, newer, None, None]
    assert known[2].note == f"out of date since 2026-06-01; now: {NEW}"
