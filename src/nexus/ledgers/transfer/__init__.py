"""A whole home in one file: written, and read into a new home."""

from nexus.ledgers.transfer.export import Exported, write
from nexus.ledgers.transfer.format import Tally, is_export, open_input, open_output
from nexus.ledgers.transfer.intake import Imported, read

__all__ = ["Exported", "Imported", "Tally", "is_export", "open_input", "open_output", "read", "write"]
