"""Background jobs: named by a key, run at least once, retried with back-off, and put aside when hopeless.

A key has at most one unfinished job. Asking for it again while it waits changes nothing; while it
runs, it is run once more afterwards. A job must be idempotent: after a crash it may run again.
"""

import asyncio
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import sqlalchemy as sa

from nexus.engine import serializer, store
from nexus.engine.context import Context, Work
from nexus.engine.database import Database
from nexus.engine.engine import Engine
from nexus.engine.errors import UnknownWorkError
from nexus.engine.serializer import End

LANE = "background"
# A sweep costs by waiting keys, so a hundred thousand jobs must not be as many queues.
_PARTITIONS = 64
_TOGETHER = 1_000

Item = tuple[str, Any]
"""A job's key and payload."""


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often a job is tried, and how long it waits between: each pause longer than the one before."""

    attempts: int = 5
    first_ms: int = 1_000
    factor: float = 3.0
    most_ms: int = 3_600_000

    def pause_ms(self, failures: int) -> int:
        return int(min(self.first_ms * self.factor ** (failures - 1), self.most_ms))


@dataclass(frozen=True, kw_only=True)
class _Kind:
    retry: Retry
    lane: str
    timeout_ms: int | None


class Jobs:
    """The jobs of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kinds: dict[str, _Kind] = {}

    def register(
        self,
        name: str,
        work: Work,
        *,
        retry: Retry | None = None,
        lane: str = LANE,
        timeout_ms: int | None = None,
    ) -> None:
        """Make a kind of job known."""
        self._kinds[name] = _Kind(retry=retry or Retry(), lane=lane, timeout_ms=timeout_ms)
        self._engine.register(name, work, ended=self._ended)

    async def add(self, work: str, key: str, payload: Any = None) -> str:
        """Ask for one job; returns the id of the execution that does it or will do it."""
        return (await self.add_many(work, [(key, payload)]))[key]

    async def add_many(self, work: str, items: Iterable[Item]) -> dict[str, str]:
        """Ask for many jobs, in few transactions; returns the execution of each key."""
        if work not in self._kinds:
            raise UnknownWorkError(
                f"No job is registered as `{work}`", hint=f"Known: {', '.join(self._kinds)}."
            )
        found: dict[str, str] = {}
        for chunk in _chunks(dict(items).items()):
            found |= await asyncio.to_thread(self._add, work, dict(chunk))
            self._engine.announce()
        return found

    def _add(self, work: str, items: dict[str, Any]) -> dict[str, str]:
        database, kind = self._engine.database, self._kinds[work]
        items = {self._engine.stored(key): payload for key, payload in items.items()}
        fresh = {key: self._engine.stored(store.new_id()) for key in items}
        with database.write() as connection:
            _insert_jobs(database, connection, work, kind.lane, items, fresh)
            held = _revived(database, connection, work, fresh)
            new = [key for key in items if held[key] == fresh[key]]
            if new:
                executions = [
                    store.new_execution(
                        work,
                        items[key],
                        key=self._engine.stored(_partition(work, key)),
                        lane=kind.lane,
                        version=self._engine.settings.version,
                        timeout_ms=kind.timeout_ms,
                        id_=fresh[key],
                    )
                    for key in new
                ]
                store.insert(database, connection, executions)
            if len(new) < len(items):
                _ask_again(database, connection, work, [key for key in items if held[key] != fresh[key]])
            database.notify(connection)
        return {self._engine.own(key): self._engine.own(id_) for key, id_ in held.items()}

    async def _ended(self, context: Context, end: End | None) -> None:
        await asyncio.to_thread(self._settle, context, end)
        self._engine.announce()

    def _settle(self, context: Context, end: End | None) -> None:
        """Done, tried again later, or dead: in one transaction, and once for each execution."""
        database = self._engine.database
        with database.write() as connection:
            job = connection.execute(
                database.sql(
                    """SELECT job_key, attempt, again, lane, payload FROM {t}nexus_jobs
                    WHERE execution_id = :id AND state = 'waiting'"""
                ),
                {"id": self._engine.stored(context.id)},
            ).first()
            if job is None:
                return
            failed = end is not None and end.kind in {"failed", "timeout"}
            if failed:
                assert end is not None  # noqa: S101 - an invariant, for the reader and the type checker
                self._fail(connection, context, job, end)
            elif job.again:
                self._next(connection, context, job, attempt=1, pause_ms=0, error=None)
            else:
                _delete(database, connection, self._engine.stored(context.id))

    def _fail(self, connection: sa.Connection, context: Context, job: Any, end: End) -> None:
        retry = self._kinds[context.work].retry
        error = f"{end.type}: {end.message}"
        if job.attempt < retry.attempts:
            pause_ms = retry.pause_ms(job.attempt)
            self._next(connection, context, job, attempt=job.attempt + 1, pause_ms=pause_ms, error=error)
            return
        database = self._engine.database
        connection.execute(
            database.sql(
                """UPDATE {t}nexus_jobs SET state = 'dead', error = :error, updated_at = {now}
                WHERE execution_id = :id"""
            ),
            {"id": self._engine.stored(context.id), "error": error},
        )

    def _next(
        self,
        connection: sa.Connection,
        context: Context,
        job: Any,
        *,
        attempt: int,
        pause_ms: int,
        error: str | None,
    ) -> None:
        database = self._engine.database
        new = store.new_execution(
            context.work,
            serializer.loads(job.payload),
            key=self._engine.stored(context.key),
            lane=job.lane,
            version=self._engine.settings.version,
            timeout_ms=self._kinds[context.work].timeout_ms,
            id_=self._engine.stored(store.new_id()),
            attempt=attempt,
            delay_until_ms=time.time_ns() // 1_000_000 + pause_ms if pause_ms else None,
        )
        store.insert(database, connection, [new])
        connection.execute(
            database.sql(
                """UPDATE {t}nexus_jobs
                SET execution_id = :new, attempt = :attempt, again = 0, error = :error, updated_at = {now}
                WHERE execution_id = :old"""
            ),
            {"new": new.id, "old": self._engine.stored(context.id), "attempt": attempt, "error": error},
        )


