"""Durable work: queues, recorded steps, schedules, recovery. The only importer of DBOS.

Each name is imported when it is first used: a command that runs no work loads neither DBOS nor SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from nexus.engine.cron import Schedule
    from nexus.engine.engine import Engine, StartedExecution
    from nexus.engine.errors import State
    from nexus.engine.records import WorkRecord
    from nexus.engine.running import Work, WorkContext
    from nexus.engine.schedules import Schedules
    from nexus.engine.settings import Lane, Settings

__all__ = [
    "Engine",
    "Lane",
    "Schedule",
    "Schedules",
    "Settings",
    "StartedExecution",
    "State",
    "Work",
    "WorkContext",
    "WorkRecord",
]

_MODULES: Final = {
    "WorkContext": "running",
    "Engine": "engine",
    "WorkRecord": "records",
    "StartedExecution": "engine",
    "Lane": "settings",
    "Schedule": "cron",
    "Schedules": "schedules",
    "Settings": "settings",
    "State": "errors",
    "Work": "running",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'nexus.engine' has no attribute {name!r}")
    return getattr(import_module(f"nexus.engine.{_MODULES[name]}"), name)
