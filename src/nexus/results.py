"""What the verbs of `App`, `Client` and `Context` return: the same types in this process and over HTTP."""

from dataclasses import asdict, dataclass, field
from typing import Any

from nexus.runs import Totals


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFact:
    """A fact that was stored. It is durable, and found shortly after."""

    id: str
    replaces: tuple[str, ...] = ()
    """The ids of the facts that it replaces."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasure:
    """How much was forgotten: rows by `ledger.table`, emptied columns, and attached files."""

    forget_id: str = ""
    """Under which it is recorded, without content. Empty: there was nothing to erase."""
    removed: dict[str, int] = field(default_factory=dict[str, int])
    emptied: dict[str, int] = field(default_factory=dict[str, int])
    kept: dict[str, int] = field(default_factory=dict[str, int])
    """Rows that still name it, by `ledger.table.column`."""
    files: int = 0
    named_in: tuple[str, ...] = ()
    """Files of the home that still name it, relative to the home."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """How long each phase took."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Something that an answer rests on."""

    kind: str
    id: str
    at: str
    text: str
    stale_since: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reflection:
    """An answer from the memory, with what it rests on."""

    question: str
    answer: str
    sources: tuple[Source, ...]
    removed: tuple[str, ...]
    """Ids that the model cited and had not retrieved: they were taken out of the answer."""
    searches: int
    request_id: str
    usage: Totals
    mental_model_id: str | None = None
    """Where it was kept."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """How a run stands."""

    id: str
    request_id: str
    session: str
    status: str
    """queued, running, done, failed, timeout or cancelled."""
    taken_by: str | None
    """The run that answered this one."""
    error: str | None
    enqueued_at: str
    started_at: str | None
    ended_at: str | None
    waiting_since: str | None
    """Waiting for a provider since."""
    waiting_for: str | None
    """The provider's last error."""
    workers_at_work: int
    partial: str | None
    """What a stopped run had written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceStep:
    """Something that was done: a request, a run, an automation, a stage, a call of a model or a tool."""

    kind: str
    id: str
    name: str
    status: str
    started_at: str | None
    duration_ms: float | None
    """None while it is under way."""
    error: str | None
    detail: dict[str, Any]
    usage: Totals
    """Its own cost."""
    total: Totals
    """Its cost with everything below."""
    children: list["TraceStep"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """One request with everything that was done for it."""

    asked: str
    answered: str | None
    principal: str | None
    """Who it acts for."""
    parent_request_id: str | None
    changes: list[dict[str, Any]]
    """The answers that automations changed or withheld, with the originals."""
    trace: TraceStep


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingCall:
    """A tool call that waits for the owner."""

    id: str
    tool: str
    arguments: dict[str, Any]
    call_hash: str
    """Of exactly this call, to decide it by."""
    always: str | None
    """What "always" would allow; None if it may only be allowed once or denied."""
