"""Removing an entity, a thread, a time range or an import from every ledger, its indexes and its bytes."""

from nexus.ledgers.forgetting.forget import Report, find, forget, preview, resume, unfinished
from nexus.ledgers.forgetting.planning import Beside, Nothing, Plan
from nexus.ledgers.forgetting.targets import Target, entity, import_, thread, time_range

__all__ = [
    "Beside",
    "Nothing",
    "Plan",
    "Report",
    "Target",
    "entity",
    "find",
    "forget",
    "import_",
    "preview",
    "resume",
    "thread",
    "time_range",
    "unfinished",
]
