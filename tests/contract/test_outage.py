"""A database that fails: the caller is told in plain words, and the work goes on when it is back."""

import asyncio
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, OperationalError

from contract.postgres import Postgres, binary
from long_form import times
from nexus.engine import Engine, Settings, WorkContext
from nexus.engine.cron import Schedule
from nexus.engine.database import translate_errors
from nexus.engine.errors import (
    EngineBusyError,
    EngineDamagedError,
    EngineError,
    EngineFullError,
    EngineUnreachableError,
)
from nexus.engine.schedules import Schedules


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A server of its own: the other tests need theirs to stay."""
    if binary("initdb") is None:
        pytest.skip("there are no Postgres programs on this machine: install postgresql to run this part")
    cluster = Postgres()
    cluster.start()
    yield cluster
    cluster.stop()


class Steps:
    """Counts how often each step of each execution ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.stepped = asyncio.Event()
        self.gate = asyncio.Event()

    async def __call__(self, context: WorkContext, payload: str) -> str:
        await context.step("first", self._step, f"{payload} first")
        self.stepped.set()
        await self.gate.wait()
        await context.step("second", self._step, f"{payload} second")
        return payload

    async def _step(self, name: str) -> None:
        self.ran.append(name)


async def test_work_goes_on_when_a_postgres_comes_back(server: Postgres) -> None:
    engine = Engine(Settings(database=server.new_database(), lease_ms=3_000, poll_ms=200))
    steps = Steps()
    engine.register("steps", steps)
    await engine.open()
    before = await engine.start("steps", "before", key="k", lane="chat")
    await asyncio.wait_for(steps.stepped.wait(), 30)

    await asyncio.to_thread(server.pause)
    with pytest.raises(EngineUnreachableError, match="connect to the engine"):
        await engine.start("steps", "during", key="k", lane="chat")
    # Who keeps the schedules, or an outbox, waits for these errors alone.
    with pytest.raises(EngineUnreachableError):
        await engine.schedules.list_schedules()
    with pytest.raises(EngineUnreachableError):
        await before.cancel()
    steps.gate.set()
    await asyncio.sleep(4)
    await asyncio.to_thread(server.resume)

    assert await asyncio.wait_for(before.result(), 60) == "before"
    after = await engine.start("steps", "after", key="k", lane="chat")
    assert await asyncio.wait_for(after.result(), 60) == "after"
    assert steps.ran.count("before first") == 1
    await engine.close()


@contextmanager
def cut_connection(url: str, statement: int) -> Generator[list[str]]:
    """Have Postgres end the session of that statement, as of a process that is frozen in a transaction."""
    seen: list[str] = []

    def cut(connection: sa.Connection, _cursor: object, text: str, *_: object) -> None:
        seen.append(text)
        if len(seen) == statement:
            driver = connection.connection.dbapi_connection
            assert isinstance(driver, psycopg.Connection)
            with psycopg.connect(url, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s)", [driver.info.backend_pid])

    event.listen(sa.Engine, "after_cursor_execute", cut)
    try:
        yield seen
    finally:
        event.remove(sa.Engine, "after_cursor_execute", cut)


async def test_a_connection_that_is_lost_while_the_engine_starts_is_made_again(postgres: Postgres) -> None:
    async def open_(url: str, statement: int) -> int:
        engine = Engine(Settings(database=url, lease_ms=30_000))
        steps = Steps()
        steps.gate.set()
        engine.register("steps", steps)
        with cut_connection(url, statement) as seen:
            await engine.open()
            count = len(seen)
        try:
            started = await engine.start("steps", f"cut at {statement}", key="k", lane="chat")
            assert await asyncio.wait_for(started.result(), 60) == f"cut at {statement}"
        finally:
            await engine.close()
        return count

    url = postgres.new_database()
    # The first start makes the tables.
    for databases, most in (([], times(1, long=1_000)), ([url], times(4, long=1_000))):
        count = await open_(url, 0)
        for number in range(min(count, most)):
            cut_at = 1 + (2 * number + 1) * count // (2 * min(count, most))
            await open_(databases[0] if databases else postgres.new_database(), cut_at)


async def test_a_server_that_is_not_there_is_told_without_its_password() -> None:
    engine = Engine(Settings(database="postgresql://nexus:secret@127.0.0.1:9/engine"))
    with pytest.raises(EngineUnreachableError) as told:
        await engine.open()
    assert "127.0.0.1:9" in told.value.message
    assert "secret" not in told.value.message


async def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    file = tmp_path / "engine.db"
    file.write_text("This is not a database. " * 100)
    with pytest.raises(EngineDamagedError, match="not a database") as told:
        await Engine(Settings(database=file)).open()
    assert "nexus restore" in told.value.hint


async def test_a_full_disk_is_told_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    engine = Engine(Settings(database=tmp_path / "engine.db"))
    await engine.open(serve=False)
    with engine.database.read() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    _limit(engine, pages + 1)
    with pytest.raises(EngineFullError, match="Disk full"):
        await engine.start("w", "x" * 1_000_000, key="k", lane="chat", execution_id="exe_1")
    _limit(engine, 1_000_000)

    with pytest.raises(EngineError, match="Unknown execution exe_1"):
        await engine.show("exe_1")
    assert (await engine.start("w", "x", key="k", lane="chat")).id
    await engine.close()


async def test_a_schedule_that_finds_no_room_is_told_in_our_words(tmp_path: Path) -> None:
    engine = Engine(Settings(database=tmp_path / "engine.db"))
    await engine.open(serve=False)
    with engine.database.read() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    _limit(engine, pages)
    schedule = Schedule(name="s", cron="* * * * *", work="w", payload={"text": "x" * 1_000_000})
    with pytest.raises(EngineFullError, match="Disk full"):
        await Schedules(engine.database, "1").put(schedule)
    await engine.close()


def _limit(engine: Engine, pages: int) -> None:
    """Let every connection of the pool find the disk full, or not."""
    with engine.database.read() as one, engine.database.read() as other:
        for connection in (one, other):
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("database is locked", EngineBusyError),
        ("database disk image is malformed", EngineDamagedError),
        ("attempt to write a readonly database", EngineUnreachableError),
    ],
)
def test_what_sqlite_says_becomes_our_words(said: str, kind: type[EngineError]) -> None:
    with pytest.raises(kind), translate_errors(Settings(database=Path("engine.db"))):
        raise OperationalError("SELECT 1", {}, sqlite3.OperationalError(said))


def test_a_refused_statement_stays_what_it_is() -> None:
    refused = IntegrityError("INSERT", {}, sqlite3.IntegrityError("UNIQUE constraint failed"))
    with pytest.raises(IntegrityError), translate_errors(Settings(database=Path("engine.db"))):
        raise refused
