"""Removing an entity, a thread or a time range from every ledger, its indexes and its bytes."""

from nexus.ledgers.forgetting.beside import Beside, Nothing
from nexus.ledgers.forgetting.forget import Report, find, forget, preview, resume, unfinished
from nexus.ledgers.forgetting.planning import Plan
from nexus.ledgers.forgetting.targets import Target, entity, thread, time_range

__all__ = [
    "Beside",
    "Nothing",
    "Plan",
    "Report",
    "Target",
    "entity",
    "find",
    "forget",
    "preview",
    "resume",
    "thread",
    "time_range",
    "unfinished",
]
