"""What is sent, in which order and with which pauses: an answer's events with its faults worked in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nexus.testing.model_server.failures import BrokenEvent, Cut, Drip, ErrorEvent, Fault, Hold, Stall
from nexus.testing.model_server.record import Outcome
from nexus.testing.model_server.turn import Turn
from nexus.testing.model_server.wire import Event


@dataclass(frozen=True)
class Send:
    data: bytes
    output_bytes: int = 0


@dataclass(frozen=True)
class Wait:
    ms: int


@dataclass(frozen=True)
class WaitForGate:
    name: str


Action = Send | Wait | WaitForGate
Timed = Stall | Hold | Cut | BrokenEvent | ErrorEvent


@dataclass(frozen=True)
class Plan:
    """The actions of one answer and how it ends. A `cut` answer ends with the connection closed."""

    actions: tuple[Action, ...]
    outcome: Outcome = "complete"


def stream_plan(events: Sequence[Event], turn: Turn, error_event: bytes) -> Plan:
    """A stream. `error_event` is what an `ErrorEvent` fault sends."""
    actions: list[Action] = []
    outcome: Outcome = "complete"
    pending = _timed(turn.faults)
    deltas = 0
    for event in events:
        broken = False
        while pending and _is_due(pending[0], event, deltas):
            fault = pending.pop(0)
            if isinstance(fault, Stall | Hold):
                actions.append(_pause(fault))
            elif isinstance(fault, Cut):
                return Plan(_dripped([*actions, Send(event.data[: len(event.data) // 2])], turn), "cut")
            elif isinstance(fault, ErrorEvent):
                return Plan(_dripped([*actions, Send(error_event)], turn), "broken")
            else:
                broken, outcome = True, "broken"
        if event.role == "delta" and deltas and turn.pace.between_ms:
            actions.append(Wait(turn.pace.between_ms))
        actions.append(Send(_spoiled(event.data) if broken else event.data, event.output_bytes))
        deltas += event.role == "delta"
    return Plan(_dripped(actions, turn), outcome)


def body_plan(body: bytes, turn: Turn, output_bytes: int) -> Plan:
    """An answer without streaming: pauses and cuts happen in the middle of the body."""
    half = len(body) // 2
    faults = _timed(turn.faults)
    pauses = [_pause(fault) for fault in faults if isinstance(fault, Stall | Hold)]
    if any(isinstance(fault, Cut) for fault in faults):
        return Plan(_dripped([Send(body[:half]), *pauses], turn), "cut")
    if any(isinstance(fault, BrokenEvent) for fault in faults):
        return Plan(_dripped([*pauses, Send(body[:half], output_bytes)], turn), "broken")
    if pauses:
        return Plan(_dripped([Send(body[:half]), *pauses, Send(body[half:], output_bytes)], turn))
    return Plan(_dripped([Send(body, output_bytes)], turn))


def _timed(faults: Sequence[Fault]) -> list[Timed]:
    timed = [fault for fault in faults if not isinstance(fault, Drip)]
    return sorted(timed, key=lambda fault: fault.after_deltas)


def _is_due(fault: Timed, event: Event, deltas: int) -> bool:
    # A fault set for later than the last content still happens, before the stream is closed.
    return event.role == "close" or (event.role == "delta" and fault.after_deltas <= deltas)


def _pause(fault: Stall | Hold) -> Action:
    return Wait(fault.ms) if isinstance(fault, Stall) else WaitForGate(fault.gate)


def _spoiled(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3] + b"\n\n"


def _dripped(actions: list[Action], turn: Turn) -> tuple[Action, ...]:
    drip = next((fault for fault in turn.faults if isinstance(fault, Drip)), None)
    if drip is None:
        return tuple(actions)
    return tuple(part for action in actions for part in _drops(action, drip))


def _drops(action: Action, drip: Drip) -> Iterator[Action]:
    if not isinstance(action, Send):
        yield action
        return
    for start in range(0, len(action.data), drip.piece_bytes):
        if start:
            yield Wait(drip.delay_ms)
        last = start + drip.piece_bytes >= len(action.data)
        piece = action.data[start : start + drip.piece_bytes]
        yield Send(piece, action.output_bytes if last else 0)
