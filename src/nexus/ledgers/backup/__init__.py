"""Backups: made of a live home, checked, and brought back."""

from nexus.ledgers.backup.copy import make
from nexus.ledgers.backup.encryption import opened
from nexus.ledgers.backup.manifest import Manifest
from nexus.ledgers.backup.repair import Backup, create_empty, newest, rebuild, restore_ledger
from nexus.ledgers.backup.restore import Restored, restore
from nexus.ledgers.backup.verification import check

__all__ = [
    "Backup",
    "Manifest",
    "Restored",
    "check",
    "create_empty",
    "make",
    "newest",
    "opened",
    "rebuild",
    "restore",
    "restore_ledger",
]
