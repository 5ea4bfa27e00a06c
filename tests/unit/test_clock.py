"""Time as the ledgers store it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from nexus import clock


def test_now_is_in_utc() -> None:
    before = datetime.now(UTC)
    moment = clock.now()
    assert before <= moment <= datetime.now(UTC)
    assert moment.utcoffset() == timedelta(0)


def test_a_timestamp_is_utc_text_with_milliseconds() -> None:
    moment = datetime(2026, 2, 13, 10, 0, 0, 7_999, tzinfo=UTC)
    assert clock.timestamp(moment) == "2026-02-13T10:00:00.007Z"


def test_a_moment_of_another_zone_is_stored_as_the_same_instant() -> None:
    tokyo = datetime(2026, 2, 13, 1, 30, tzinfo=timezone(timedelta(hours=9)))
    assert clock.timestamp(tokyo) == "2026-02-12T16:30:00.000Z"


def test_a_day_and_a_month_are_those_of_utc() -> None:
    tokyo = datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=9)))
    assert (clock.day(tokyo), clock.first_of_month(tokyo)) == ("2026-02-28", "2026-02-01")


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        clock.timestamp(datetime(2026, 2, 13))  # noqa: DTZ001  the refusal is what is tested


def test_timestamps_sort_as_the_moments_do() -> None:
    moments = [
        datetime(year, month, 1, 12, 0, 0, micro, tzinfo=UTC)
        for year in (1, 999, 1000, 1970, 2026, 9999)
        for month in (1, 9, 10, 12)
        for micro in (0, 1_000, 10_000, 999_000)
    ]
    written = [clock.timestamp(moment) for moment in moments]
    assert written == sorted(written)
    assert [clock.parse(text) for text in written] == moments


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-02-13T10:00:00.123Z", datetime(2026, 2, 13, 10, 0, 0, 123_000, tzinfo=UTC)),
        ("2026-02-13T12:00:00+02:00", datetime(2026, 2, 13, 10, tzinfo=UTC)),
        ("2026-02-13T10:00:00", datetime(2026, 2, 13, 10, tzinfo=UTC)),
        ("2026-02-13", datetime(2026, 2, 13, tzinfo=UTC)),
    ],
)
def test_any_iso_8601_text_can_be_read(text: str, moment: datetime) -> None:
    found = clock.parse(text)
    assert found == moment
    assert found.tzinfo is UTC


def test_text_that_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="last spring"):
        clock.parse("last spring")


def test_a_clock_that_starts_elsewhere_runs_on_and_only_goes_forward() -> None:
    past = datetime(2026, 1, 10, 9, tzinfo=UTC)
    with clock.starting_at(past) as reach:
        assert past <= clock.now() < past + timedelta(minutes=5)
        assert clock.is_shifted()
        reach(past + timedelta(days=1))
        reached = clock.now()
        assert past + timedelta(days=1) <= reached < past + timedelta(days=1, minutes=5)
        reach(past)
        assert clock.now() >= reached
    assert not clock.is_shifted()
    assert clock.now() > past + timedelta(days=2)
