"""The one way past the triggers that keep events and facts append-only.

`nexus forget` deletes and `nexus import` loads; nothing else may use this.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import apsw

# The triggers that refuse changes are named so (`events_are_not_deleted`); those that keep the
# full-text index in step with its table (`events_are_unindexed`) are not.
REFUSALS: Final = "*_are_not_*"
EVERY: Final = "*"

_FIND = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND name GLOB ? ORDER BY rowid"


def refusals_of(table: str) -> str:
    """Return the pattern of the triggers that keep one table append-only."""
    return f"{table}_are_not_*"


@contextmanager
def suspend(connection: apsw.Connection, named: str = REFUSALS) -> Generator[None]:
    """Without the triggers whose names match the pattern, inside the caller's transaction.

    They are dropped and made again in that transaction, so other connections never see the table
    unguarded, and a crash leaves the guards where they were.
    """
    if not connection.in_transaction:
        raise RuntimeError("guards are suspended inside a transaction only: else a crash would lose them")
    triggers = connection.execute(_FIND, (named,)).fetchall()
    for name, _ in triggers:
        connection.execute(f'DROP TRIGGER "{name}"')
    try:
        yield
    finally:
        # Where SQLite itself gave up the transaction, the triggers are back already.
        if connection.in_transaction:
            for _, statement in triggers:
                connection.execute(str(statement))
