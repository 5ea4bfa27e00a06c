"""What makes two entities a merge candidate, and what never does."""

import pytest

from nexus.memory.similarity import (
    THRESHOLD,
    by_context,
    by_identifier,
    by_meaning,
    by_name,
    score,
    tells_apart,
)


def likelihood(one: str, other: str) -> float:
    reason = by_name(one, other)
    return score([reason], "Person", "Person") if reason else 0.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sarah chen", "sarah chen"),
        ("sarah chen", "sara chen"),
        ("sarah chen", "chen, sarah"),
        ("jose garcia", "josé garcía"),
        ("jonathan miller", "johnathan miller"),
        ("anthropic", "antropic"),
        ("acme corporation", "acme corporatoin"),
    ],
)
def test_slips_of_the_pen_are_candidates(one: str, other: str) -> None:
    assert likelihood(one, other) >= THRESHOLD


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sarah chen", "sarah connor"),
        ("tyler", "taylor swift"),
        ("anna", "ben"),
        ("google", "goodyear"),
        ("project apollo", "project artemis"),
    ],
)
def test_other_names_are_not(one: str, other: str) -> None:
    assert likelihood(one, other) < THRESHOLD


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("room 101", "room 102"),
        ("v1", "v2"),
        ("nexus v1.2", "nexus v1.3"),
        ("python 3.11", "python 3.12"),
        ("phase ii", "phase iii"),
        ("phase two", "phase three"),
        ("first street", "second street"),
        ("plan a", "plan b"),
        ("room", "room 101"),
        ("invoice 2025-10-001", "invoice 2025-10-002"),
        ("gate ٣", "gate ٤"),
        ("boeing 737", "boeing 747"),
    ],
)
def test_names_that_differ_in_a_number_are_never_alike(one: str, other: str) -> None:
    assert tells_apart(one, other)
    assert by_name(one, other) is None


@pytest.mark.parametrize(
    ("one", "other"), [("room 101", "Room  101"), ("phase 2", "phase ii"), ("john f kennedy", "john kennedy")]
)
def test_numbers_that_are_written_differently_do_not_tell_apart(one: str, other: str) -> None:
    assert not tells_apart(one.lower(), other.lower())


def test_one_name_within_another_needs_a_second_sign() -> None:
    within, beside = by_name("sarah", "sarah chen"), by_context(["Anthropic", "Tyler"])
    assert within is not None
    assert beside is not None
    assert score([within], "Person", "Person") < THRESHOLD <= score([within, beside], "Person", "Person")


def test_a_shared_address_is_enough_and_a_vector_alone_is_not() -> None:
    address, meaning = by_identifier("email", "s@example.com"), by_meaning(0.99)
    assert address is not None
    assert meaning is not None
    assert score([address], "Person", "Person") >= THRESHOLD
    assert score([meaning], "Person", "Person") < THRESHOLD
    assert by_meaning(0.5) is None


def test_another_type_makes_it_less_likely_and_an_unknown_one_does_not() -> None:
    reason = by_name("mercury", "mercury")
    assert reason is not None
    assert score([reason], "Planet", "Person") < THRESHOLD
    assert score([reason], "Unknown", "Person") == score([reason], "person", "Person") >= THRESHOLD
