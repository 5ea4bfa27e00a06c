"""Every month in every language, as people write dates and ask for them."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from nexus.memory.languages import dates, speech
from nexus.memory.languages.lexicon import lexicon
from nexus.memory.recall import ranker

NOW = datetime(2026, 11, 19, 10, tzinfo=UTC)
WRITTEN = {
    "en": ("17 {month}{year}", "{month} 17{comma}", "the 17th of {month}{year}", "on {month} 17th{comma}"),
    "de": ("am 17. {month}{year}", "17. {month}{year}", "17 {month}{year}"),
    "es": ("el 17 de {month}{of}", "17 {month}{year}"),
    "fr": ("le 17 {month}{year}",),
    "pt": ("dia 17 de {month}{of}", "17 {month}{year}"),
    "it": ("il 17 {month}{year}",),
}
ASKED = ("en", "de", "es", "fr", "pt")
NAMED = [(code, n, name) for code in WRITTEN for n, name in enumerate(dates.list_month_names(code), 1)]


def write(form: str, month: str, year: int | None) -> str:
    parts = {"year": f" {year}", "comma": f", {year}", "of": f" de {year}"} if year else {}
    return form.format(month=month, **({"year": "", "comma": "", "of": ""} | parts))


@pytest.mark.parametrize(("code", "number", "name"), NAMED)
def test_a_written_day_is_read_in_every_month(code: str, number: int, name: str) -> None:
    for form, year, month in product(WRITTEN[code], (None, 2024), (name, name.capitalize(), name.upper())):
        text = write(form, month, year)
        found = dates.find_moments(text, [code])
        assert [(each.year, each.month, each.day) for each in found] == [(year, number, 17)], text
        assert text[found[0].start : found[0].end].casefold().count(name) == 1


@pytest.mark.parametrize(("code", "number", "name"), [each for each in NAMED if each[0] in ASKED])
def test_a_question_asks_for_a_day_of_every_month(code: str, number: int, name: str) -> None:
    for form, year, month in product(WRITTEN[code], (None, 2024), (name, name.capitalize())):
        window = dates.find_window(write(form, month, year), NOW, code)
        # Without a year: the last such day, today included.
        past = datetime(
            year or (2026 if (number, 17) <= (NOW.month, NOW.day) else 2025), number, 17, tzinfo=UTC
        )
        assert window == (past, past + timedelta(days=1)), write(form, month, year)


def test_every_language_that_dates_has_all_months_and_weekdays() -> None:
    for code in speech.list_languages():
        calendar = lexicon(code).calendar
        assert (len(calendar.months), len(calendar.weekdays)) == (12, 7), code


@pytest.mark.parametrize(
    ("text", "today", "day"),
    [
        ("29 February", "2026-11-19", "2024-02-29"),
        ("29 February", "2024-02-28", "2020-02-29"),
        ("February 29, 2020", "2026-11-19", "2020-02-29"),
        ("31 December", "2026-01-01", "2025-12-31"),
        ("1 January", "2026-01-01", "2026-01-01"),
        ("last Friday", "2026-11-20", "2026-11-13"),
        ("last Friday", "2026-11-19", "2026-11-13"),
        ("yesterday", "2024-03-01", "2024-02-29"),
        ("yesterday", "2026-01-01", "2025-12-31"),
    ],
)
def test_a_question_means_the_last_such_day(text: str, today: str, day: str) -> None:
    wanted = datetime.fromisoformat(day).replace(tzinfo=UTC)
    window = dates.find_window(f"What happened {text}?", datetime.fromisoformat(today).replace(tzinfo=UTC))

    assert window == (wanted, wanted + timedelta(days=1))


@pytest.mark.parametrize("text", ["30 February", "31 June 2024", "29 February 2023", "day 31.11.2024"])
def test_a_day_that_no_year_has_is_none(text: str) -> None:
    assert not [each for each in dates.find_moments(text, ["en"]) if each.day and each.month]
    assert dates.find_window(text, NOW) is None


@pytest.mark.parametrize("text", ["Her temperature was 31.6.", "He is due on 31 April.", "El 30 de febrero."])
def test_what_only_looks_like_a_day_is_not_over(text: str) -> None:
    assert not ranker.is_past(text, "2026-11-01T00:00:00.000Z", NOW.date())
