"""Removing an entity, a fact, a thread, a time range or an import from all ledgers, indexes and bytes."""

from nexus.ledgers.forgetting.forget import Report, find, forget, preview, resume, unfinished
from nexus.ledgers.forgetting.planning import Beside, Nothing, Plan
from nexus.ledgers.forgetting.targets import Target, entity, fact, import_, thread, time_range

__all__ = [
    "Beside",
    "Nothing",
    "Plan",
    "Report",
    "Target",
    "entity",
    "fact",
    "find",
    "forget",
    "import_",
    "preview",
    "resume",
    "thread",
    "time_range",
    "unfinished",
]