def _insert_jobs(
    database: Database,
    connection: sa.Connection,
    work: str,
    lane: str,
    items: dict[str, Any],
    fresh: dict[str, str],
) -> None:
    statement = database.sql(
        """INSERT INTO {t}nexus_jobs
          (work, job_key, state, attempt, execution_id, lane, payload, created_at, updated_at)
        VALUES (:work, :key, 'waiting', 1, :id, :lane, :payload, {now}, {now})
        ON CONFLICT (work, job_key) DO UPDATE
          SET state = 'waiting', attempt = 1, execution_id = excluded.execution_id,
              payload = excluded.payload, error = NULL, updated_at = {now}
          WHERE nexus_jobs.state = 'dead'"""
    )
    rows = [
        {"work": work, "key": key, "id": fresh[key], "lane": lane, "payload": serializer.dumps(payload)}
        for key, payload in items.items()
    ]
    connection.execute(statement, rows)


def _revived(
    database: Database, connection: sa.Connection, work: str, fresh: dict[str, str]
) -> dict[str, str]:
    """The execution that each key has now."""
    statement = database.sql(
        "SELECT job_key, execution_id FROM {t}nexus_jobs WHERE work = :work AND job_key IN :keys", "keys"
    )
    rows = connection.execute(statement, {"work": work, "keys": list(fresh)})
    return {row[0]: row[1] for row in rows}


def _ask_again(database: Database, connection: sa.Connection, work: str, keys: list[str]) -> None:
    """One that runs may have read its subject before it changed; one that waits will read it later."""
    statement = f"""UPDATE {{t}}nexus_jobs SET again = 1
    WHERE work = :work AND job_key IN :keys AND execution_id IN {store.RUNNING}"""  # noqa: S608 - names are constants of the program, values are bound
    connection.execute(database.sql(statement, "keys"), {"work": work, "keys": keys})


def _delete(database: Database, connection: sa.Connection, execution_id: str) -> None:
    connection.execute(
        database.sql("DELETE FROM {t}nexus_jobs WHERE execution_id = :id"), {"id": execution_id}
    )


def _partition(work: str, key: str) -> str:
    return f"job:{work}:{zlib.crc32(key.encode()) % _PARTITIONS}"


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, _TOGETHER)):
        yield chunk
