"""Removing an entity, a fact, a message, a thread, a scope, a time range or an import, to the last byte."""

from nexus.ledgers.forgetting.planning import Beside, Nothing, Plan
from nexus.ledgers.forgetting.receipts import Folder, Receipt, public_key
from nexus.ledgers.forgetting.removal import Report, find, forget, list_unfinished, preview, resume
from nexus.ledgers.forgetting.targets import Target, entity, event, fact, import_, scope, thread, time_range
from nexus.ledgers.forgetting.verification import Check, Checks, verify

__all__ = [
    "Beside",
    "Check",
    "Checks",
    "Folder",
    "Nothing",
    "Plan",
    "Receipt",
    "Report",
    "Target",
    "entity",
    "event",
    "fact",
    "find",
    "forget",
    "import_",
    "list_unfinished",
    "preview",
    "public_key",
    "resume",
    "scope",
    "thread",
    "time_range",
    "verify",
]
