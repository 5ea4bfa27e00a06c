"""The states of work, and what can go wrong with it.

EngineError
├── EngineStateError     used before its start or after its stop, or a second engine in one process
├── UnknownWorkError     no work of that name is registered
├── UnknownExecutionError  no execution has that id
├── EngineOwnerError     the database does the work of another home
├── EngineUnreachableError  the database does not answer, or may not be used
├── EngineBusyError      another process holds the database
├── EngineFullError      the disk of the database is full
├── EngineDamagedError   the database's file is damaged
└── EndedError           an execution ended without a result
    ├── WorkFailedError    its code raised
    ├── WorkTimeoutError   it was stopped at its time limit
    └── WorkCancelledError somebody cancelled it
"""

from typing import Final, Literal

from nexus.errors import NexusError, StoppedError

State = Literal["queued", "delayed", "running", "done", "failed", "timeout", "cancelled"]
FINAL: Final[frozenset[State]] = frozenset({"done", "failed", "timeout", "cancelled"})


class EngineError(NexusError):
    """Something about the engine or the work on it."""


class EngineStateError(EngineError):
    """The engine cannot be used in the state that it is in."""


class UnknownWorkError(EngineError):
    """No work of that name is registered in this process."""


class UnknownExecutionError(EngineError):
    """No execution has that id."""


class EngineOwnerError(EngineError):
    """The database does the work of another home."""


class EngineUnreachableError(EngineError):
    """The database does not answer, or may not be used."""


class EngineBusyError(EngineError):
    """Another process holds the database and does not finish."""


class EngineFullError(EngineError):
    """The disk of the database is full."""


class EngineDamagedError(EngineError):
    """The database's file is damaged."""


class EndedError(EngineError):
    """An execution ended without a result."""


class WorkFailedError(EndedError):
    """The work's code raised an error."""


class WorkTimeoutError(EndedError):
    """The work was stopped at its time limit."""


class WorkCancelledError(EndedError, StoppedError):
    """Somebody cancelled the work."""
