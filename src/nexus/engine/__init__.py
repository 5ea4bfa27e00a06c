"""Durable work: queues, recorded steps, jobs, schedules, recovery. The only importer of DBOS."""

from nexus.engine.context import Context, Work
from nexus.engine.engine import Engine
from nexus.engine.handle import Handle
from nexus.engine.jobs import Jobs, Retry
from nexus.engine.records import Execution, State
from nexus.engine.schedules import Schedule, Schedules
from nexus.engine.settings import Lane, Settings

__all__ = [
    "Context",
    "Engine",
    "Execution",
    "Handle",
    "Jobs",
    "Lane",
    "Retry",
    "Schedule",
    "Schedules",
    "Settings",
    "State",
    "Work",
]
