"""One running execution for each key: a unique index, because the claim alone lets two workers race.

The claim's query looks whether the key is busy and then takes the head; between the two another
worker may have taken an earlier item. With the index the later of them is refused and tries again.
"""

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from nexus.engine import interior
from nexus.engine.database import SCHEMA, Database
from nexus.engine.errors import EngineUnsafeError

INDEX = "nexus_one_running_per_key"


def ensure(database: Database) -> None:
    """Make the index if it is missing, and refuse to go on without it."""
    try:
        with database.write() as connection:
            if database.is_postgres:
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(811402)"))
            connection.execute(
                database.sql(interior.ONE_RUNNING_PER_KEY.format(index=INDEX)),
            )
    except IntegrityError as error:
        raise EngineUnsafeError(
            "Two executions of one session are recorded as running",
            hint="Stop every worker of this database, then start one: it takes their work over.",
        ) from error
    if not present(database):
        raise EngineUnsafeError(
            f"The index {INDEX} is not what it should be",
            hint="Drop it in the engine's database and restart; Nexus creates it again.",
        )


def present(database: Database) -> bool:
    """Whether the index is there, unique, and on the two columns."""
    schema = SCHEMA if database.is_postgres else None
    for index in sa.inspect(database.engine).get_indexes(interior.EXECUTIONS, schema=schema):
        if index["name"] == INDEX:
            return bool(index["unique"]) and index["column_names"] == interior.KEY
    return False
