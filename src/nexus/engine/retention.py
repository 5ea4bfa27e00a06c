"""Finished work is forgotten after a while; dead letters are not. Its steps' results go at once.

The result of a step serves one purpose: that an execution which runs again need not repeat it. Once the
execution has ended it is a copy of what the ledgers hold, or of what nobody wanted to keep.
"""

import sqlalchemy as sa

from nexus.engine import tables
from nexus.engine.database import Database

_DAY_MS = 86_400_000
_TOGETHER = 500
ENDED = "('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')"


def drop_step_results(database: Database) -> int:
    """Empty the steps of executions that have ended; returns of how many. Blocking.

    The names and times of the steps stay, and whether one failed.
    """
    ended = database.sql(
        f"""SELECT DISTINCT o.workflow_uuid FROM {{t}}operation_outputs o
        JOIN {{t}}workflow_status s ON s.workflow_uuid = o.workflow_uuid
        WHERE o.output IS NOT NULL AND s.status IN {ENDED} LIMIT :batch"""  # noqa: S608 - names are constants of the program, values are bound
    )
    empty = database.sql(
        """UPDATE {t}operation_outputs
        SET output = NULL, error = CASE WHEN error IS NULL THEN NULL ELSE '' END
        WHERE workflow_uuid IN :ids"""
    ).bindparams(sa.bindparam("ids", expanding=True))
    dropped = 0
    while True:
        with database.read() as connection:
            ids = [row[0] for row in connection.execute(ended, {"batch": _TOGETHER})]
        if ids:
            with database.write() as connection:
                connection.execute(empty, {"ids": ids})
        dropped += len(ids)
        if len(ids) < _TOGETHER:
            return dropped


def forget_old(database: Database, retention_days: int) -> int:
    """Delete one batch of what ended too long ago; returns how many. Blocking."""
    old = database.sql(
        """SELECT workflow_uuid FROM {t}workflow_status
        WHERE completed_at IS NOT NULL AND completed_at < {now} - :age
          AND status IN ('SUCCESS', 'ERROR', 'CANCELLED')
          AND workflow_uuid NOT IN (SELECT execution_id FROM {t}nexus_jobs)
        ORDER BY completed_at LIMIT :batch"""
    )
    return _delete(database, old, {"age": retention_days * _DAY_MS, "batch": _TOGETHER})


def forget_ended(database: Database) -> int:
    """Delete all that has ended, but for dead letters; returns how many. Blocking."""
    ended = database.sql(
        f"""SELECT workflow_uuid FROM {{t}}workflow_status WHERE status IN {ENDED}
          AND workflow_uuid NOT IN (SELECT execution_id FROM {{t}}nexus_jobs) LIMIT :batch"""  # noqa: S608 - names are constants of the program, values are bound
    )
    total = 0
    while count := _delete(database, ended, {"batch": _TOGETHER}):
        total += count
    return total


def _delete(database: Database, chosen: sa.TextClause, values: dict[str, int]) -> int:
    with database.read() as connection:
        ids = [row[0] for row in connection.execute(chosen, values)]
    if ids:
        with database.write() as connection:
            tables.delete(database, connection, ids)
    return len(ids)
