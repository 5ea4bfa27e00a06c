"""The six ledgers of one home, open together.

Opening takes the home's shared lock, and makes the vectors' file if it is missing: they can be made again
from the other ledgers. Each file is opened when it is first used.
Closing leaves no thread, no connection and no lock behind.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import apsw

from nexus import clock, ids
from nexus.clock import Clock
from nexus.config import LedgersConfig
from nexus.errors import LedgerCorruptError, LedgerError
from nexus.home import LEDGERS, Home, HomeLock
from nexus.ledgers import attach, migrate
from nexus.ledgers.agents import history
from nexus.ledgers.database import Database
from nexus.ledgers.failures import REBUILT, damage_note, hint_of_damage, translate_errors
from nexus.ledgers.fencing import Fence
from nexus.ledgers.threads import Threads, Workers

P = ParamSpec("P")
T = TypeVar("T")

# What was written first in a home that is in use: one of these has a row.
_FIRST_USED = {"events": "events", "agents": "agent_sessions", "memory": "facts", "runtime": "requests"}
_CHECKED_WHOLE_BYTES = 16 * 1024 * 1024
_BUSY_TIMEOUT_MS = 10_000
_log = logging.getLogger(__name__)
# Six writers and a few readers: threads start when there is work for them.
_THREADS_OF_ONE_HOME = 8
# Day 0 of the count that SQLite uses is noon of a day long ago; this is midnight of 1 January 1970.
_EPOCH_DAYS = 2440587.5
_DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Ledgers:
    """Use as `async with Ledgers(home, config.ledgers) as ledgers:`.

    A host that serves many homes hands the same threads to all of them. With `now` everything that is
    written is dated by that clock, for homes that are to hold a past; so it is while the program's own
    clock is shifted. With a fence nothing is written once another host may own the home.
    """

    def __init__(
        self,
        home: Home,
        settings: LedgersConfig,
        threads: Workers | None = None,
        *,
        now: Clock | None = None,
        fence: Fence | None = None,
    ) -> None:
        self.home = home.require()
        self.settings = settings
        self._lock = HomeLock(home, "shared")
        self._own_threads = Threads(_THREADS_OF_ONE_HOME, "ledgers") if threads is None else None
        given = threads or self._own_threads
        assert given is not None  # noqa: S101 - an invariant, for the reader and the type checker
        dating = clock.now if now is None and clock.is_shifted() else now
        self._dated = None if dating is None else _Dated(dating)
        vfs = self._dated and self._dated.name

        def database(name: str) -> Database:
            return Database(
                home.ledger(name), name, settings, given, vfs, fence, checkpoints=not home.is_copied
            )

        self._are_opened = False
        self.events = database("events")
        self.agents = database("agents")
        self.identity = database("identity")
        self.memory = database("memory")
        self.embeddings = database("embeddings")
        self.runtime = database("runtime")

    def __iter__(self) -> Iterator[Database]:
        return iter((self.events, self.agents, self.identity, self.memory, self.embeddings, self.runtime))

    def __getitem__(self, name: str) -> Database:
        return next(database for database in self if database.ledger == name)

    async def __aenter__(self) -> Self:
        self._lock.__enter__()
        if not self.embeddings.path.exists():
            try:
                await asyncio.to_thread(migrate.create, self.embeddings.path, REBUILT)
            except BaseException:
                await self.close()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def read(
        self, work: Callable[Concatenate[apsw.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `work` on one connection over the events, identity, memory and embeddings ledgers.

        Every table has a name of its own. What is read of a ledger is one snapshot of it.
        """

        def run(connection: apsw.Connection) -> T:
            attached = connection.db_names()
            for database in others:
                if database.ledger not in attached:
                    connection.execute(attach.statement(self.home, database.ledger, writes=False))
            try:
                return work(connection, *args, **kwargs)
            except apsw.CorruptError as error:
                for database in others:
                    with translate_errors(database.ledger, database.path):
                        if connection.execute(f"PRAGMA {database.ledger}.quick_check(1)").get != "ok":
                            raise error
                raise

        others = (self.events, self.identity, self.embeddings)
        if not self._are_opened:
            # Opened by its own name, a file is brought to the newest schema, and named if it is damaged.
            for database in others:
                await database.read(lambda _: None)
            self._are_opened = True
        return await self.memory.read(run)

    async def close(self) -> None:
        """Finish accepted work, close every connection, stop every thread, give the lock back."""
        try:
            # Its connections read the others as well, and whoever closes a file last empties its log.
            first = await asyncio.gather(self.memory.close(), return_exceptions=True)
            others = (database.close() for database in self if database is not self.memory)
            ends = [*first, *await asyncio.gather(*others, return_exceptions=True)]
        finally:
            if self._own_threads is not None:
                self._own_threads.shutdown()
            self._lock.release()
            history.recent.drop(self.agents)
            if self._dated is not None:
                self._dated.unregister()
        for end in ends:
            if end is not None:
                raise end


