"""Dates in what people say, by when they say it: Sunday, 15 November 2026."""

from datetime import date

import pytest

from nexus.memory.languages import dates, speech

SAID_ON = date(2026, 11, 15)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 17 December 2026", (2026, 12, 17)),
        ("December 17", (None, 12, 17)),
        ("the seventeenth of December", (None, 12, 17)),
        ("it's the 17th now", (None, None, 17)),
        ("2026-12-17", (2026, 12, 17)),
        ("--05-04", (None, 5, 4)),
        ("Der Flug ist am 17. Dezember", (None, 12, 17)),
        ("am 17.12.2026", (2026, 12, 17)),
        ("el 17 de diciembre", (None, 12, 17)),
        ("le 17 décembre", (None, 12, 17)),
        ("no dia 17 de dezembro", (None, 12, 17)),
        ("12月17日です", (None, 12, 17)),
    ],
)
def test_a_written_date_is_read(text: str, expected: tuple[int | None, ...]) -> None:
    found = dates.find_moments(text, speech.languages(text))[0]

    assert (found.year, found.month, found.day) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hana arrives tomorrow", "Hana arrives tomorrow (2026-11-16)"),
        ("We meet next Friday at 8", "We meet next Friday (2026-11-20) at 8"),
        ("I met Erik on Friday", "I met Erik on Friday (2026-11-13)"),
        ("Yoga is every Friday", "Yoga is every Friday"),
        ("Hana kommt übermorgen", "Hana kommt übermorgen (2026-11-17)"),
        ("in two weeks we move", "in two weeks (2026-11-29) we move"),
        ("she started last month", "she started last month (2026-10-01 to 2026-10-31)"),
        ("mañana viene Ana", "mañana (2026-11-16) viene Ana"),
        ("The flight is on 17 December", "The flight is on 17 December"),
    ],
)
def test_a_day_that_means_something_only_today_gets_its_date(text: str, expected: str) -> None:
    assert dates.add_dates(text, SAID_ON) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Wir treffen uns morgen in der Hauptstraße",
            "Wir treffen uns morgen (2026-11-16) in der Hauptstraße",
        ),
        ("Übermorgen … vielleicht kommt Hana", "Übermorgen (2026-11-17) … vielleicht kommt Hana"),
        ("Hana zieht in dreißig Tagen um", "Hana zieht in dreißig Tagen (2026-12-15) um"),
        ("Hana zieht in dreissig Tagen um", "Hana zieht in dreissig Tagen (2026-12-15) um"),
    ],
)
def test_letters_that_become_two_in_small_ones_move_no_date(text: str, expected: str) -> None:
    assert dates.add_dates(text, SAID_ON) == expected


@pytest.mark.parametrize("text", ["am dreißigsten Mai", "am dreissigsten Mai"])
def test_a_day_with_a_sharp_s_is_read(text: str) -> None:
    assert [(each.month, each.day) for each in dates.find_moments(text, ["de"])] == [(5, 30)]
    assert "30" in speech.numbers(text, ("de",))


@pytest.mark.parametrize(
    ("cue", "text"),
    [
        ("naming", "Er heißt Max"),
        ("naming", "Er heisst Max"),
        ("asks", "Weißt du, wo er ist"),
        ("contrast", "alle außer Anna"),
    ],
)
def test_a_cue_with_a_sharp_s_is_heard(cue: str, text: str) -> None:
    assert speech.says(cue, text, ["de"])
