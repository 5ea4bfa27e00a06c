"""The engine's database: an SQLite file in WAL mode, or a Postgres. One set of statements serves both."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from nexus import clock
from nexus.engine.errors import EngineBusyError, EngineDamagedError, EngineFullError, EngineUnreachableError
from nexus.engine.settings import Settings

SCHEMA = "dbos"
APPLICATION = "nexus"
CHANNEL = "nexus_engine"
"""Where a Postgres tells the process that serves what another one has recorded."""
_BUSY_TIMEOUT_MS = 30_000
# More connections to one SQLite file only wait for each other's write lock, and wait unfairly.
_SQLITE_CONNECTIONS = 2
_POSTGRES_CONNECTIONS = 10
_DAMAGED = ("malformed", "not a database", "disk image")
_FULL = ("disk is full", "No space left", "could not extend file")


class Database:
    """Connections to the engine's database, and how its statements are spelled there."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.is_postgres = settings.is_postgres
        self._statements: dict[str, sa.TextClause] = {}
        self.path = settings.file
        self.url = _postgres_url(str(settings.database)) if self.is_postgres else f"sqlite:///{self.path}"
        self.engine = self._open()
        self.on_notify: Callable[[], None] | None = None
        """Called when a transaction with `notify` is committed here, by the process that serves."""

    @contextmanager
    def read(self) -> Generator[sa.Connection]:
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Generator[sa.Connection]:
        """A transaction that holds the write lock from its first statement on."""
        with self.engine.begin() as connection:
            # What a transaction that failed on this connection had asked for.
            connection.info.pop("notifies", None)
            if not self.is_postgres:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
            notifies = connection.info.pop("notifies", False)
        if notifies:
            self._notify()

    def fetch(self, statement: sa.TextClause, values: dict[str, Any] | None = None) -> Sequence[Any]:
        """All rows of one statement."""
        with self.engine.connect() as connection:
            return connection.execute(statement, values).all()

    def change(self, statement: sa.TextClause, values: dict[str, Any] | None = None) -> int:
        """Run one statement in its own transaction; returns how many rows it changed."""
        with self.write() as connection:
            return connection.execute(statement, values).rowcount

    def notify(self, connection: sa.Connection) -> None:
        """Wake the process that serves, when this transaction is committed."""
        if self.is_postgres and self.on_notify is None:
            connection.execute(self.sql(f"SELECT pg_notify('{CHANNEL}', 'work')"))
        else:
            connection.info["notifies"] = True

    def _notify(self) -> None:
        if self.on_notify is not None:
            self.on_notify()
        else:
            # The process that serves watches the file that it holds. Without one, nobody waits.
            with suppress(OSError):
                os.utime(self.settings.owner_file)

    def sql(self, statement: str, *lists: str) -> sa.TextClause:
        """The statement with `{t}` as the schema's prefix and `{now}` as the database's clock in ms.

        `lists` names the parameters that are lists, as in `IN :ids`.
        """
        made = self._statements.get(statement)
        if made is None:
            made = sa.text(statement.format(t=self.prefix, now=self.now))
            for name in lists:
                made = made.bindparams(sa.bindparam(name, expanding=True))
            self._statements[statement] = made
        return made

    def choose(self, *, sqlite: str, postgres: str) -> str:
        """Of two spellings of a part of a statement, that of this database."""
        return postgres if self.is_postgres else sqlite

    @property
    def schema(self) -> str | None:
        return SCHEMA if self.is_postgres else None

    @property
    def prefix(self) -> str:
        return self.choose(sqlite="", postgres=f"{SCHEMA}.")

    @property
    def now(self) -> str:
        return self.choose(
            sqlite="CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
            postgres="CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
        )

    def lock_schema(self, connection: sa.Connection) -> None:
        """Let one process at a time change tables: two would collide in Postgres's catalog."""
        if self.is_postgres:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(811402)"))
            connection.execute(sa.text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))

    def close(self) -> None:
        self.engine.dispose()

    @property
    def _postgres_options(self) -> dict[str, str | int]:
        return {
            # A frozen process must not keep row locks for long.
            "idle_in_transaction_session_timeout": self.settings.lease_ms,
            # Compiling a plan costs more than any statement of ours.
            "jit": "off",
            # DBOS's indexes are for certain states only: a plan for any state cannot use them.
            "plan_cache_mode": "force_custom_plan",
        }

    def _open(self) -> sa.Engine:
        if self.is_postgres:
            options = " ".join(f"-c {name}={value}" for name, value in self._postgres_options.items())
            return sa.create_engine(
                self.url,
                pool_size=_POSTGRES_CONNECTIONS,
                max_overflow=0,
                pool_timeout=60,
                connect_args={"options": options, "connect_timeout": 10, "application_name": APPLICATION},
            )
        assert self.path is not None  # noqa: S101 - an invariant, for the reader and the type checker
        engine = sa.create_engine(self.url, pool_size=_SQLITE_CONNECTIONS, max_overflow=0, pool_timeout=60)
        synchronous = self.settings.synchronous

        def prepare(connection: Any, _record: Any) -> None:
            connection.isolation_level = "IMMEDIATE"
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            connection.execute("PRAGMA foreign_keys = ON")

        event.listen(engine, "connect", prepare)
        return engine


def moment(milliseconds: int) -> str:
    """A moment of the database, as the ledgers write it."""
    return clock.timestamp(datetime.fromtimestamp(milliseconds / 1000, UTC))


def _postgres_url(url: str) -> str:
    """SQLAlchemy's name of the driver, whatever way the url begins."""
    _, _, rest = url.partition("://")
    return f"postgresql+psycopg://{rest}"


def is_full(error: BaseException) -> bool:
    """Whether the disk of a database has no room for what was to be written."""
    return isinstance(error, DBAPIError) and any(words in str(error.orig) for words in _FULL)


@contextmanager
def translate_errors(settings: Settings) -> Generator[None]:
    """Raise what the surroundings did to a database as ours; a refused statement stays as it is."""
    try:
        yield
    except DBAPIError as error:
        said = str(error.orig)
        place = _place(settings)
        if any(words in said for words in _DAMAGED):
            raise EngineDamagedError(
                f"The engine's database at {place} is damaged: {said}",
                hint="Run `nexus doctor`, then `nexus restore` with your newest backup.",
            ) from error
        if is_full(error):
            raise EngineFullError(
                f"Disk full: could not write to the engine's database at {place}",
                hint="Free disk space. No acknowledged work is lost.",
            ) from error
        if "locked" in said:
            raise EngineBusyError(
                f"The engine's database at {place} is locked by another process",
                hint="Find the process with `nexus status`, and stop it or wait.",
            ) from error
        if settings.file is None and (error.connection_invalidated or "connect" in said):
            raise EngineUnreachableError(
                f"Can't connect to the engine's database at {place}: {said.splitlines()[0]}",
                hint="Start it, or fix `[engine] database` in config.toml.",
            ) from error
        if "unable to open" in said or "readonly" in said:
            raise EngineUnreachableError(
                f"Can't open the engine's database at {place}: {said}",
                hint="Run `nexus doctor --fix` to check its permissions.",
            ) from error
        raise


def _place(settings: Settings) -> str:
    if settings.file is None:
        return make_url(str(settings.database)).render_as_string(hide_password=True)
    return str(settings.database)
