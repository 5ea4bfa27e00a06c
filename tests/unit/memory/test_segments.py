"""Conversations are cut at silences and at the token budget."""

import itertools
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from nexus.memory.episodes import is_named, name_group
from nexus.memory.grouping import Said, choose_closed, cut

START = datetime(2026, 2, 13, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


def said(minute: float, tokens: int = 10) -> Said:
    return Said(event_id=f"evt_{minute:09.3f}", at=START + timedelta(minutes=minute), tokens=tokens)


def minutes(segments: list[list[Said]]) -> list[list[float]]:
    return [[(event.at - START).total_seconds() / 60 for event in segment] for segment in segments]


def test_a_silence_ends_an_episode() -> None:
    events = [said(0), said(59), said(118), said(178), said(400)]

    assert minutes(cut(events, gap=HOUR, budget_tokens=1_000)) == [[0, 59, 118], [178], [400]]


def test_the_budget_ends_an_episode_and_one_large_event_stands_alone() -> None:
    events = [said(0, 60), said(1, 40), said(2, 1), said(3, 500), said(4, 1)]

    assert minutes(cut(events, gap=HOUR, budget_tokens=100)) == [[0, 1], [2], [3], [4]]


def test_events_are_taken_in_the_order_in_which_they_were_said() -> None:
    assert minutes(cut([said(5), said(0)], gap=HOUR, budget_tokens=100)) == [[0, 5]]


def test_a_conversation_that_goes_on_is_left_open() -> None:
    segments = cut([said(0), said(120)], gap=HOUR, budget_tokens=100)

    assert minutes(choose_closed(segments, gap=HOUR, now=START + timedelta(minutes=150))) == [[0]]
    assert minutes(choose_closed(segments, gap=HOUR, now=START + timedelta(minutes=180))) == [[0], [120]]


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 300)), unique_by=lambda each: each[0]))
def test_no_event_is_lost_and_no_segment_breaks_a_rule(events: list[tuple[int, int]]) -> None:
    given = [said(minute, tokens) for minute, tokens in events]

    segments = cut(given, gap=HOUR, budget_tokens=200)

    assert [event for segment in segments for event in segment] == sorted(given, key=lambda each: each.at)
    for segment in segments:
        assert len(segment) == 1 or sum(event.tokens for event in segment) <= 200
        assert all(b.at - a.at < HOUR for a, b in itertools.pairwise(segment))
    for before, after in itertools.pairwise(segments):
        silent = after[0].at - before[-1].at >= HOUR
        assert silent or sum(event.tokens for event in before) + after[0].tokens > 200


def test_two_are_never_a_group_three_when_they_recur_and_six_always() -> None:
    assert [is_named(members, 100) for members in (0, 1, 2)] == [False] * 3
    assert [is_named(3, times) for times in (1, 2, 3, 4)] == [False, False, True, True]
    assert [is_named(5, times) for times in (1, 2, 3)] == [False, False, True]
    assert [is_named(members, 1) for members in (6, 7, 50)] == [True] * 3


def test_a_group_without_a_name_is_called_by_its_members() -> None:
    assert name_group(["Ben", "Ada", "Cleo"]) == "Ada, Ben and Cleo"
    assert name_group([f"P{n}" for n in range(9)]) == "P0, P1 and 7 others"
    assert name_group(["Ada"]) == "Ada"
