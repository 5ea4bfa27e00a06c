"""Faults are worked into what is sent."""

import pytest

from nexus.testing import BrokenEvent, Cut, Drip, ErrorEvent, Hold, Pace, Stall, Turn
from nexus.testing.model_server.plan import Plan, Send, Wait, WaitForGate, body_plan, stream_plan
from nexus.testing.model_server.wire import Event

EVENTS = [
    Event(b"open\n\n"),
    Event(b"one \n\n", "delta", 3),
    Event(b"two \n\n", "delta", 3),
    Event(b"close\n\n", "close"),
    Event(b"end\n\n"),
]
SENDS = [Send(event.data, event.output_bytes) for event in EVENTS]


def _plan(turn: Turn) -> Plan:
    return stream_plan(EVENTS, turn, b"error\n\n")


def test_without_faults_the_events_are_sent_as_they_are() -> None:
    assert _plan(Turn()) == Plan(tuple(SENDS))


def test_the_pace_waits_between_pieces_of_content_alone() -> None:
    assert _plan(Turn(pace=Pace(between_ms=5))).actions == (*SENDS[:2], Wait(5), *SENDS[2:])


@pytest.mark.parametrize("after", [2, 3, 50])
def test_a_pause_comes_after_its_pieces_or_before_the_close(after: int) -> None:
    assert _plan(Turn(faults=[Stall(ms=7, after_deltas=after)])).actions == (
        *SENDS[:3],
        Wait(7),
        *SENDS[3:],
    )


def test_pauses_at_one_place_keep_their_order() -> None:
    faults = [Hold(gate="door", after_deltas=1), Stall(ms=7, after_deltas=1)]
    assert _plan(Turn(faults=faults)).actions == (*SENDS[:2], WaitForGate("door"), Wait(7), *SENDS[2:])


def test_a_cut_sends_half_of_the_next_event() -> None:
    assert _plan(Turn(faults=[Cut(after_deltas=1)])) == Plan((*SENDS[:2], Send(b"two")), "cut")


def test_an_error_event_is_the_last_one() -> None:
    assert _plan(Turn(faults=[ErrorEvent(after_deltas=0)])) == Plan((SENDS[0], Send(b"error\n\n")), "broken")


def test_a_broken_event_is_followed_by_the_others() -> None:
    plan = _plan(Turn(faults=[BrokenEvent(after_deltas=1)]))
    assert plan == Plan((*SENDS[:2], Send(b"two \n\n", 3), *SENDS[3:]), "broken")


def test_a_drip_sends_every_byte_and_counts_the_output_once() -> None:
    plan = _plan(Turn(faults=[Drip(delay_ms=1, piece_bytes=4)]))
    sends = [action for action in plan.actions if isinstance(action, Send)]
    assert b"".join(send.data for send in sends) == b"".join(event.data for event in EVENTS)
    assert max(len(send.data) for send in sends) == 4
    assert sum(send.output_bytes for send in sends) == 6


def test_a_body_is_broken_or_paused_in_its_middle() -> None:
    body = b"12345678"
    assert body_plan(body, Turn(), 9) == Plan((Send(body, 9),))
    assert body_plan(body, Turn(faults=[Stall(ms=7)]), 9) == Plan((Send(b"1234"), Wait(7), Send(b"5678", 9)))
    assert body_plan(body, Turn(faults=[Cut()]), 9) == Plan((Send(b"1234"),), "cut")
    assert body_plan(body, Turn(faults=[BrokenEvent()]), 9) == Plan((Send(b"1234", 9),), "broken")
