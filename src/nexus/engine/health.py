"""What can be wrong with the engine's database, told without changing it."""

from dataclasses import dataclass
from pathlib import Path

from nexus.engine import exclusive, letters, tables
from nexus.engine.database import Database
from nexus.engine.failures import translated
from nexus.engine.settings import Settings

# Up to here the thorough check is quick enough to be run always.
_THOROUGH_UP_TO_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Health:
    """The state of the engine's database."""

    damage: list[str]
    """What SQLite's own check found; nothing where all is well."""
    exclusive: bool
    """Whether the index is there that keeps a session to one run at a time."""
    unfinished: dict[str, str]
    """The work of each execution that has not ended, by id."""
    interrupted: int
    """How many of these were running in a process that is gone."""
    dead_letters: int


def examine(settings: Settings, *, thorough: bool = False) -> Health:
    """Look at the database. Raises where it cannot be opened at all."""
    with translated(settings):
        database = Database(settings)
        try:
            damage = _damage(database, settings, thorough=thorough)
            if damage or not tables.made(database):
                return Health(damage=damage, exclusive=True, unfinished={}, interrupted=0, dead_letters=0)
            return Health(
                damage=[],
                exclusive=exclusive.present(database),
                unfinished=_unfinished(database),
                interrupted=_interrupted(database),
                dead_letters=letters.count(database),
            )
        finally:
            database.close()


def remove(settings: Settings, execution_ids: list[str]) -> None:
    """Remove executions that belong to nothing."""
    with translated(settings):
        database = Database(settings)
        try:
            with database.write() as connection:
                tables.delete(database, connection, execution_ids)
        finally:
            database.close()


def _damage(database: Database, settings: Settings, *, thorough: bool) -> list[str]:
    if database.is_postgres:
        return []
    small = Path(settings.database).stat().st_size <= _THOROUGH_UP_TO_BYTES
    pragma = "integrity_check" if thorough or small else "quick_check"
    with database.read() as connection:
        lines = [str(row[0]) for row in connection.exec_driver_sql(f"PRAGMA {pragma}(5)")]
    return [line for line in lines if line != "ok"]


def _unfinished(database: Database) -> dict[str, str]:
    attribute = "attributes ->> 'work'" if database.is_postgres else "json_extract(attributes, '$.work')"
    statement = database.sql(
        f"""SELECT workflow_uuid, {attribute} FROM {{t}}workflow_status
        WHERE status IN ('ENQUEUED', 'DELAYED', 'PENDING') AND name = '{tables.WORKFLOW}'"""
    )
    with database.read() as connection:
        return {row[0]: str(row[1]) for row in connection.execute(statement)}


def _interrupted(database: Database) -> int:
    statement = database.sql(
        """SELECT count(*) FROM {t}workflow_status WHERE status = 'PENDING'
          AND executor_id NOT IN (SELECT executor_id FROM {t}nexus_leases WHERE expires_at > {now})"""
    )
    with database.read() as connection:
        return int(connection.execute(statement).scalar_one())
