"""Asking another process to stop an execution that it runs."""

from nexus.engine.database import Database
from nexus.engine.enqueue import CHANNEL


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
            if self._database.is_postgres:
                connection.execute(self._database.sql(f"SELECT pg_notify('{CHANNEL}', 'cancel')"))

    def asked(self) -> list[str]:
        statement = self._database.sql("SELECT execution_id FROM {t}nexus_cancels LIMIT 1000")
        with self._database.read() as connection:
            return [row[0] for row in connection.execute(statement)]

    def forget_met(self) -> None:
        """Drop requests for executions that have ended."""
        statement = self._database.sql(
            """DELETE FROM {t}nexus_cancels WHERE execution_id NOT IN
              (SELECT workflow_uuid FROM {t}workflow_status
               WHERE status IN ('ENQUEUED', 'DELAYED', 'PENDING'))"""
        )
        with self._database.write() as connection:
            connection.execute(statement)
