"""Runs: an answer while it is being written, its result, and what it cost.

The same types are used in this process and over HTTP. The words for what they belong to:

- A request (`req_…`, table `requests`) is one message, or a worker's task, from its arrival to its answer.
- A run (`exe_…`, table `executions`) is one agent's work on one turn. A request may have several: results of
  workers come back, or it is answered again.
- An execution is the record of a run: `Execution` in the ledger and, under the same id, `WorkRecord` in the
  engine.
- A turn (`trn_…`, table `agent_turns`) is what a run adds to the conversation of its session.
- A work is a name under which the engine, or the session queue, finds the code of what it runs.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, Self

from nexus import clock

MICRO: Final = 1_000_000
"""How many of what money is counted in make a dollar."""

Kind = Literal[
    "begin", "status", "text", "thinking", "tool_call", "done", "approval", "tool_result", "restart",
    "waiting", "end",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Delta:
    """A piece of a run.

    `begin` and `done` enclose one answer of the model. `status` says what is being done until the answer
    comes: waiting for the model, with who uses it, or reading the prompt. `restart` withdraws what came since
    `begin`: the model is asked again, or, where its text gives a reason, the same answer follows in a shorter
    form. `waiting` says why no provider answers while the run waits for one. `approval` says that a call
    waits for the owner, with the id to decide it by and the hash of the exact call. `end` is the last of a
    run.
    """

    kind: Kind
    text: str = ""
    tool: str = ""
    call_id: str = ""
    approval_id: str = ""
    call_hash: str = ""
    failed: bool = False
    doing: str = ""
    """What a `status` says. Not in `text`, of which the answer consists."""
    at: str = ""
    """When a `status` began, in UTC."""

    @classmethod
    def status(cls, doing: str) -> Self:
        """Say what is being done from now on."""
        return cls(kind="status", doing=doing, at=clock.timestamp(clock.now()))


def with_elapsed(text: str, elapsed_s: float) -> str:
    """What is being done, and for how long: `reading 1,100 tokens (12 s)`."""
    seconds = int(elapsed_s)
    if seconds < 1:
        return text
    shown = f"{seconds} s" if seconds < 60 else f"{seconds // 60} min {seconds % 60} s"
    return f"{text[:-1]}, {shown})" if text.endswith(")") else f"{text} ({shown})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """A sum of usage. Calls without a known price are counted apart: the money leaves them out."""

    calls: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int = 0
    unpriced_calls: int = 0

    @property
    def tokens(self) -> int:
        """All of them, in and out."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.output_tokens

    @property
    def cost(self) -> str:
        """The money in words: `≥` where some calls have no known price, nothing where none has."""
        if not self.tokens or self.unpriced_calls == self.calls:
            return ""
        return ("≥" if self.unpriced_calls else "") + money(self.cost_microusd)

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(**{name: getattr(self, name) + getattr(other, name) for name in Totals.__slots__})


def money(microusd: int) -> str:
    """An amount as people read it: `$12.40`, `$0.0031`."""
    dollars = microusd / MICRO
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer before it is delivered, as an automation sees it and may change it."""

    text: str
    withheld: str = ""
    """Why it may not be delivered. Empty: it may."""

    @classmethod
    def withhold(cls, why: str) -> Self:
        """Deliver nothing; the owner reads why in the trace."""
        return cls("", why or "no reason given")

    def to_json(self) -> dict[str, str]:
        """The form that scripts in their own process return."""
        return {"withhold": self.withheld} if self.withheld else {"answer": self.text}


@dataclass(frozen=True, kw_only=True)
class Response:
    """What was answered, and which model did."""

    content: str
    model: str | None = None
    changed_by: str = ""
    """The automation that changed or withheld the agent's answer, if one did."""
    withheld: str = ""
    """Why the answer was withheld, if it was; `content` is then what was delivered in its place."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """A finished run."""

    execution_id: str
    response: Response
    request_id: str = ""
    session_label: str = ""
    usage: Totals = Totals()
    """What this run cost; what its workers did is below its request."""

    def to_json(self) -> dict[str, Any]:
        usage = {name: getattr(self.usage, name) for name in Totals.__slots__}
        return {**vars(self), "response": dict(vars(self.response)), "usage": usage}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        fields: dict[str, Any] = {
            **value,
            "response": Response(**value["response"]),
            "usage": Totals(**value.get("usage", {})),
        }
        return cls(**fields)


class Run(Protocol):
    """An agent's work on one turn: follow it, wait for its result, or cancel it."""

    @property
    def id(self) -> str: ...

    async def result(self) -> Result: ...

    def deltas(self) -> AsyncIterator[Delta]: ...

    async def cancel(self) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """A received message: its request, and the run that answers it."""

    request_id: str
    run: Run
    execution_id: str | None = None
    """None if no agent was asked."""
    reason: str = ""
    """Why none was, if so: such as `an automation answered`."""


class FinishedRun:
    """A run whose result is there already, such as an answer that an automation gave at no cost."""

    def __init__(self, result: Result) -> None:
        self.id = result.execution_id or result.request_id
        self._result = result

    @classmethod
    def of(cls, request_id: str, text: str) -> Self:
        """An answer to a request without an agent."""
        return cls(Result(execution_id="", request_id=request_id, response=Response(content=text)))

    async def result(self) -> Result:
        return self._result

    async def deltas(self) -> AsyncIterator[Delta]:
        text = self._result.response.content
        for delta in (Delta(kind="begin"), Delta(kind="text", text=text), Delta(kind="done")):
            yield delta

    async def cancel(self) -> bool:
        return False
