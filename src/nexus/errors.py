"""All expected errors.

NexusError
├── ConfigError              config.toml or a NEXUS_* variable is invalid
│   └── SecretError          a configured key or token is missing
├── HomeError
│   ├── HomeMissingError     no home at that path
│   └── HomeBusyError        another process uses the home
├── LedgerError
│   ├── LedgerBusyError      another process held the write lock past the busy timeout
│   ├── LedgerFullError      the disk is full
│   ├── LedgerCorruptError   the file is damaged or is not a ledger
│   ├── LedgerClosedError    the ledger is closed
│   ├── FencedError          another host owns the home, or may own it by now
│   └── SchemaError          the schema is newer or foreign, or a migration failed
├── ToolError                a tool call failed; the agent gets the reason
│   └── SandboxError         no sandbox is available; nothing ran
├── AgentError
│   ├── ModelError           no model answered
│   │   └── ModelRefusedError  the models reject the request; retrying doesn't help
│   ├── StoppedError         a run was stopped before it answered
│   ├── LimitError           a run reached its limit of turns, time or requests
│   │   └── BudgetError      a budget is used up
│   └── UnusableAnswerError  a model's answer is unusable
├── AccessError              the sender has no access
├── AutomationError          an automation can't be registered, found or run
│   ├── UnknownHookPointError
│   ├── UnknownAutomationError
│   ├── ScriptError          a script failed, crashed, or returned something invalid
│   └── ScriptChangedError   a script changed since it was registered
├── WorkspaceError           a workspace file is not accessible, or outside the workspace
├── ModelFileError           a local model's file is missing or has the wrong hash
├── GatewayError             the gateway can't listen, or doesn't respond
├── MissingError             nothing with that name or id
├── CareError                a backup, restore, export, import or deletion failed
└── UsageError               an invalid argument

`message` says what failed; `hint` says what to do; `type` names the error over HTTP, and is stable.
"""

import re
from typing import ClassVar, Final

_TYPES: Final = "urn:nexus:error:"
_WORDS: Final = re.compile(r"[A-Z][a-z]*")
RESTART_AFTER_UPGRADE: Final = "If Nexus was upgraded while it was running, restart it."


def type_of(name: str) -> str:
    """The type of a problem over HTTP, by its name: `urn:nexus:error:ledger-busy`."""
    return f"{_TYPES}{name.lower().replace(' ', '-')}"


class NexusError(Exception):
    """Base class of all expected errors."""

    type: ClassVar[str] = f"{_TYPES}nexus"

    def __init_subclass__(cls) -> None:
        cls.type = type_of("-".join(_WORDS.findall(cls.__name__.removesuffix("Error"))))

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class ConfigError(NexusError):
    """config.toml or a NEXUS_* variable is invalid."""


class SecretError(ConfigError):
    """A configured key or token is missing."""


class HomeError(NexusError):
    """A problem with the home itself."""


class HomeMissingError(HomeError):
    """No home at that path."""


class HomeBusyError(HomeError):
    """Another process uses the home."""


class LedgerError(NexusError):
    """A problem with one of the six databases."""


class LedgerBusyError(LedgerError):
    """Another process held the write lock past the busy timeout."""


class LedgerFullError(LedgerError):
    """The disk is full; nothing was written."""


class FencedError(LedgerError):
    """Another host owns the home, or may own it by now; nothing was written."""


TEMPORARY_LEDGER_ERRORS = (LedgerBusyError, LedgerFullError, FencedError)
"""Temporary conditions: work waits until they have passed."""


class LedgerCorruptError(LedgerError):
    """The file is damaged or is not a ledger."""


class LedgerClosedError(LedgerError):
    """The ledger is closed."""


class SchemaError(LedgerError):
    """The schema is newer or foreign, or a migration failed and was rolled back."""


class ToolError(NexusError):
    """A tool call failed; the agent gets the reason."""


class SandboxError(ToolError):
    """No sandbox is available, or it can't be set up. Nothing ran."""


class AgentError(NexusError):
    """An agent run failed."""


class ModelError(AgentError):
    """No model answered."""


class ModelRefusedError(ModelError):
    """The models reject the request, for example as too long. Retrying doesn't help."""


class LimitError(AgentError):
    """A run reached its limit of turns, time or requests."""


class BudgetError(LimitError):
    """A budget for a message, automation, person, day or month is used up."""


class UnusableAnswerError(AgentError):
    """A model's answer is unusable, such as one with invalid citations."""


class StoppedError(AgentError):
    """A run was stopped before it answered."""


class AccessError(NexusError):
    """The sender has no access."""


class AutomationError(NexusError):
    """An automation can't be registered, found or run."""


class UnknownHookPointError(AutomationError):
    """Unknown hook point."""


class UnknownAutomationError(AutomationError):
    """Unknown automation."""


class ScriptError(AutomationError):
    """A script failed, crashed, or returned something invalid."""


class ScriptChangedError(AutomationError):
    """A script changed since it was registered. It doesn't run."""


class WorkspaceError(NexusError):
    """A workspace file is not accessible, or outside the workspace."""


class ModelFileError(NexusError):
    """A local model's file is missing, can't be downloaded, or has the wrong hash."""


class GatewayError(NexusError):
    """The gateway can't listen, or doesn't respond."""


class MissingError(NexusError):
    """Nothing with that name or id."""


class CareError(NexusError):
    """A backup, restore, export, import or deletion failed."""


class UsageError(NexusError):
    """An invalid argument."""
