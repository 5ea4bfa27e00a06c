"""Nexus: a personal-agent runtime with a memory that you can look inside.

These names, and those of `nexus.testing`, are the public API: semantic versioning applies to them. Each is
imported when it is first used, so `import nexus` costs nothing.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from nexus import testing
    from nexus.app import App
    from nexus.automations.context import Context
    from nexus.automations.hook_points import HOOK_POINTS, HookPoint
    from nexus.automations.loading import automation
    from nexus.broker.tools.functions import tool
    from nexus.channels.adapter import Adapter, channel
    from nexus.client import Client
    from nexus.config import Config
    from nexus.errors import (
        AccessError,
        AgentError,
        AutomationError,
        BudgetError,
        CareError,
        ConfigError,
        FencedError,
        GatewayError,
        HomeBusyError,
        HomeError,
        HomeMissingError,
        LedgerBusyError,
        LedgerClosedError,
        LedgerCorruptError,
        LedgerError,
        LedgerFullError,
        LimitError,
        MissingError,
        ModelError,
        ModelFileError,
        ModelRefusedError,
        NexusError,
        SandboxError,
        SchemaError,
        ScriptChangedError,
        ScriptError,
        SecretError,
        StoppedError,
        ToolError,
        UnknownAutomationError,
        UnknownHookPointError,
        UnusableAnswerError,
        UsageError,
        WorkspaceError,
    )
    from nexus.home import Home
    from nexus.library.blocking import Memory
    from nexus.library.items import Fact, Hit, Recorded, Successor
    from nexus.library.memory import AsyncMemory
    from nexus.memory.recall.item import Item, Match, Matches, Query
    from nexus.memory.recall.recall import Recall
    from nexus.results import Erasure, Reflection, RunState, Source, StoredFact, Trace, TraceStep, WaitingCall
    from nexus.runs import Answer, Delta, Receipt, Response, Result, Run, Totals

__version__ = "0.1.0"

__all__ = [
    "HOOK_POINTS",
    "AccessError",
    "Adapter",
    "AgentError",
    "Answer",
    "App",
    "AsyncMemory",
    "AutomationError",
    "BudgetError",
    "CareError",
    "Client",
    "Config",
    "ConfigError",
    "Context",
    "Delta",
    "Erasure",
    "Fact",
    "FencedError",
    "GatewayError",
    "Hit",
    "Home",
    "HomeBusyError",
    "HomeError",
    "HomeMissingError",
    "HookPoint",
    "Item",
    "LedgerBusyError",
    "LedgerClosedError",
    "LedgerCorruptError",
    "LedgerError",
    "LedgerFullError",
    "LimitError",
    "Match",
    "Matches",
    "Memory",
    "MissingError",
    "ModelError",
    "ModelFileError",
    "ModelRefusedError",
    "NexusError",
    "Query",
    "Recall",
    "Receipt",
    "Recorded",
    "Reflection",
    "Response",
    "Result",
    "Run",
    "RunState",
    "SandboxError",
    "SchemaError",
    "ScriptChangedError",
    "ScriptError",
    "SecretError",
    "Source",
    "StoppedError",
    "StoredFact",
    "Successor",
    "ToolError",
    "Totals",
    "Trace",
    "TraceStep",
    "UnknownAutomationError",
    "UnknownHookPointError",
    "UnusableAnswerError",
    "UsageError",
    "WaitingCall",
    "WorkspaceError",
    "automation",
    "channel",
    "testing",
    "tool",
]

_MODULES: Final = {
    "App": "nexus.app",
    "Context": "nexus.automations.context",
    "HOOK_POINTS": "nexus.automations.hook_points",
    "HookPoint": "nexus.automations.hook_points",
    "automation": "nexus.automations.loading",
    "tool": "nexus.broker.tools.functions",
    "Adapter": "nexus.channels.adapter",
    "channel": "nexus.channels.adapter",
    "Client": "nexus.client",
    "Config": "nexus.config",
    "Home": "nexus.home",
    "AsyncMemory": "nexus.library.memory",
    "Fact": "nexus.library.items",
    "Hit": "nexus.library.items",
    "Memory": "nexus.library.blocking",
    "Recorded": "nexus.library.items",
    "Successor": "nexus.library.items",
    "Item": "nexus.memory.recall.item",
    "Match": "nexus.memory.recall.item",
    "Matches": "nexus.memory.recall.item",
    "Query": "nexus.memory.recall.item",
    "Recall": "nexus.memory.recall.recall",
    "Erasure": "nexus.results",
    "Reflection": "nexus.results",
    "RunState": "nexus.results",
    "Source": "nexus.results",
    "StoredFact": "nexus.results",
    "Trace": "nexus.results",
    "TraceStep": "nexus.results",
    "WaitingCall": "nexus.results",
    "Answer": "nexus.runs",
    "Delta": "nexus.runs",
    "Receipt": "nexus.runs",
    "Response": "nexus.runs",
    "Result": "nexus.runs",
    "Run": "nexus.runs",
    "Totals": "nexus.runs",
}
"""Where the names are that aren't errors."""

_DEPRECATED: Final = {"Plugin": ("nexus.automations.loading", "the decorator `nexus.automation`", "0.3")}
"""Names that still work: where they are, what takes their place, and the version without them."""


def __getattr__(name: str) -> Any:
    if name == "testing":
        return import_module("nexus.testing")
    if name in _DEPRECATED:
        module, instead, gone = _DEPRECATED[name]
        warnings.warn(
            f"`nexus.{name}` is deprecated and goes away in {gone}: use {instead}",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(import_module(module), name)
    if name not in __all__:
        raise AttributeError(f"module 'nexus' has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "nexus.errors")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
