"""Finished work is forgotten after a while; dead letters are not. Its steps' results go at once.

The result of a step serves one purpose: that an execution which runs again need not repeat it. Once the
execution has ended it is a copy of what the ledgers hold, or of what nobody wanted to keep.
"""

from collections.abc import Sequence

from nexus.engine import interior
from nexus.engine.database import Database

_DAY_MS = 86_400_000
_TOGETHER = 500


def drop_step_results(database: Database) -> int:
    """Empty the steps of executions that have ended; returns of how many. Blocking."""
    dropped = 0
    while ids := interior.ended_with_step_results(database, _TOGETHER):
        interior.empty_steps(database, ids)
        dropped += len(ids)
    return dropped


def forget_old(database: Database, retention_days: int) -> int:
    """Delete one batch of what ended too long ago; returns how many. Blocking."""
    return _delete(database, interior.ended(database, _TOGETHER, older_than_ms=retention_days * _DAY_MS))


def forget_ended(database: Database, prefix: str = "") -> int:
    """Delete all that has ended, but for dead letters; returns how many. Blocking.

    With a prefix, only what has an id that begins with it.
    """
    total = 0
    while count := _delete(database, interior.ended(database, _TOGETHER, prefix=prefix)):
        total += count
    return total


def _delete(database: Database, ids: Sequence[str]) -> int:
    if ids:
        with database.write() as connection:
            interior.delete(database, connection, ids)
    return len(ids)
