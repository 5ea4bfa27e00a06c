"""Times in words: what they mean, seen from a Monday at ten in Berlin, and what is refused."""

from datetime import UTC, datetime

import pytest

from nexus.automations import reminders, when
from nexus.automations.when import TimeError

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("said", "at", "rest"),
    [
        ("in two hours call Anna", "Monday 2026-11-16 12:00", "call Anna"),
        ("in half an hour stretch", "Monday 2026-11-16 10:30", "stretch"),
        ("in 1h30m stretch", "Monday 2026-11-16 11:30", "stretch"),
        ("in 20 seconds stretch", "Monday 2026-11-16 10:00:20", "stretch"),
        ("in two weeks look", "Monday 2026-11-30 10:00", "look"),
        ("in 3 days at 7 look", "Thursday 2026-11-19 07:00", "look"),
        ("call Anna tomorrow at 9", "Tuesday 2026-11-17 09:00", "call Anna"),
        ("tomorrow call Anna at 9", "Tuesday 2026-11-17 09:00", "call Anna"),
        ("tomorrow call Anna", "Tuesday 2026-11-17 09:00", "call Anna"),
        ("tomorrow evening at 8 call", "Tuesday 2026-11-17 20:00", "call"),
        ("tonight at 8 call", "Monday 2026-11-16 20:00", "call"),
        ("at 9 call", "Tuesday 2026-11-17 09:00", "call"),
        ("at 9pm call", "Monday 2026-11-16 21:00", "call"),
        ("at noon eat", "Monday 2026-11-16 12:00", "eat"),
        ("on Friday at 17:30 leave", "Friday 2026-11-20 17:30", "leave"),
        ("on December 1 at 8 pay", "Tuesday 2026-12-01 08:00", "pay"),
        ("the 3rd of March at 10am see Jo", "Wednesday 2027-03-03 10:00", "see Jo"),
        ("next Sat at 8 pay", "Saturday 2026-11-21 08:00", "pay"),
        ("next Tuesday pay", "Tuesday 2026-11-24 09:00", "pay"),
        ("this Tuesday pay", "Tuesday 2026-11-17 09:00", "pay"),
        ("on Monday pay", "Monday 2026-11-23 09:00", "pay"),
        ("this Monday at 11 pay", "Monday 2026-11-16 11:00", "pay"),
        ("on 29 February pay", "Tuesday 2028-02-29 09:00", "pay"),
        ("next month pay", "Wednesday 2026-12-16 09:00", "pay"),
        ("in 1 year, 2 months and 3 days pay", "Wednesday 2028-01-19 10:00", "pay"),
        ("2 hours from now pay", "Monday 2026-11-16 12:00", "pay"),
        ("1.12. at 10 pay", "Tuesday 2026-12-01 10:00", "pay"),
        ("2026-12-01 08:00 pay", "Tuesday 2026-12-01 08:00", "pay"),
        ("2026-12-01T08:00Z pay", "Tuesday 2026-12-01 09:00", "pay"),
        ("sun cream at 11", "Monday 2026-11-16 11:00", "sun cream"),
        ("what is due today at 11", "Monday 2026-11-16 11:00", "what is due"),
    ],
)
def test_a_moment_is_found_in_words(said: str, at: str, rest: str) -> None:
    found = when.find(said, NOW, BERLIN)
    assert (when.describe(found.when.triggers), found.rest) == (f"{at} {BERLIN}", rest)


