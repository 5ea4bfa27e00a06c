"""From an order to an answer: twins and the token budget."""

from dataclasses import replace

from nexus.memory.recall.item import Item, Replacement
from nexus.memory.recall.order import Chosen, Ranked, choose


def ranked(id_: str, text: str, score: float = 1.0) -> Ranked:
    item = Item(kind="event", id=id_, text=text, at="2026-01-01T00:00:00.000Z")
    return Ranked(item=item, score=score, probability=0.5)


def ids(chosen: list[Chosen]) -> list[str]:
    return [entry.ranked.item.id for entry in chosen]


def test_phrasings_of_one_thing_count_once() -> None:
    entries = [
        ranked("a", "Sarah moved to Denver in May"),
        ranked("b", "In May Sarah moved to Denver"),
        ranked("c", "Tom likes chess"),
    ]
    chosen = choose(entries, max_results=5, max_tokens=100)
    assert ids(chosen) == ["a", "c"]
    assert chosen[0].also == ("b",)


def test_texts_that_differ_in_a_number_are_two_things() -> None:
    entries = [ranked("a", "The meeting is in room 101"), ranked("b", "The meeting is in room 102")]
    assert ids(choose(entries, max_results=5, max_tokens=100)) == ["a", "b"]


def test_one_that_is_too_large_is_passed_over() -> None:
    entries = [ranked("large", "word " * 400), ranked("small", "a short note")]
    assert ids(choose(entries, max_results=5, max_tokens=50)) == ["small"]


def test_no_more_than_asked_for() -> None:
    entries = [ranked(str(i), f"thing number {i}") for i in range(9)]
    assert len(choose(entries, max_results=3, max_tokens=1000)) == 3


def test_the_same_words_again_count_once_and_texts_without_words_stay_apart() -> None:
    entries = [
        ranked("a", "Yes, that is so."),
        ranked("b", "…"),
        ranked("c", "That is so, yes"),
        ranked("d", "!"),
        ranked("e", "Yes, that is so."),
    ]
    chosen = choose(entries, max_results=5, max_tokens=100)
    assert ids(chosen) == ["a", "b", "d"]
    assert chosen[0].also == ("c", "e")


def test_a_fact_and_what_replaced_it_in_nearly_the_same_words_are_two_things() -> None:
    now = ranked("now", "Clara works as a nurse at the city hospital in Oslo")
    old = ranked("old", "Clara works as a nurse at the city hospital in Bergen")
    assert ids(choose([now, old], max_results=5, max_tokens=100)) == ["now"]
    by = Replacement(id="now", text=now.item.text, at=now.item.at)
    replaced = replace(old, item=replace(old.item, replaced_by=by))
    assert ids(choose([now, replaced], max_results=5, max_tokens=100)) == ["now", "old"]
