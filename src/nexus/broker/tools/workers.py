"""What a tool knows about the run that called it, and how it reaches workers without knowing the broker."""

from dataclasses import dataclass
from typing import Protocol

from nexus.request import Request


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a tool: on whose behalf, in which run, and its own key, which a repetition shares."""

    request: Request
    execution_id: str
    session_label: str
    key: str


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A worker as the run that dispatched it sees it."""

    id: str
    task: str
    status: str
    """`running`, or how it ended: done, failed, timeout, cancelled."""
    result: str | None = None
    """What it answered, or why it has no answer; None while it runs."""
    delivered: bool = False
    """Its result goes to another run, as a message."""


class Workers(Protocol):
    """The workers of a session. `worker` is an id; without one, all that have not been heard of are meant."""

    async def dispatch(self, call: Call, task: str, *, read_only: bool) -> Worker: ...

    async def status(self, call: Call, worker: str | None) -> list[Worker]: ...

    async def wait(self, call: Call, worker: str | None, timeout_ms: int) -> list[Worker]: ...

    async def cancel(self, call: Call, worker: str | None) -> list[Worker]: ...
