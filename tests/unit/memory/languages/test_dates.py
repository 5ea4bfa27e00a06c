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


THURSDAY = date(2026, 11, 19)
HALF_A_YEAR_AGO = (date(2026, 2, 19), date(2026, 8, 20))
IN_HALF_A_YEAR = (date(2027, 2, 18), date(2027, 8, 19))
YEAR_AND_A_HALF_AGO = (date(2025, 2, 18), date(2025, 8, 19))
TOMORROW = (date(2026, 11, 20), date(2026, 11, 20))
FRIDAY_AFTER = (date(2026, 11, 27), date(2026, 11, 27))


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "half a year ago", HALF_A_YEAR_AGO),
        ("en", "in half a year", IN_HALF_A_YEAR),
        ("en", "a year and a half ago", YEAR_AND_A_HALF_AGO),
        ("en", "one and a half years ago", YEAR_AND_A_HALF_AGO),
        ("de", "vor einem halben Jahr", HALF_A_YEAR_AGO),
        ("de", "in einem halben Jahr", IN_HALF_A_YEAR),
        ("de", "vor anderthalb Jahren", YEAR_AND_A_HALF_AGO),
        ("es", "hace medio año", HALF_A_YEAR_AGO),
        ("es", "dentro de medio año", IN_HALF_A_YEAR),
        ("es", "hace un año y medio", YEAR_AND_A_HALF_AGO),
        ("fr", "il y a une demi-année", HALF_A_YEAR_AGO),
        ("fr", "il y a un an et demi", YEAR_AND_A_HALF_AGO),
        ("it", "mezzo anno fa", HALF_A_YEAR_AGO),
        ("it", "tra mezzo anno", IN_HALF_A_YEAR),
        ("it", "un anno e mezzo fa", YEAR_AND_A_HALF_AGO),
        ("pt", "há meio ano", HALF_A_YEAR_AGO),
        ("pt", "daqui a meio ano", IN_HALF_A_YEAR),
        ("pt", "há um ano e meio", YEAR_AND_A_HALF_AGO),
        ("ja", "半年前", HALF_A_YEAR_AGO),
        ("ja", "半年後", IN_HALF_A_YEAR),
        ("ja", "1年半前", YEAR_AND_A_HALF_AGO),
        # Nobody says "next Friday" on a Thursday and means tomorrow.
        ("en", "next Friday", FRIDAY_AFTER),
        ("en", "this coming Friday", TOMORROW),
        ("de", "nächsten Freitag", FRIDAY_AFTER),
        ("de", "kommenden Freitag", TOMORROW),
        ("es", "el próximo viernes", FRIDAY_AFTER),
        ("es", "el viernes que viene", FRIDAY_AFTER),
        ("fr", "vendredi prochain", FRIDAY_AFTER),
        ("it", "venerdì prossimo", FRIDAY_AFTER),
        ("pt", "próxima sexta-feira", FRIDAY_AFTER),
        ("ja", "次の金曜日", FRIDAY_AFTER),
        ("en", "Friday", TOMORROW),
    ],
)
def test_halves_and_the_next_weekday_are_read_in_every_language(
    language: str, text: str, expected: dates.Span
) -> None:
    assert [span for (span,), *_ in dates.find_relative(text, [THURSDAY], [language])] == [expected]
