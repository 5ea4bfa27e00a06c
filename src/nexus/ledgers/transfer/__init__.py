"""A whole home in one file: written, and read into a new home."""

from nexus.ledgers.transfer.export import Exported, write
from nexus.ledgers.transfer.format import Tally
from nexus.ledgers.transfer.intake import Imported, read
from nexus.ledgers.transfer.streams import is_export, reading, writing

__all__ = ["Exported", "Imported", "Tally", "is_export", "read", "reading", "write", "writing"]
