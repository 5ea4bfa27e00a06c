"""Public parts for tests: a scripted model server, the kit for automations, the contract of channels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from nexus.automations.kit import Kit
    from nexus.testing.adapter import AdapterContract, RecordingInbox

__all__ = [
    "PROFILES",
    "AdapterContract",
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
    "Kit",
    "ModelRequest",
    "ModelServer",
    "Pace",
    "Price",
    "Profile",
    "Prompt",
    "RecordingInbox",
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

_LATER: Final = {
    "AdapterContract": "nexus.testing.adapter",
    "Kit": "nexus.automations.kit",
    "RecordingInbox": "nexus.testing.adapter",
}
"""Imported when they are first used: a test with the model server alone doesn't wait for them."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'nexus.testing' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
