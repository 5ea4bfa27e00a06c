"""Backups: made of a live home, checked, and brought back."""

from nexus.ledgers.backup.copy import make, private_copy
from nexus.ledgers.backup.encryption import open_backup
from nexus.ledgers.backup.manifest import Manifest, check
from nexus.ledgers.backup.restore import (
    Backup,
    Restored,
    create_empty,
    newest,
    rebuild,
    restore,
    restore_ledger,
)

__all__ = [
    "Backup",
    "Manifest",
    "Restored",
    "check",
    "create_empty",
    "make",
    "newest",
    "open_backup",
    "private_copy",
    "rebuild",
    "restore",
    "restore_ledger",
]
