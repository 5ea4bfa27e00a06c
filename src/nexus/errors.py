"""Every error that Nexus raises on purpose.

NexusError
├── ConfigError              config.toml or a NEXUS_* variable cannot be used
│   └── SecretError          a key or token is not where the settings say
├── HomeError
│   ├── HomeMissingError     there is no home at that path
│   └── HomeBusyError        another process holds the home
├── LedgerError
│   ├── LedgerBusyError      another process kept the write lock past the busy timeout
│   ├── LedgerFullError      the disk is full
│   ├── LedgerCorruptError   the file is damaged or is not a ledger
│   ├── LedgerClosedError    used after close
│   └── SchemaError          the file's schema is newer or from another line, or a migration failed
├── ToolError                a tool could not do what it was asked; the agent is told why
│   └── SandboxError         there is no sandbox, or it cannot be set up as asked: nothing was run
├── AgentError
│   ├── ModelError           no model that was asked gave an answer
│   │   └── ModelRefusedError  none takes the request as it is, such as one that is too long
│   ├── StoppedError         somebody stopped a run before it had an answer
│   ├── LimitError           a run reached a limit of turns, time or requests
│   │   └── BudgetError      what may be spent on a message, an automation, a day or a month is used up
│   └── UnusableAnswerError  a model's answer is not what it was asked for
├── AccessError              somebody may not do what they asked for
├── AutomationError          an automation could not be registered, found or run
│   ├── UnknownHookPointError  there is no hook point of that name
│   ├── UnknownAutomationError there is no automation of that name
│   ├── ScriptError          a script failed, crashed, or answered what it may not
│   └── ScriptChangedError   a script is not what was registered: it is not run
├── WorkspaceError           a file of a workspace cannot be reached, or lies outside of it
├── ModelFileError           a small network's file is missing, cannot be had, or is not the pinned one
├── GatewayError             the gateway cannot listen, or does not answer
├── MissingError             there is nothing of that name or id
├── CareError                a backup, restore, export, import or forget could not be done
└── UsageError               an argument cannot be used as given

A message says what happened; `hint` says what to do next.
"""


class NexusError(Exception):
    """The root: catch this to catch everything that Nexus raises on purpose."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class ConfigError(NexusError):
    """config.toml or a NEXUS_* variable cannot be used."""


class SecretError(ConfigError):
    """A key or token is not where the settings say."""


class HomeError(NexusError):
    """Something about the home itself."""


class HomeMissingError(HomeError):
    """There is no home at that path."""


class HomeBusyError(HomeError):
    """Another process holds the home."""


class LedgerError(NexusError):
    """Something about one of the six databases."""


class LedgerBusyError(LedgerError):
    """Another process kept the write lock past the busy timeout."""


class LedgerFullError(LedgerError):
    """The disk is full: nothing of the refused write was kept."""


LEDGER_PASSES = (LedgerBusyError, LedgerFullError)
"""What is no fault of the work that meets it: the work waits, and goes on when it has passed."""


class LedgerCorruptError(LedgerError):
    """The file is damaged or is not a ledger."""


class LedgerClosedError(LedgerError):
    """The ledger was used after it was closed."""


class SchemaError(LedgerError):
    """The file's schema is newer or from another line of Nexus, or a migration failed and was undone."""


class ToolError(NexusError):
    """A tool could not do what it was asked; the agent is told why."""


class SandboxError(ToolError):
    """There is no sandbox, or it cannot be set up as asked. Nothing was run."""


class AgentError(NexusError):
    """A run of an agent could not be brought to its end."""


class ModelError(AgentError):
    """No model that was asked gave an answer."""


class ModelRefusedError(ModelError):
    """No model takes the request as it is, such as one that is too long: asking again is of no use."""


class LimitError(AgentError):
    """A run reached a limit of turns, time or requests."""


class BudgetError(LimitError):
    """What may be spent on a message, an automation, a day or a month is used up."""


class UnusableAnswerError(AgentError):
    """A model's answer is not what it was asked for, such as one that cites what it was not shown."""


class StoppedError(AgentError):
    """Somebody stopped a run before it had an answer."""


class AccessError(NexusError):
    """Somebody may not do what they asked for."""


class AutomationError(NexusError):
    """An automation could not be registered, found or run."""


class UnknownHookPointError(AutomationError):
    """There is no hook point of that name."""


class UnknownAutomationError(AutomationError):
    """There is no automation of that name."""


class ScriptError(AutomationError):
    """A script failed, crashed, or answered what it may not."""


class ScriptChangedError(AutomationError):
    """A script is not what was registered: it is not run."""


class WorkspaceError(NexusError):
    """A file of a workspace cannot be reached, or lies outside of it."""


class ModelFileError(NexusError):
    """A small network's file is missing, cannot be had, or is not the one that was pinned."""


class GatewayError(NexusError):
    """The gateway cannot listen, or does not answer."""


class MissingError(NexusError):
    """There is nothing of that name or id."""


class CareError(NexusError):
    """A backup, restore, export, import or forget could not be done."""


class UsageError(NexusError):
    """An argument cannot be used as given."""
