"""The named statements of this room."""

from pathlib import Path
from typing import Final

from nexus.ledgers.sql import named

SQL: Final = named(Path(__file__).with_name("queries.sql"))
