"""What a run tells and asks the modules around it, without the agent library.

The engine's database holds no content. So a step of a run writes what came of it into the run's journal,
and a run that is resumed reads it there.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from nexus.broker.tools import Tool
from nexus.errors import LimitError

AGENT_WORK: Final = "agent"
"""What the ledger knows the runs of agents as: it must outlive an upgrade."""
Approve = Callable[[Tool, Mapping[str, Any], str, bool], Awaitable[bool]]
"""Waits for the owner, where a call needs that; told whether a crash interrupted the call.

True: it was allowed, and was certainly not made before."""


async def ask_nobody(tool: Tool, arguments: Mapping[str, Any], call_id: str, interrupted: bool) -> bool:
    """Nobody is asked."""
    return False


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of a conversation: readable, and exact in `parts_json`."""

    role: Literal["user", "assistant", "tool"]
    content: str
    parts_json: str
    model: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call that a model asked for."""

    call_id: str
    tool: str
    arguments_json: str


@dataclass(frozen=True, kw_only=True)
class BegunCall:
    """What the journal knew of a call when it was begun.

    `interrupted`: an earlier process began it and did not record its end. `ended`: it has its result.
    """

    state: Literal["new", "interrupted", "ended"]
    result: str | None = None
    error: str | None = None
    is_refused: bool = False
    """The error is our own, and the tool was never called."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One request to a model, answered or not, and what it used. Tokens are apart: none is counted twice."""

    id: str
    provider: str
    model: str
    input_tokens: int
    """Fresh ones: neither read from a cache nor written to it."""
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
    cost_microusd: int | None
    """None where the price is not known."""
    estimated: bool
    """The answer broke off before the provider said what it used."""
    started_at: str
    duration_ms: float
    first_delta_ms: float | None
    error: str | None = None
    reached: bool = True
    """Whether there was a server to take it."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a request to a model may come to, before it is made."""

    id: str
    """That of the attempt."""
    provider: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_microusd: int | None
    """None where the price is not known."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one run may do, and its whole lineage may ask. Zero: no limit."""

    max_turns: int = 50
    timeout_ms: int = 1_800_000
    max_requests: int = 0
    outage_ms: int = 0
    """How long to wait for a provider that does not answer. Zero: not at all."""
    output_tokens: int = 0
    """The most tokens of one answer, where the model's window has room for them."""
    thinks: bool = True
    """Whether the model may think first; if not, it is asked not to, or as little as it can."""
    priority: int = 0
    """Who asks first where a server has no place for all: the lower, the sooner."""
    name: str = ""
    """What others who wait for the server are told about it, such as `memory writer`."""
    invocation_id: str | None = None
    """Of the automation that started it."""
    patient: bool = False
    """Whether the time that a local server takes is not counted: only its pauses are."""

    def check(self, requests: int) -> None:
        """Refuse a further request when all were made."""
        if self.max_requests and requests >= self.max_requests:
            raise LimitError(
                f"This message and the work it leads to made {requests} model calls "
                f"(limit {self.max_requests})",
                hint="Raise `max_requests` in [agents] in config.toml.",
            )


class Account(Protocol):
    """Where the requests to models are counted. Every write made twice is made once."""

    async def spend(self, attempt: Attempt) -> None:
        """Record a request to a model and what it used; again under its id, where more is known later.

        What was reserved for it is free again.
        """
        ...

    async def count_requests(self) -> int:
        """How many requests to models the message at the root and all that it led to have made."""
        ...

    async def wait(self, reason: str) -> float:
        """Record that the run waits for a provider; returns for how many seconds it has."""
        ...

    async def go_on(self) -> None:
        """Record that a provider has answered."""
        ...

    async def afford(self, estimate: Estimate) -> None:
        """Reserve what a request may come to; BudgetError where a budget is used up.

        It waits while requests that are under way may take what is left.
        """
        ...

    async def release(self, attempt_id: str) -> None:
        """Give back what was reserved for a request that is not to be paid for."""
        ...


class Journal(Account, Protocol):
    """Where one run keeps its messages, tool calls and usage."""

    async def message(self, offset: int) -> str | None:
        """The exact message at a place of this run; None where there is none yet."""
        ...

    async def append(self, offset: int, *messages: Message) -> None:
        """Keep messages from a place on, in one transaction.

        A model's answer that is there already stays; anything else is replaced.
        """
        ...

    async def begin_call(self, call: ToolCall) -> BegunCall:
        """Record that a call is about to be made, and tell what is known of it."""
        ...

    async def end_call(
        self, call_id: str, *, result: str | None, error: str | None, is_refused: bool = False
    ) -> None:
        """Record what came of a call."""
        ...


class Step(Protocol):
    """Run a part of the work once. After a crash it is not run again: the journal has what came of it."""

    async def __call__(
        self, name: str, function: Callable[..., Awaitable[None]], *arguments: Any
    ) -> None: ...


CallTool = Callable[[Tool, Mapping[str, Any], str], Awaitable[str]]
"""Run a tool with arguments for the call of that id; text for the model, or ToolError."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run came to."""

    text: str
    requests: int
    """How many answers of models it took."""
    messages: int
    """How many messages it added to the conversation."""
    model: str | None
