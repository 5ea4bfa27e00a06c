"""Public parts for testing automations: a model server that says what the test scripted."""

from nexus.testing.model_server import failures
from nexus.testing.model_server.caching import Caching
from nexus.testing.model_server.failures import (
    BrokenEvent,
    Cut,
    Drip,
    ErrorEvent,
    Gate,
    Hold,
    HttpError,
    RetryAfter,
    Silence,
    Stall,
)
from nexus.testing.model_server.plan import PROFILES, Profile
from nexus.testing.model_server.record import Answer, Exchange, Price, Totals, Usage
from nexus.testing.model_server.request import ModelRequest, Prompt, shared_prefix_tokens, tokens_in
from nexus.testing.model_server.script import Rule, Step, echo
from nexus.testing.model_server.server import ModelServer
from nexus.testing.model_server.turn import Pace, TokenLogprob, ToolCall, Turn

__all__ = [
    "PROFILES",
    "Answer",
    "BrokenEvent",
    "Caching",
    "Cut",
    "Drip",
    "ErrorEvent",
    "Exchange",
    "Gate",
    "Hold",
    "HttpError",
    "ModelRequest",
    "ModelServer",
    "Pace",
    "Price",
    "Profile",
    "Prompt",
    "RetryAfter",
    "Rule",
    "Silence",
    "Stall",
    "Step",
    "TokenLogprob",
    "ToolCall",
    "Totals",
    "Turn",
    "Usage",
    "echo",
    "failures",
    "shared_prefix_tokens",
    "tokens_in",
]
