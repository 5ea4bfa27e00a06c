"""Asking another process to stop an execution that it runs."""

from nexus.engine import interior
from nexus.engine.database import Database


class Cancels:
    """The requests that have not been met yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(self, execution_id: str) -> None:
        """Leave a request where the process that runs it will look."""
        with self._database.write() as connection:
            connection.execute(
                self._database.sql(
                    """INSERT INTO {t}nexus_cancels (execution_id, created_at) VALUES (:id, {now})
                    ON CONFLICT (execution_id) DO NOTHING"""
                ),
                {"id": execution_id},
            )
            self._database.notify(connection)

    def forget_met(self) -> None:
        """Drop requests for executions that have ended."""
        statement = f"DELETE FROM {{t}}nexus_cancels WHERE execution_id NOT IN {interior.UNFINISHED}"  # noqa: S608 - names are constants of the program, values are bound
        self._database.change(self._database.sql(statement))
