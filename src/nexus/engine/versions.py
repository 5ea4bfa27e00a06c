"""Upgrades: work waits for a process of the version that it was recorded under.

While such a process lives, it drains its own work. Once none does, the work is adopted by the version
that runs: what never started simply runs with the new code; what was interrupted replays its recorded
steps, and if the code no longer fits them it fails visibly instead of doing something else.
"""

from nexus.engine.database import Database


def adopt(database: Database, version: str) -> int:
    """Take over the work of versions that nobody serves; returns how much. Blocking."""
    orphaned = """status IN ('ENQUEUED', 'DELAYED') AND queue_partition_key IS NOT NULL
      AND application_version <> :version
      AND application_version NOT IN (SELECT version FROM {t}nexus_leases WHERE expires_at > {now})"""
    look = database.sql(f"SELECT 1 FROM {{t}}workflow_status WHERE {orphaned} LIMIT 1")  # noqa: S608 - names are constants of the program, values are bound
    take = database.sql(f"UPDATE {{t}}workflow_status SET application_version = :version WHERE {orphaned}")  # noqa: S608 - names are constants of the program, values are bound
    with database.read() as connection:
        if connection.execute(look, {"version": version}).first() is None:
            return 0
    with database.write() as connection:
        return connection.execute(take, {"version": version}).rowcount
