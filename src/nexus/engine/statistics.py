"""Postgres only: statistics that keep the claim's plan right when there is suddenly much to do.

The claim visits each waiting key through an index on it. While the planner believes that almost nothing
waits, another index looks as good, and then each visit reads all that waits: with 10,000 waiting keys a
claim took 50 s instead of a quarter of one. Real statistics say just that whenever they are gathered in
a quiet moment. So they are taken once from a table where half of everything waits, and kept.
"""

import sqlalchemy as sa

from nexus.engine.database import APPLICATION, SCHEMA, Database
from nexus.engine.settings import Settings
from nexus.engine.tables import QUEUE_PREFIX

_ROWS_OF_A_LANE = 2_000
_NEVER = 2_000_000_000


def ensure(database: Database, settings: Settings) -> None:
    """Plant the statistics where they are missing."""
    queues = [QUEUE_PREFIX + lane.name for lane in settings.lanes]
    with database.write() as connection:
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(811402)"))
        if "ENQUEUED" not in _common(connection, "status") or set(queues) - _common(connection, "queue_name"):
            _plant(database, connection, queues, settings.version)


def _common(connection: sa.Connection, column: str) -> set[str]:
    """The values of a column that the planner believes to be common."""
    found = connection.execute(
        sa.text(
            """SELECT most_common_vals::text::text[] FROM pg_stats
            WHERE schemaname = :schema AND tablename = 'workflow_status' AND attname = :column"""
        ),
        {"schema": SCHEMA, "column": column},
    ).scalar()
    return set(found or ())


def _plant(database: Database, connection: sa.Connection, queues: list[str], version: str) -> None:
    """The rows are gone before the transaction ends, so nobody else ever sees them."""
    insert = database.sql(
        """INSERT INTO {t}workflow_status
          (workflow_uuid, status, name, queue_name, queue_partition_key, priority, application_name,
           application_version, created_at, updated_at)
        SELECT 'planning-' || :queue || n, CASE n % 2 WHEN 0 THEN 'ENQUEUED' ELSE 'SUCCESS' END, 'planning',
          :queue, 'planning-' || n, 0, :application, :version, n, n FROM generate_series(1, :rows) AS n"""
    )
    for queue in queues:
        values = {"queue": queue, "application": APPLICATION, "version": version, "rows": _ROWS_OF_A_LANE}
        connection.execute(insert, values)
    connection.execute(database.sql("ANALYZE {t}workflow_status"))
    connection.execute(database.sql("DELETE FROM {t}workflow_status WHERE name = 'planning'"))
    connection.execute(
        database.sql(f"ALTER TABLE {{t}}workflow_status SET (autovacuum_analyze_threshold = {_NEVER})")
    )
