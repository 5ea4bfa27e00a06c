"""What a scripted model says: text, thinking, tool calls, and at what pace."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

from nexus.testing.model_server.failures import Fault
from nexus.testing.model_server.record import Usage

StopReason = Literal[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
]


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool. Arguments given as a string are sent as they are, so they may be invalid JSON.

    The Anthropic format can carry invalid JSON only in a stream; without streaming the string arrives
    as `{"INVALID_JSON": "…"}`.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None
    """Made up when it is not given."""

    @property
    def arguments_json(self) -> str:
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class TokenLogprob:
    """One token of the text with its log-probability and the alternatives; OpenAI format only."""

    token: str
    logprob: float
    top: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How fast an answer comes."""

    before_ms: int = 0
    """Before the headers."""
    between_ms: int = 0
    """Between two pieces of streamed content."""
    chunk_chars: int = 24
    """The length of one piece of streamed content."""


@dataclass(frozen=True)
class Turn:
    """One answer of the model. In both wire formats the thinking comes first, then the text, then the calls.

    `usage` replaces the computed usage. `logprobs` are sent when the request asks for them; without a `text`
    their tokens are the text.
    """

    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    _: KW_ONLY
    thinking: str = ""
    stop_reason: StopReason | None = None
    """`tool_use` when there are calls, else `end_turn`. OpenAI's names are derived from it."""
    usage: Usage | None = None
    logprobs: Sequence[TokenLogprob] = ()
    pace: Pace = Pace()
    faults: Sequence[Fault] = ()

    @property
    def content(self) -> str:
        """The text that is sent."""
        return self.text or "".join(entry.token for entry in self.logprobs)

    @property
    def reason(self) -> StopReason:
        """Why the model stopped."""
        return self.stop_reason or ("tool_use" if self.tool_calls else "end_turn")

    @property
    def thinking_bytes(self) -> int:
        return len(self.thinking.encode())

    @property
    def output_bytes(self) -> int:
        """The length of everything that the model wrote; its tokens are counted from this."""
        calls = sum(len(call.name.encode()) + len(call.arguments_json.encode()) for call in self.tool_calls)
        return self.thinking_bytes + len(self.content.encode()) + calls

    def pieces(self, text: str) -> list[str]:
        """The text as it is streamed."""
        size = self.pace.chunk_chars
        return [text[start : start + size] for start in range(0, len(text), size)]
