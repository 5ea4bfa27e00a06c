"""Finished work is forgotten after a while; dead letters are not."""

import sqlalchemy as sa

from nexus.engine.database import Database

_DAY_MS = 86_400_000
_TOGETHER = 500


def forget_old(database: Database, retention_days: int) -> int:
    """Delete one batch of what ended too long ago; returns how many. Blocking."""
    old = database.sql(
        """SELECT workflow_uuid FROM {t}workflow_status
        WHERE completed_at IS NOT NULL AND completed_at < {now} - :age
          AND status IN ('SUCCESS', 'ERROR', 'CANCELLED')
          AND workflow_uuid NOT IN (SELECT execution_id FROM {t}nexus_jobs)
        ORDER BY completed_at LIMIT :batch"""
    )
    with database.read() as connection:
        rows = connection.execute(old, {"age": retention_days * _DAY_MS, "batch": _TOGETHER})
        ids = [row[0] for row in rows]
    if ids:
        with database.write() as connection:
            for table in ("operation_outputs", "workflow_input", "workflow_output", "workflow_status"):
                statement = database.sql(f"DELETE FROM {{t}}{table} WHERE workflow_uuid IN :ids").bindparams(
                    sa.bindparam("ids", expanding=True)
                )
                connection.execute(statement, {"ids": ids})
    return len(ids)
