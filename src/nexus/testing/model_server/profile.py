"""What kind of model a server pretends to have: how long a prompt it takes, and what becomes of tools."""

import json
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from nexus.testing.model_server.request import ModelRequest
from nexus.testing.model_server.turn import Pace, Turn
from nexus.testing.model_server.wire import RejectedError


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

    @property
    def is_silent(self) -> bool:
        """Whether the server says nothing about itself."""
        return self.context_tokens is None and self.slots is None

    def admit(self, request: ModelRequest) -> None:
        """Refuse what this kind of model does not take."""
        if self.tools == "none" and request.tool_names:
            raise RejectedError(f"{request.model} does not support tools")
        window, used = self.context_tokens, request.prompt.tokens
        if window is not None and used > window:
            raise RejectedError(
                f"request ({used} tokens) exceeds the available context size ({window} tokens)"
            )

    def shaped(self, turn: Turn) -> Turn:
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
