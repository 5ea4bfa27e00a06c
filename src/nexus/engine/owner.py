"""Whose work a database holds. A process runs whatever waits there, so two homes must not share one."""

from nexus.engine.database import Database
from nexus.engine.errors import EngineOwnerError
from nexus.home import Home


def claim(database: Database, home: Home | None) -> None:
    """Take an empty database for a home; refuse one that another home has taken."""
    if home is None:
        return
    owner = home.identity()
    take = database.sql(
        "INSERT INTO {t}nexus_owner (id, owner) VALUES (1, :owner) ON CONFLICT (id) DO NOTHING"
    )
    with database.write() as connection:
        connection.execute(take, {"owner": owner})
    with database.read() as connection:
        found = connection.execute(database.sql("SELECT owner FROM {t}nexus_owner")).scalar_one()
    if found != owner:
        raise EngineOwnerError(
            "The database in [engine] database belongs to another home",
            hint="Create one per home with `createdb NAME`, then change the URL.",
        )
