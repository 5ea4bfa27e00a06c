"""Removing a home's part of a database that many homes share."""

from pathlib import Path

from nexus.engine import interior
from nexus.engine.database import Database
from nexus.engine.failures import translated
from nexus.engine.settings import Settings

_TOGETHER = 500


def remove_scope(settings: Settings) -> None:
    """Delete everything that is recorded of the home in `settings.scope`. Blocking."""
    assert settings.scope  # noqa: S101 - an invariant, for the reader and the type checker
    if not Path(settings.database).is_file():
        return
    with translated(settings):
        database = Database(settings)
        try:
            while found := interior.recorded(database, settings.prefix, _TOGETHER):
                with database.write() as connection:
                    interior.delete(database, connection, found)
            for table, column in (("nexus_jobs", "job_key"), ("nexus_schedules", "name")):
                chosen, values = interior.within(column, settings.prefix)
                statement = f"DELETE FROM {{t}}{table} WHERE {chosen}"  # noqa: S608 - names are constants of the program, values are bound
                database.change(database.sql(statement), values)
        finally:
            database.close()
