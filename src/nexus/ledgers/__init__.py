"""The six databases of a home: open, read, write, migrate, take care of."""

from nexus.ledgers.database import Database
from nexus.ledgers.ledgers import Ledgers, create, rebuild_if_damaged

__all__ = ["Database", "Ledgers", "create", "rebuild_if_damaged"]
