"""What can go wrong with a model, as steps of a script and as faults inside an answer.

A step that replaces the answer: `HttpError` (also by the short names `rate_limited`, `overloaded`,
`server_error`, `unauthorized`, `out_of_quota`) and `Silence`. A fault inside an answer, given to
`Turn(faults=…)`: `Stall`, `Hold`, `Cut`, `BrokenEvent`, `ErrorEvent` and `Drip`. Faults combine;
`after_deltas` says how many pieces of content are sent first.
"""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from email.utils import format_datetime
from typing import Literal

from nexus.clock import Clock

POLL_S = 0.002


class Gate:
    """One gate. It stays open once it was opened."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self.waiting = 0
        """How many answers wait here now."""

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    def open(self) -> None:
        """Let every answer pass, now and later."""
        self._opened.set()

    async def wait_open(self) -> None:
        """Wait here; called in the server's loop, while `open` may be called in any thread."""
        self.waiting += 1
        try:
            while not self._opened.is_set():  # noqa: ASYNC110 - it is opened by another thread
                await asyncio.sleep(POLL_S)
        finally:
            self.waiting -= 1


class Gates:
    """Gates by name, made when they are first named."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gates: dict[str, Gate] = {}

    def get(self, name: str) -> Gate:
        with self._lock:
            return self._gates.setdefault(name, Gate())

    def all(self) -> dict[str, Gate]:
        with self._lock:
            return dict(self._gates)

    def clear(self) -> None:
        """Open and forget all gates."""
        for gate in self.all().values():
            gate.open()
        with self._lock:
            self._gates.clear()


Kind = Literal[
    "invalid_request",
    "authentication",
    "quota",
    "permission",
    "not_found",
    "too_large",
    "rate_limit",
    "server",
    "overloaded",
    "timeout",
    "unscripted",
]


@dataclass(frozen=True, kw_only=True)
class RetryAfter:
    """When to come back, as one of the three headers that providers send."""

    ms: int
    form: Literal["seconds", "date", "milliseconds"] = "seconds"

    def headers(self, clock: Clock) -> dict[str, str]:
        """The header; a date has whole seconds, so it is rounded up."""
        if self.form == "milliseconds":
            return {"retry-after-ms": str(self.ms)}
        if self.form == "seconds":
            return {"retry-after": f"{self.ms / 1000:g}"}
        moment = clock() + timedelta(milliseconds=self.ms + 999)
        return {"retry-after": format_datetime(moment.replace(microsecond=0), usegmt=True)}


@dataclass(frozen=True)
class HttpError:
    """An answer with an error status and the provider's error body, or with any `body` at all."""

    kind: Kind
    _: KW_ONLY
    message: str = ""
    status: int | None = None
    """Instead of the status that the wire format has for this kind."""
    retry_after: RetryAfter | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: str | None = None
    """Sent as it is, as HTML: what a proxy in between would answer."""
    delay_ms: int = 0


@dataclass(frozen=True)
class Silence:
    """No answer at all: the connection is held for that long and then closed."""

    hold_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Stall:
    """The answer pauses. Without streaming, it pauses in the middle of its body."""

    ms: int
    after_deltas: int = 0


@dataclass(frozen=True, kw_only=True)
class Hold:
    """The answer pauses until the test opens the gate of that name: `server.gate(name).open()`."""

    gate: str
    after_deltas: int = 0


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The connection is closed in the middle of an event, or of the body."""

    after_deltas: int = 1


@dataclass(frozen=True, kw_only=True)
class BrokenEvent:
    """One event of the stream, or the whole body, is not JSON."""

    after_deltas: int = 1


@dataclass(frozen=True, kw_only=True)
class ErrorEvent:
    """The stream ends with an error event. Without streaming, the error is the answer."""

    kind: Kind = "overloaded"
    message: str = ""
    after_deltas: int = 1


@dataclass(frozen=True, kw_only=True)
class Drip:
    """Every byte arrives, but a few at a time: events and characters are torn between packets."""

    delay_ms: int = 5
    piece_bytes: int = 16


Fault = Stall | Hold | Cut | BrokenEvent | ErrorEvent | Drip


def rate_limited(
    retry_after_ms: int | None = None, form: Literal["seconds", "date", "milliseconds"] = "seconds"
) -> HttpError:
    """429, with the time to come back in the given form."""
    after = None if retry_after_ms is None else RetryAfter(ms=retry_after_ms, form=form)
    return HttpError("rate_limit", retry_after=after)


def overloaded(retry_after_ms: int | None = None) -> HttpError:
    """529 in the Anthropic format, 503 in the OpenAI format."""
    return HttpError("overloaded", retry_after=RetryAfter(ms=retry_after_ms) if retry_after_ms else None)


def server_error() -> HttpError:
    """500."""
    return HttpError("server")


def unauthorized() -> HttpError:
    """401, as for a key that was revoked."""
    return HttpError("authentication")


def out_of_quota() -> HttpError:
    """No money left: 402 in the Anthropic format, 429 with `insufficient_quota` in the OpenAI format."""
    return HttpError("quota")


def context_exceeded() -> HttpError:
    """400, worded so that clients recognise a prompt that does not fit."""
    return HttpError("invalid_request", message="prompt is too long: the context window is exceeded")
