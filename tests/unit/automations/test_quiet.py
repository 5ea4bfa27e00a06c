"""Quiet hours, by the clock on the wall."""

from datetime import UTC, datetime

import pytest

from nexus.automations import when
from nexus.errors import ConfigError


@pytest.mark.parametrize(
    ("hours", "zone", "at", "held"),
    [
        ("22:00-07:00", "UTC", "2026-11-16T21:59", False),
        ("22:00-07:00", "UTC", "2026-11-16T22:00", True),
        ("22:00-07:00", "UTC", "2026-11-17T06:59", True),
        ("22:00-07:00", "UTC", "2026-11-17T07:00", False),
        ("13:00-14:30", "UTC", "2026-11-17T14:29", True),
        ("13:00-14:30", "UTC", "2026-11-17T14:30", False),
        ("22:00-07:00", "Europe/Berlin", "2026-11-16T21:00", True),
        ("22:00-07:00", "Europe/Berlin", "2026-07-16T05:30", False),
        (
            "2:00-3:00",
            "Europe/Berlin",
            "2026-03-29T01:30",
            False,
        ),  # It is 3:30 already.
    ],
)
def test_they_hold_between_two_times_of_day(hours: str, zone: str, at: str, held: bool) -> None:
    found = when.parse_hours(hours, zone)
    assert found is not None
    assert found.hold(datetime.fromisoformat(at).replace(tzinfo=UTC)) is held


@pytest.mark.parametrize("hours", ["22:00", "22-7", "25:00-07:00", "a-b", "22:00-07:00-08:00", "7:00-7:00"])
def test_what_are_no_hours_is_refused(hours: str) -> None:
    with pytest.raises(ConfigError, match="uiet hours"):
        when.parse_hours(hours, "UTC")


def test_a_zone_that_is_none_is_refused_and_no_hours_are_none() -> None:
    with pytest.raises(ConfigError, match="Mars/Base"):
        when.parse_hours("22:00-07:00", "Mars/Base")
    assert when.parse_hours(" ") is None