@pytest.mark.parametrize(
    ("said", "cron", "described", "rest"),
    [
        ("every Monday at 9 tell me what is open", "0 9 * * 1", "every Monday at 09:00", None),
        ("tell me every Monday at 9 what is open", "0 9 * * 1", "every Monday at 09:00", None),
        ("every morning tell me what is due today", "0 9 * * *", "every day at 09:00", "what is due today"),
        ("every evening at 8 x", "0 20 * * *", "every day at 20:00", "x"),
        ("every weekday at 8:15 x", "15 8 * * 1-5", "every weekday at 08:15", "x"),
        ("on Mondays and Thursdays at 18 x", "0 18 * * 1,4", "every Monday and Thursday at 18:00", "x"),
        ("every Sunday at noon x", "0 12 * * 0", "every Sunday at 12:00", "x"),
        ("on the 15th of every month x", "0 9 15 * *", "on day 15 of every month at 09:00", "x"),
        (
            "on the last day of the month at 17 x",
            "0 17 L * *",
            "on the last day of every month at 17:00",
            "x",
        ),
        ("every year on December 24 at 18 x", "0 18 24 12 *", "every year on December 24 at 18:00", "x"),
        ("every 5th at 8 x", "0 8 5 * *", "on day 5 of every month at 08:00", "x"),
        (
            "on the 31st of every month x",
            "0 9 31 * *",
            "on day 31 of every month that has one at 09:00",
            "x",
        ),
        ("every 15 minutes x", "*/15 * * * *", "every 15 minutes", "x"),
        ("every 6 hours x", "0 */6 * * *", "every 6 hours at minute 0", "x"),
    ],
)
def test_a_repetition_is_found_in_words(said: str, cron: str, described: str, rest: str | None) -> None:
    found = when.find(said, NOW, BERLIN)
    assert found.when.triggers == {"cron": cron, "zone": BERLIN}
    assert when.describe(found.when.triggers) == f"{described} {BERLIN}"
    assert found.rest.endswith(rest or "what is open")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("tell me what is open", "No time found in 'tell me what is open'"),
        ("may I go", "No time found in 'may I go'"),
        ("today at 5 x", "Monday 2026-11-16 05:00 Europe/Berlin has passed"),
        ("every two weeks on Monday at 9 x", "Nexus can't repeat that: 'every two weeks x'"),
        ("every other day at 9 x", "Nexus can't repeat that: 'every other day x'"),
        ("every day at 24:00 x", "24:00 is not a time of day"),
        ("at 25:00 x", "25:00 is not a time of day"),
        ("every February 30 x", "Invalid date: 'every february 30'"),
        ("yesterday at 9 x", "Sunday 2026-11-15 09:00 Europe/Berlin has passed"),
        ("every 5 seconds x", "Nexus can't repeat that: 'every 5 seconds x'"),
        (
            "every 7 minutes x",
            "Nexus can't repeat something every 7 minutes: an hour doesn't divide evenly by 7",
        ),
        ("at 9 Mars/Olympus x", "`Mars/Olympus` is not a time zone"),
    ],
)
def test_words_whose_time_would_be_guessed_are_refused(said: str, told: str) -> None:
    with pytest.raises(TimeError) as refused:
        when.find(said, NOW, BERLIN)
    assert refused.value.message == told


def test_hours_pass_and_days_keep_their_time_over_a_change_of_the_clocks() -> None:
    """In the night to 2026-10-25 Berlin's clocks go back from three to two."""
    evening = datetime(2026, 10, 24, 20, 0, tzinfo=UTC)  # 22:00 on the wall
    hours = when.read("in 12 hours", evening, BERLIN)
    days = when.read("in 1 day", evening, BERLIN)
    assert hours.at == datetime(2026, 10, 25, 8, 0, tzinfo=UTC)
    assert when.describe(days.triggers) == "Sunday 2026-10-25 22:00 Europe/Berlin"


@pytest.mark.parametrize(
    ("words", "text", "asks"),
    [
        ("in two hours call Anna", "call Anna", False),
        ("me in two hours to call Anna", "call Anna", False),
        ("me to call Anna in two hours", "call Anna", False),
        ("in two hours: call Anna", "call Anna", False),
        ("every Monday at 9 tell me what is open", "tell me what is open", True),
        ("every Monday at 9 to tell me off", "tell me off", False),
        ("at 18:00 what did I promise today?", "what did I promise today?", True),
        ("tomorrow check the oven", "check the oven", False),
        ("remind me to call Anna tomorrow", "call Anna", False),
        ("tomorrow please remind me to call Anna", "call Anna", False),
        ("every morning tell me what happened yesterday", "tell me what happened yesterday", True),
    ],
)
def test_a_draft_tells_what_is_said_from_what_is_asked(words: str, text: str, asks: bool) -> None:
    made = reminders.read_draft(words, NOW, BERLIN)
    assert (made.text, made.asks) == (text, asks)


@pytest.mark.parametrize("said", ["on 30 February", "2026-13-01", "in 99999 years", "32 November"])
def test_a_day_that_does_not_exist_is_refused(said: str) -> None:
    with pytest.raises(when.TimeError):
        when.read(said, NOW, BERLIN)
