"""Recall over a real home, with a small embedder that needs no weights."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import apsw
import pytest

from nexus.ledgers import Ledgers, events, memory
from nexus.memory.embedding import Vectors, embed_new
from nexus.memory.recall.item import Query
from nexus.memory.recall.recall import Recall
from unit.memory.recall.homes import LONG_MS, NOW, WordHashes

TALK = {
    "garden": [
        ("Ann", "We planted tomatoes and basil in the garden today."),
        ("Bob", "Which vegetable grows best there?"),
        ("Ann", "Zucchini, by far!"),
        ("Bob", "Good to know."),
    ],
    "music": [
        ("Bob", "I started cello lessons with Mrs Keller."),
        ("Ann", "How often do you practise?"),
        ("Bob", "Every Tuesday and Friday."),
    ],
}


async def filled(opened: Ledgers) -> tuple[Recall, dict[str, str]]:
    ids: dict[str, str] = {}
    for day, name in enumerate(TALK):
        moment = datetime(2026, 5 + day, 3, tzinfo=UTC)

        def work(connection: apsw.Connection, name: str = name, moment: datetime = moment) -> list[str]:
            thread_id = events.ensure_thread(connection, channel="test", external_id=name)
            return events.append(
                connection,
                [
                    events.NewEvent(
                        channel="test",
                        content=text,
                        sender=speaker,
                        thread_id=thread_id,
                        occurred_at=moment + timedelta(minutes=i),
                    )
                    for i, (speaker, text) in enumerate(TALK[name])
                ],
            )

        made = await opened.events.write(work)
        ids |= {TALK[name][i][1]: id_ for i, id_ in enumerate(made)}
    vectors = Vectors(opened.embeddings, WordHashes())
    await embed_new(opened, vectors)
    return Recall(opened, vectors, now=lambda: NOW), ids


async def test_the_turn_that_says_it_comes_first(opened: Ledgers) -> None:
    recall, ids = await filled(opened)
    answer = await recall.find(Query(deadline_ms=LONG_MS, text="Who teaches Bob the cello?"))
    assert answer.results[0].item.id == ids["I started cello lessons with Mrs Keller."]
    reasons = answer.results[0].reasons
    assert "keyword_events" in reasons.arms
    assert "cello" in reasons.matched_words
    assert reasons.source_event_id == answer.results[0].item.id
    assert reasons.age_days > 100


async def test_an_answer_without_the_words_is_found_beside_its_question(opened: Ledgers) -> None:
    recall, ids = await filled(opened)
    answer = await recall.find(Query(deadline_ms=LONG_MS, text="Which vegetable grows best?"))
    assert ids["Zucchini, by far!"] in [result.item.id for result in answer.results[:3]]


async def test_nothing_outside_the_scope_is_returned(opened: Ledgers) -> None:
    recall, _ = await filled(opened)
    none = await recall.find(Query(deadline_ms=LONG_MS, text="cello lessons", thread_ids=frozenset()))
    assert none.results == ()
    other = await recall.find(Query(deadline_ms=LONG_MS, text="cello lessons", channel="elsewhere"))
    assert other.results == ()


async def test_a_scope_of_threads_shuts_out_facts_that_may_rest_on_others(opened: Ledgers) -> None:
    recall, ids = await filled(opened)
    fact = memory.NewFact(fact="Bob has cello lessons with Mrs Keller")
    await opened.memory.write(memory.append_facts, [fact])
    event_id = ids["I started cello lessons with Mrs Keller."]
    found = await opened.events.read(events.get, event_id)
    assert found is not None
    assert found.thread_id is not None
    answer = await recall.find(
        Query(deadline_ms=LONG_MS, text="cello lessons", thread_ids=frozenset({found.thread_id}))
    )
    assert {result.item.kind for result in answer.results} == {"event"}
    assert {result.item.thread_id for result in answer.results} == {found.thread_id}


async def test_neighbours_from_outside_the_time_are_not_answers(opened: Ledgers) -> None:
    recall, _ = await filled(opened)
    before = datetime(2026, 5, 3, 0, 2, tzinfo=UTC)
    answer = await recall.find(
        Query(deadline_ms=LONG_MS, text="Which vegetable grows best?", time_before=before)
    )
    assert answer.results
    assert all(result.item.at < "2026-05-03T00:02" for result in answer.results)


async def test_the_best_thread_holds_the_answer(opened: Ledgers) -> None:
    recall, _ = await filled(opened)
    query = Query(deadline_ms=LONG_MS, text="cello practise")
    assert not (await recall.find(query)).threads
    answer = await recall.find(replace(query, rank_threads=True))
    assert answer.threads[0][0] == answer.results[0].item.thread_id


async def test_facts_are_found_beside_events(opened: Ledgers) -> None:
    recall, _ = await filled(opened)
    (fact_id,) = await opened.memory.write(
        memory.append_facts, [memory.NewFact(fact="Bob plays the cello since 2025")]
    )
    answer = await recall.find(Query(deadline_ms=LONG_MS, text="Since when does Bob play the cello?"))
    assert fact_id in [result.item.id for result in answer.results]


@pytest.mark.parametrize("budget", ["low", "mid", "high"])
async def test_every_budget_answers(opened: Ledgers, budget: str) -> None:
    recall, _ = await filled(opened)
    answer = await recall.find(Query(deadline_ms=LONG_MS, text="tomatoes", budget=budget))  # type: ignore[arg-type]
    assert answer.results


async def test_it_works_by_words_alone(opened: Ledgers) -> None:
    _, ids = await filled(opened)
    answer = await Recall(opened, None, now=lambda: NOW).find(
        Query(deadline_ms=LONG_MS, text="tomatoes and basil")
    )
    assert answer.results[0].item.id == ids["We planted tomatoes and basil in the garden today."]


async def test_embedding_twice_is_embedding_once(opened: Ledgers) -> None:
    await filled(opened)
    again = await embed_new(opened, Vectors(opened.embeddings, WordHashes()))
    assert again == 0


@pytest.mark.parametrize("budget", ["low", "mid", "high"])
async def test_whoever_asks_gets_the_best_marked_weak_if_they_hardly_answer(
    opened: Ledgers, budget: str
) -> None:
    recall, _ = await filled(opened)
    for text in ("What is the capital of Mongolia?", "quarterly tax filing deadline"):
        answer = await recall.find(Query(deadline_ms=LONG_MS, text=text, budget=budget))  # type: ignore[arg-type]
        assert answer.results
        assert {result.strength for result in answer.results} == {"weak"}


async def test_an_empty_home_answers_with_nothing(opened: Ledgers) -> None:
    recall = Recall(opened, Vectors(opened.embeddings, WordHashes()), now=lambda: NOW)
    assert (await recall.find(Query(deadline_ms=LONG_MS, text="anything at all?"))).results == ()
