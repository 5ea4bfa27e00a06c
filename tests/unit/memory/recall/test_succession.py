"""Replaced facts in the order of an answer."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from nexus.memory.recall.item import Item, Kind, Replacement
from nexus.memory.recall.order import Ranked, place_successors

AT = "2026-01-01T00:00:00.000Z"


def ranked(
    *names: str,
    links: dict[str, str],
    said_in: dict[str, str] | None = None,
    texts: dict[str, str] | None = None,
    corrected: str = "",
    cancelled: str = "",
    judged: str = "",
) -> list[Ranked]:
    """Items in this order; those whose names begin with `evt` are messages."""
    said_in = said_in or {}

    def item(name: str) -> Item:
        by = links.get(name)
        kind: Kind = "event" if name.startswith("evt") else "fact"
        how = "corrected" if name in corrected else "cancelled" if name in cancelled else "changed"
        basis = "judged" if name in judged else "stated"
        replaced_by = Replacement(id=by, text=by, at=AT, how=how, basis=basis) if by else None
        return Item(
            kind=kind,
            id=name,
            text=(texts or {}).get(name, name),
            at=AT,
            replaced_by=replaced_by,
            source_event_id=said_in.get(name),
        )

    return [
        Ranked(item=item(name), score=10.0 - place, probability=1 - place / 10)
        for place, name in enumerate(names)
    ]


def ids(entries: list[Ranked]) -> list[str]:
    return [entry.item.id for entry in entries]


CHAIN = {"A": "B", "B": "C"}


@pytest.mark.parametrize(
    ("given", "links", "wanted"),
    [
        ("A X B", {"A": "B"}, "B A X"),
        ("X B Y A", {"A": "B"}, "X B Y A"),
        ("A X Y", {"A": "gone"}, "A X Y"),
        ("A X B Y C", CHAIN, "C X B A Y"),
        ("B A C", CHAIN, "C B A"),
        ("A C X", CHAIN, "C A X"),
        ("A X D B", {"A": "D", "B": "D"}, "D A X B"),
    ],
)
def test_a_replaced_fact_never_ranks_above_its_successor(
    given: str, links: dict[str, str], wanted: str
) -> None:
    entries = ranked(*given.split(), links=links)
    if given == "A C X":
        # The one between them was not found: what leads on from it still counts.
        entries = ranked(*given.split(), links={"A": "C"})
    assert ids(place_successors(entries)) == wanted.split()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("C X B Y A", "B C X Y A"), ("A X C B", "A X C B"), ("C A B", "A C B"), ("X C", "X C")],
)
def test_asked_about_the_past_a_replaced_fact_comes_first(given: str, wanted: str) -> None:
    assert ids(place_successors(ranked(*given.split(), links=CHAIN), asks_past=True)) == wanted.split()


LONG_CHAIN = {"A": "B", "B": "C", "C": "D"}
HOMES = {
    "A": "Clara lives in Aarhus",
    "B": "Clara lives in Lund",
    "C": "Clara lives in Rotterdam",
    "D": "Clara lives in Ghent",
}


@pytest.mark.parametrize(
    ("before", "wanted"),
    [("lund", "A D C B"), ("rotterdam", "B D C A"), ("ghent", "C D B A"), ("", "C D B A")],
)
def test_asked_what_was_before_something_the_one_that_it_replaced_comes_first(
    before: str, wanted: str
) -> None:
    entries = ranked("D", "C", "B", "A", links=LONG_CHAIN, texts=HOMES)
    named = frozenset({before}) if before else frozenset[str]()
    assert ids(place_successors(entries, asks_past=True, followed_by=named)) == wanted.split()


def test_what_was_never_true_or_only_judged_is_not_how_things_were() -> None:
    assert ids(place_successors(ranked("C", "A", "B", links=CHAIN, corrected="A"), asks_past=True)) == [
        "B",
        "C",
        "A",
    ]
    assert ids(place_successors(ranked("C", "B", "A", links=CHAIN, judged="B"), asks_past=True)) == [
        "A",
        "C",
        "B",
    ]


def test_asked_about_the_past_what_was_called_off_comes_before_the_cancellation() -> None:
    texts = {"A": "The party is at the barn", "B": "The barn is off", "C": "The party is at the hall"}
    entries = ranked("C", "B", "A", links=CHAIN, texts=texts, cancelled="A")
    assert ids(place_successors(entries, asks_past=True, followed_by=frozenset({"hall"}))) == ["A", "C", "B"]


@pytest.mark.parametrize(("given", "wanted"), [("C X B Y A", "A C X B Y"), ("B C A", "A B C")])
def test_asked_what_was_first_the_oldest_comes_first(given: str, wanted: str) -> None:
    months = {"A": 1, "B": 2, "C": 3}
    entries = [
        replace(entry, item=replace(entry.item, at=f"2025-0{months.get(entry.item.id, 9)}-01T00:00:00.000Z"))
        for entry in ranked(*given.split(), links=CHAIN)
    ]
    assert ids(place_successors(entries, asks_past=True, asks_first=True)) == wanted.split()


def test_asked_about_a_time_before_the_change_the_old_value_comes_first() -> None:
    old, new = ranked("B", "A", links={"A": "B"})
    old, new = new, replace(old, item=replace(old.item, at="2025-06-01T00:00:00.000Z"))
    entries = [new, replace(old, item=replace(old.item, at="2025-01-01T00:00:00.000Z"))]
    march, july = (datetime(2025, month, 31, tzinfo=UTC) for month in (3, 7))
    assert ids(place_successors(entries, until=march)) == ["A", "B"]
    assert ids(place_successors(entries, until=july)) == ["B", "A"]


def test_a_successor_counts_as_much_as_what_it_passes_and_says_so() -> None:
    first, second, _ = place_successors(ranked("A", "X", "B", links={"A": "B"}))
    assert (first.item.id, first.score, first.probability) == ("B", 10.0, 1.0)
    assert (first.replaces, first.precedes, first.factors) == ("A", None, {"moved": 2.0})
    assert second.item.id == "A"
    assert (second.replaces, second.precedes, second.factors) == (None, None, {})


@pytest.mark.parametrize(
    ("given", "asks_past", "wanted"),
    [("A X B", False, "B A"), ("B X A", False, "B A"), ("B X A", True, "A"), ("A B C", False, "C B A")],
)
def test_whoever_needs_what_was_replaced_needs_its_successor(
    given: str, asks_past: bool, wanted: str
) -> None:
    entries = [replace(each, need=float(each.item.id == "A")) for each in ranked(*given.split(), links=CHAIN)]
    placed = place_successors(entries, asks_past=asks_past)
    assert [entry.item.id for entry in placed if entry.need] == wanted.split()


def test_what_moves_down_says_so() -> None:
    *_, last = place_successors(ranked("A", "X", "B", "C", links=CHAIN))
    assert (last.item.id, last.score, last.factors) == ("A", 8.0, {"moved": -2.0})


@pytest.mark.parametrize(
    ("given", "replaces", "precedes"), [("C B", None, "C"), ("A B C", "A", None), ("B C", None, None)]
)
def test_what_takes_a_place_because_it_was_before_says_so(
    given: str, replaces: str | None, precedes: str | None
) -> None:
    texts = {"A": "Ghent", "B": "Lund", "C": "Rotterdam"}
    entries = ranked(*given.split(), links=CHAIN, texts=texts)
    first, *_ = place_successors(entries, asks_past=True, followed_by=frozenset({"rotterdam"}))
    assert (first.item.id, first.replaces, first.precedes) == ("B", replaces, precedes)


def _strong(entries: list[Ranked], *names: str) -> list[Ranked]:
    return [replace(entry, strong=entry.item.id in names) for entry in entries]


@pytest.mark.parametrize(
    ("given", "strong", "wanted"),
    [
        ("A X B", "A", "B A"),
        ("B X A", "A", "B A"),
        ("B X A", "B", "B"),
        ("A B C", "A", "C B A"),
        ("A X B", "X", "X"),
    ],
)
def test_the_weak_successor_of_a_strong_fact_is_strong(given: str, strong: str, wanted: str) -> None:
    placed = place_successors(_strong(ranked(*given.split(), links=CHAIN), *strong.split()))
    assert [entry.item.id for entry in placed if entry.strong] == wanted.split()


@pytest.mark.parametrize("given", ["B X A", "A X B"])
def test_asked_about_the_past_the_weak_predecessor_of_a_strong_fact_is_strong(given: str) -> None:
    entries = _strong(ranked(*given.split(), links={"A": "B"}), "B")
    placed = place_successors(entries, asks_past=True)
    assert [entry.item.id for entry in placed if entry.strong] == ["A", "B"]


def test_a_statement_of_two_facts_each_replacing_the_other_ends() -> None:
    assert sorted(ids(place_successors(ranked("A", "B", links={"A": "B", "B": "A"})))) == ["A", "B"]


def test_a_message_with_the_replaced_fact_follows_the_one_with_its_successor() -> None:
    said_in = {"A": "evt_1", "B": "evt_2", "Z": "evt_1"}
    entries = ranked("evt_1", "A", "evt_2", "B", "Z", links={"A": "B"}, said_in=said_in)
    assert ids(place_successors(entries)) == ["evt_2", "evt_1", "B", "A", "Z"]


def test_a_message_keeps_its_place_if_another_of_its_facts_fits_better() -> None:
    said_in = {"A": "evt_1", "B": "evt_2", "Z": "evt_1"}
    entries = ranked("evt_1", "Z", "evt_2", "B", "A", links={"A": "B"}, said_in=said_in)
    assert ids(place_successors(entries)) == ["evt_1", "Z", "evt_2", "B", "A"]
