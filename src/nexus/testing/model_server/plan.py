"""What is sent, in which order and with which pauses: an answer's events with its faults worked in."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from nexus.testing.model_server.failures import BrokenEvent, Cut, Drip, ErrorEvent, Fault, Hold, Stall
from nexus.testing.model_server.record import Outcome
from nexus.testing.model_server.request import ModelRequest
from nexus.testing.model_server.turn import Pace, Turn
from nexus.testing.model_server.wire import Event, RejectedError


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A kind of model. The default does all that is asked of it."""

    tools: Literal["native", "text", "none"] = "native"
    """`text`: calls are written into the answer. `none`: requests that offer tools are refused."""
    context_tokens: int | None = None
    """A longer prompt is refused, in llama.cpp's words."""
    slots: int | None = None
    """How many requests are answered at a time; further ones wait."""
    pace: Pace | None = None
    """How fast every answer comes."""
    streams: bool = True
    """Whether it streams; otherwise a request for a stream is refused."""
    schemas: bool = True
    """Whether it takes JSON schemas for answers; otherwise a request with one is refused."""

    @property
    def is_silent(self) -> bool:
        """Whether the server says nothing about itself."""
        return self.context_tokens is None and self.slots is None

    def admit(self, request: ModelRequest) -> None:
        """Refuse what this kind of model does not take."""
        if self.tools == "none" and request.tool_names:
            raise RejectedError(f"{request.model} does not support tools")
        if not self.streams and request.json.get("stream"):
            raise RejectedError("Streaming is not supported by this server")
        if not self.schemas and "response_format" in request.json:
            raise RejectedError("Unknown parameter: response_format")
        window, used = self.context_tokens, request.prompt.tokens
        if window is not None and used > window:
            raise RejectedError(
                f"request ({used} tokens) exceeds the available context size ({window} tokens)"
            )

    def shape(self, turn: Turn) -> Turn:
        """An answer as this kind of model gives it."""
        if self.pace is not None:
            turn = replace(turn, pace=self.pace)
        if self.tools == "native" or not turn.tool_calls:
            return turn
        calls = [
            json.dumps({"name": call.name, "arguments": json.loads(call.arguments_json)})
            for call in turn.tool_calls
        ]
        fenced = "\n".join(f"```json\n{call}\n```" for call in calls)
        text = "\n".join(filter(None, (turn.text, fenced)))
        return replace(turn, text=text, tool_calls=(), stop_reason="end_turn")

    def props(self) -> dict[str, Any]:
        """What llama.cpp's `/props` says about it."""
        settings = {"n_ctx": self.context_tokens} if self.context_tokens else {}
        return {"default_generation_settings": settings, "total_slots": self.slots or 8}


PROFILES: Final = {
    "cloud": Profile(),
    "no_tools": Profile(tools="none"),
    "text_calls": Profile(tools="text"),
    "small_window": Profile(context_tokens=4_096),
    "slow_slot": Profile(slots=1, pace=Pace(before_ms=150, between_ms=5)),
}
"""Five kinds that people have: a strong one in the cloud, and four on laptops."""


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
    pending = _sort_faults(turn.faults)
    deltas = 0
    for event in events:
        broken = False
        while pending and _is_due(pending[0], event, deltas):
            fault = pending.pop(0)
            if isinstance(fault, Stall | Hold):
                actions.append(_pause(fault))
            elif isinstance(fault, Cut):
                return Plan(_drip([*actions, Send(event.data[: len(event.data) // 2])], turn), "cut")
            elif isinstance(fault, ErrorEvent):
                return Plan(_drip([*actions, Send(error_event)], turn), "broken")
            else:
                broken, outcome = True, "broken"
        if event.role == "delta" and deltas and turn.pace.between_ms:
            actions.append(Wait(turn.pace.between_ms))
        actions.append(Send(_spoil(event.data) if broken else event.data, event.output_bytes))
        deltas += event.role == "delta"
    return Plan(_drip(actions, turn), outcome)


def body_plan(body: bytes, turn: Turn, output_bytes: int) -> Plan:
    """An answer without streaming: pauses and cuts happen in the middle of the body."""
    half = len(body) // 2
    faults = _sort_faults(turn.faults)
    pauses = [_pause(fault) for fault in faults if isinstance(fault, Stall | Hold)]
    if any(isinstance(fault, Cut) for fault in faults):
        return Plan(_drip([Send(body[:half]), *pauses], turn), "cut")
    if any(isinstance(fault, BrokenEvent) for fault in faults):
        return Plan(_drip([*pauses, Send(body[:half], output_bytes)], turn), "broken")
    if pauses:
        return Plan(_drip([Send(body[:half]), *pauses, Send(body[half:], output_bytes)], turn))
    return Plan(_drip([Send(body, output_bytes)], turn))


def _sort_faults(faults: Sequence[Fault]) -> list[Timed]:
    timed = [fault for fault in faults if not isinstance(fault, Drip)]
    return sorted(timed, key=lambda fault: fault.after_deltas)


def _is_due(fault: Timed, event: Event, deltas: int) -> bool:
    # A fault set for later than the last content still happens, before the stream is closed.
    return event.role == "close" or (event.role == "delta" and fault.after_deltas <= deltas)


def _pause(fault: Stall | Hold) -> Action:
    return Wait(fault.ms) if isinstance(fault, Stall) else WaitForGate(fault.gate)


def _spoil(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3] + b"\n\n"


def _drip(actions: list[Action], turn: Turn) -> tuple[Action, ...]:
    drip = next((fault for fault in turn.faults if isinstance(fault, Drip)), None)
    if drip is None:
        return tuple(actions)
    return tuple(part for action in actions for part in _split_action(action, drip))


def _split_action(action: Action, drip: Drip) -> Iterator[Action]:
    if not isinstance(action, Send):
        yield action
        return
    for start in range(0, len(action.data), drip.piece_bytes):
        if start:
            yield Wait(drip.delay_ms)
        last = start + drip.piece_bytes >= len(action.data)
        piece = action.data[start : start + drip.piece_bytes]
        yield Send(piece, action.output_bytes if last else 0)