def create(home: Home) -> list[str]:
    """Make the ledgers that are missing; returns their names. Those that exist are not touched.

    One that is missing from a home in use is lost, and an empty one would hide that: it is refused.
    """
    # A look into a file leaves traces beside it: a complete home is left as it is.
    while not all(home.ledger(name).exists() for name in LEDGERS):
        exists = [_is_used(home.ledger(name), "schema_migrations") for name in LEDGERS]
        missing = [name for name, there in zip(LEDGERS, exists, strict=True) if not there and name != REBUILT]
        # An old file of hooks in the place of a ledger is not lost: it becomes one when it is opened.
        missing = [name for name in missing if not _is_used(home.ledger(name), "hooks")]
        # They are made in order, so an interrupted `nexus init` leaves none behind a missing one.
        is_lost = bool(missing) and (
            any(exists[LEDGERS.index(missing[0]) :])
            or any(_is_used(home.ledger(name), table) for name, table in _FIRST_USED.items())
        )
        if not is_lost:
            break
        # Another process may have made them between the looks.
        if not _is_used(home.ledger(missing[0]), "schema_migrations"):
            raise LedgerError(f"{home.ledger(missing[0])} is missing", hint=hint_of_damage(missing[0]))
    return [name for name in LEDGERS if migrate.create(home.ledger(name), name)]


def _is_used(path: Path, table: str) -> bool:
    if not path.exists():
        return False
    with translate_errors(path.stem, path), closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
        known = connection.table_exists("main", table)
        return known and connection.execute(f"SELECT 1 FROM {table} LIMIT 1").get is not None  # noqa: S608 - a name of our own


def rebuild_if_damaged(home: Home) -> Path | None:
    """Set a damaged file of vectors aside, so that they are made again; returns where it is.

    Only for the process that is to serve the home. A small file is checked whole; damage in a large one is
    noted when it is met, and found here by the note.
    """
    path = home.ledger(REBUILT)
    note = damage_note(path)
    if not path.exists() or not (note.exists() or _is_damaged(path)):
        return None
    with HomeLock(home, "alone"):
        aside = set_aside(path)
        migrate.create(path, REBUILT)
    _log.warning("%s is damaged: it is rebuilt, and the old file kept as %s", path.name, aside.name)
    return aside


def _is_damaged(path: Path) -> bool:
    if not path.stat().st_size:
        return True
    try:
        with translate_errors(REBUILT, path), closing(apsw.Connection(str(path))) as connection:
            connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
            migrate.version(connection, REBUILT)
            small = path.stat().st_size <= _CHECKED_WHOLE_BYTES
            return small and connection.execute("PRAGMA quick_check(1)").get != "ok"
    except LedgerCorruptError as error:
        return error.__cause__ is not None  # otherwise it is another file in its place


def set_aside(path: Path) -> Path:
    """Rename a damaged ledger's file and what belongs to it; returns its new place."""
    damage_note(path).unlink(missing_ok=True)
    stamp = clock.now().strftime("%Y%m%dT%H%M%S")
    for file in path.parent.glob(f"{path.name}*"):
        file.rename(file.with_name(f"damaged-{stamp}-{file.name}"))
    return path.with_name(f"damaged-{stamp}-{path.name}")


class _Dated(apsw.VFS):
    """The system's files under another clock. Open connections with its `name`.

    Most rows are dated by SQLite when they are written. A home that is to hold a past (a demonstration, a
    replay) opens its ledgers through a file system that differs in nothing but the time that it tells.
    """

    def __init__(self, now: Clock) -> None:
        self.name = ids.new("vfs")
        self._now = now
        super().__init__(self.name, "")

    def xCurrentTimeInt64(self) -> int:  # noqa: N802 - SQLite's name
        """Milliseconds since SQLite's day 0."""
        return round(_EPOCH_DAYS * _DAY_MS) + (self._now() - _EPOCH) // timedelta(milliseconds=1)

    def xCurrentTime(self) -> float:  # noqa: N802 - SQLite's name
        """Return the same in days."""
        return self.xCurrentTimeInt64() / _DAY_MS
