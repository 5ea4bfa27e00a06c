"""Postgres only: statistics that keep the claim's plan right when there is suddenly much to do.

The claim visits each waiting key through an index on it. While the planner believes that almost nothing
waits, another index looks as good, and then each visit reads all that waits: with 10,000 waiting keys a
claim took 50 s instead of a quarter of one. Real statistics say just that whenever they are gathered in
a quiet moment. So they are taken once from a table where half of everything waits, and kept.
"""

import sqlalchemy as sa

from nexus.engine import interior
from nexus.engine.database import Database
from nexus.engine.settings import Settings


def ensure(database: Database, settings: Settings) -> None:
    """Plant the statistics where they are missing."""
    lanes = [lane.name for lane in settings.lanes]
    with database.write() as connection:
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(811402)"))
        if set(lanes) - interior.common_lanes(connection):
            interior.plant(database, connection, lanes, settings.version)
