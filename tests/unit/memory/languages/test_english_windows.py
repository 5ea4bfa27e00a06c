"""Times in questions, relative to a fixed now."""

from datetime import UTC, datetime

import pytest

from nexus.memory.languages import dates

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)  # a Sunday


def days(text: str) -> tuple[str, str] | None:
    found = dates.find_window(text, NOW)
    return None if found is None else (found[0].date().isoformat(), found[1].date().isoformat())


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("What did we plan last spring?", "2026-03-01", "2026-06-01"),
        ("the trip last winter", "2025-12-01", "2026-03-01"),
        ("What happened in March?", "2026-03-01", "2026-04-01"),
        ("What happened in December?", "2025-12-01", "2026-01-01"),
        ("on 7 May 2023", "2023-05-07", "2023-05-08"),
        ("on May 7th, 2023", "2023-05-07", "2023-05-08"),
        ("in August 2023", "2023-08-01", "2023-09-01"),
        ("on 10 Sept 2025", "2025-09-10", "2025-09-11"),
        ("on 7. May 2023", "2023-05-07", "2023-05-08"),
        ("the day before yesterday", "2026-11-13", "2026-11-14"),
        ("thirteen days ago", "2026-11-01", "2026-11-04"),
        ("between May 2023 and July 2023", "2023-05-01", "2023-08-01"),
        ("from March to May", "2026-03-01", "2026-06-01"),
        ("since 2024-02-29", "2024-02-29", "2024-03-01"),
        ("in Q3 2025", "2025-07-01", "2025-10-01"),
        ("the second quarter of 2024", "2024-04-01", "2024-07-01"),
        ("in 2022", "2022-01-01", "2023-01-01"),
        ("what did she say yesterday", "2026-11-14", "2026-11-15"),
        ("last week", "2026-11-02", "2026-11-09"),
        ("last month", "2026-10-01", "2026-11-01"),
        ("last quarter", "2026-07-01", "2026-10-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("on Friday", "2026-11-13", "2026-11-14"),
        ("what size was she in march", "2026-03-01", "2026-04-01"),
    ],
)
def test_a_time_becomes_its_interval(text: str, start: str, end: str) -> None:
    assert days(text) == (start, end)


@pytest.mark.parametrize(
    "text",
    [
        "may I come in?",
        "they march on",
        "they had to march",
        "we",
        "summer is nice",
        "did he fall?",
        "31 February",
        "99 of 100",
        "",
    ],
)
def test_what_names_no_time_gives_none(text: str) -> None:
    assert days(text) is None


def test_ago_leaves_some_room() -> None:
    found = dates.find_window("two weeks ago", NOW)
    assert found is not None
    assert found[0] < datetime(2026, 11, 1, tzinfo=UTC) < found[1]
