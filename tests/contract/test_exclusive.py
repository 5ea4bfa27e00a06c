"""One running execution for each session, held by the database itself."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from nexus.engine import Lane, Settings, exclusive, interior
from nexus.engine.claims import Claims
from nexus.engine.database import Database
from nexus.engine.errors import EngineUnsafeError
from nexus.engine.prepare import prepared
from nexus.engine.tables import NewExecution

LANE = Lane(name="chat", limit=8)


@pytest.fixture
def rig(database: str) -> Iterator[Database]:
    """A complete database, with nobody who claims."""
    is_url = database.startswith("postgres")
    # A transaction that does nothing for as long as a lease is ended.
    opened = prepared(
        Settings(database=database if is_url else Path(database), lanes=(LANE,), lease_ms=60_000)
    )
    yield opened
    opened.close()


def _add(database: Database, execution_id: str) -> None:
    new = NewExecution(id=execution_id, work="w", lane="chat", key="k", inputs="{}", version="1")
    with database.write() as connection:
        interior.insert(database, connection, [new])


def _begin(database: Database, execution_id: str) -> str:
    table = f"{database.prefix}workflow_status"
    return f"UPDATE {table} SET status = 'PENDING' WHERE workflow_uuid = '{execution_id}'"


def _drop(database: Database) -> None:
    with database.write() as connection:
        connection.execute(database.sql(f"DROP INDEX {{t}}{exclusive.INDEX}"))


def _running(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(
            database.sql("SELECT count(*) FROM {t}workflow_status WHERE status = 'PENDING'")
        ).scalar_one()


def _both_begin(database: Database) -> None:
    for execution_id in ("a", "b"):
        _add(database, execution_id)
        with database.write() as connection:
            connection.exec_driver_sql(_begin(database, execution_id))


async def test_a_second_running_execution_of_a_session_is_refused(rig: Database) -> None:
    with pytest.raises(IntegrityError):
        _both_begin(rig)


async def test_without_the_index_it_is_accepted(rig: Database) -> None:
    _drop(rig)
    _both_begin(rig)
    assert _running(rig) == 2


def _waits(database: Database) -> bool:
    """Whether somebody waits for what another transaction holds."""
    waiting = database.sql(
        """SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    )
    with database.read() as connection:
        return connection.execute(waiting).scalar_one() > 0


async def _race(database: Database) -> list[str] | IntegrityError:
    """An earlier item becomes visible while a later one is being claimed by somebody else."""
    _add(database, "later")
    with database.engine.connect() as other:
        other.exec_driver_sql(_begin(database, "later"))
        _add(database, "earlier")
        with database.write() as connection:
            connection.exec_driver_sql(
                f"UPDATE {database.prefix}workflow_status SET created_at = 1 WHERE workflow_uuid = 'earlier'"
            )
        claim = asyncio.ensure_future(asyncio.to_thread(Claims(database, LANE, "1").take, "me", 8))
        async with asyncio.timeout(30):
            while not claim.done() and not await asyncio.to_thread(_waits, database):
                await asyncio.sleep(0.02)
        other.commit()
    try:
        return (await claim).ids
    except IntegrityError as error:
        return error


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_of_two_claims_that_race_one_is_refused(rig: Database) -> None:
    assert isinstance(await _race(rig), IntegrityError)
    assert _running(rig) == 1


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_without_the_index_both_claims_stand(rig: Database) -> None:
    _drop(rig)
    assert await _race(rig) == ["earlier"]
    assert _running(rig) == 2


async def test_an_engine_finds_the_index_missing_and_makes_it(rig: Database) -> None:
    database = rig
    _drop(database)
    assert not exclusive.present(database)
    exclusive.ensure(database)
    assert exclusive.present(database)


async def test_an_engine_refuses_an_index_that_protects_nothing(rig: Database) -> None:
    database = rig
    with database.write() as connection:
        connection.execute(database.sql(f"DROP INDEX {{t}}{exclusive.INDEX}"))
        connection.execute(
            database.sql(f"CREATE INDEX {exclusive.INDEX} ON {{t}}workflow_status (queue_name)")
        )
    with pytest.raises(EngineUnsafeError):
        exclusive.ensure(database)
