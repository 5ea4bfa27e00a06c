"""What makes a fact useful for a task: its addresses and numbers, and whether its day is over."""

from datetime import date

import pytest

from nexus.memory.recall import ranker

TODAY = date(2026, 11, 1)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Sarah's e-mail address is sarah.chen@company.example.", {"email"}),
        ("Sarah can be reached on +44 7700 900633.", {"phone"}),
        ("Alfons ist nur unter 07669 448123 zu erreichen.", {"phone"}),
        ("Clara lives in Rotterdam now, Havenstraat 18.", {"address"}),
        ("Peg lives at 818 W. Ironwood Lane, Tucson.", {"address"}),
        ("Lucía vive en la calle Murta 12.", {"address"}),
        ("Guests pay into the yard's account NL72 WADB 0330 1184 07.", {"account"}),
        ("The Otter has berth B7.", {"account"}),
        ("The party is on 13 June 2026.", set[str]()),
        ("The meeting on 2026-06-13 takes 45 minutes.", set[str]()),
        ("Tyler likes Italian food.", set[str]()),
    ],
)
def test_addresses_and_numbers_are_told_by_their_form(text: str, kinds: set[str]) -> None:
    assert ranker.identifiers(text) - {"phone"} == kinds - {"phone"}
    assert ("phone" in kinds) <= ("phone" in ranker.identifiers(text))


@pytest.mark.parametrize(
    ("text", "is_past"),
    [
        ("The twins' party is on 13 June 2026 at 3 pm.", True),
        ("De Zwaluw goes up on the crane on 10 March.", True),
        ("Das Konzert ist am 28. Juni 2026.", True),
        ("The wedding is on 8 May 2027.", False),
        ("From 24 April 2026 the choir rehearses on Thursdays.", False),
        ("Tyler's birthday is March 12.", False),
        ("Tyler likes Italian food.", False),
    ],
)
def test_a_day_that_is_over_is_past_unless_something_began_then(text: str, is_past: bool) -> None:
    assert ranker.is_past(text, "2026-02-01T09:00:00.000Z", TODAY) is is_past


def test_writing_calling_paying_and_sending_reach_somebody_and_cooking_does_not() -> None:
    for task in (
        "Write to Sarah about Friday",
        "Ruf Jens an",
        "Pay the garage",
        "Make a label for Peg's parcel",
    ):
        assert ranker.reaches_somebody(task), task
    assert not ranker.reaches_somebody("Cook dinner for Sarah")
