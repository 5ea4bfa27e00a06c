"""Taking over from processes that are gone: when that is allowed, and when work is given up."""

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nexus.engine import Context, Engine, Schedule, Schedules, Settings, interior, letters, schedules, tables
from nexus.engine.claims import Claims
from nexus.engine.database import Database
from nexus.engine.leases import Leases, _place  # pyright: ignore[reportPrivateUsage]
from nexus.engine.prepare import prepared
from nexus.engine.records import GAVE_UP
from nexus.engine.records import get as record_of

_MOST = 10
_TWO_HOURS_MS = 7_200_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(database=tmp_path / "engine.db", lease_ms=1_000, poll_ms=100, stop_grace_ms=50)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    made = prepared(settings)
    yield made
    made.close()


@pytest.fixture(scope="module")
def gone() -> int:
    """The pid of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def record(database: Database, id_: str = "exe_1") -> None:
    new = tables.new_execution("work", None, key="k", lane="chat", version="1", id_=id_)
    with database.write() as connection:
        interior.insert(database, connection, [new])


def claim_and_die(
    database: Database, settings: Settings, pid: int, *, ahead_ms: int = 0, place: str = ""
) -> None:
    """What a process leaves that took the work and was killed, its clock ahead by some time."""
    name = f"exr_{uuid.uuid4()}"
    Claims(database, settings.lane("chat"), settings.version).take(name, 1)
    lease = database.sql(
        """INSERT INTO {t}nexus_leases
          (executor_id, host, pid, version, started_at, renewed_at, expires_at, place)
        VALUES (:id, 'here', :pid, '1', {now} + :ahead, {now} + :ahead, {now} + :ahead + 1000, :place)"""
    )
    values = {"id": name, "pid": pid, "ahead": ahead_ms, "place": place or _place()}
    with database.write() as connection:
        connection.execute(lease, values)


def recover(database: Database, settings: Settings) -> None:
    leases = Leases(database, settings, lost=lambda: None, found=lambda: None)
    leases.acquire()
    leases.recover()
    leases.stop()


async def run_to_end(settings: Settings, id_: str = "exe_1") -> str:
    engine = Engine(settings)

    async def work(context: Context, payload: Any) -> str:
        return "done"

    engine.register("work", work)
    async with engine:
        return str(await engine.execution(id_).result())


@pytest.mark.parametrize("place", ["", "another machine"])
async def test_a_lease_that_lies_ahead_of_the_clock_holds_nobody_up(
    database: Database, settings: Settings, gone: int, place: str
) -> None:
    """Of a process of this machine it is known that it is gone; of others, that they renew nothing."""
    record(database)
    claim_and_die(database, settings, gone, ahead_ms=_TWO_HOURS_MS, place=place)

    assert await run_to_end(settings) == "done"


def test_a_lease_that_lies_ahead_and_is_renewed_stays(
    database: Database, settings: Settings, gone: int
) -> None:
    record(database)
    claim_and_die(database, settings, gone, ahead_ms=_TWO_HOURS_MS, place="another machine")
    leases = Leases(database, settings, lost=lambda: None, found=lambda: None)
    leases.acquire()
    renew = database.sql(
        "UPDATE {t}nexus_leases SET renewed_at = renewed_at + 1, expires_at = expires_at + 1 WHERE place = :p"
    )
    for _ in range(5):
        leases.recover()
        # As if the time had passed in which a lease that stands still expires.
        leases._ahead = {  # pyright: ignore[reportPrivateUsage]
            id_: (at, since - 60)
            for id_, (at, since) in leases._ahead.items()  # pyright: ignore[reportPrivateUsage]
        }
        with database.write() as connection:
            connection.execute(renew, {"p": "another machine"})
    leases.stop()

    found = record_of(database, "exe_1")
    assert found is not None
    assert found.state == "running"


def test_what_was_claimed_after_the_lease_had_ended_is_given_back(
    database: Database, settings: Settings
) -> None:
    record(database)
    Claims(database, settings.lane("chat"), settings.version).take("exr_without_a_lease", 1)
    recover(database, settings)
    found = record_of(database, "exe_1")
    assert found is not None
    assert found.state == "queued"


async def test_restarts_never_discard_work(settings: Settings) -> None:
    """Only crashes count: a service may be restarted any number of times while something runs."""
    begun: list[str] = []

    for number in range(_MOST + 4):
        engine = Engine(settings)

        async def work(context: Context, payload: Any) -> None:
            begun.append(context.id)
            await asyncio.Event().wait()

        engine.register("work", work)
        async with engine:
            if number == 0:
                await engine.start("work", None, key="k", lane="chat", execution_id="exe_1")
            while len(begun) <= number:
                await asyncio.sleep(0.01)

    assert await run_to_end(settings) == "done"


def test_work_that_crashes_its_process_each_time_becomes_a_dead_letter(
    database: Database, settings: Settings, gone: int
) -> None:
    record(database)
    for _ in range(_MOST - 1):
        claim_and_die(database, settings, gone)
        recover(database, settings)
        assert letters.count(database) == 0
    claim_and_die(database, settings, gone)
    recover(database, settings)

    (letter,) = letters.dead(database)
    found = record_of(database, "exe_1")
    assert found is not None
    assert (letter.execution_id, letter.error) == ("exe_1", GAVE_UP)
    assert (found.state, found.error) == ("failed", GAVE_UP)
    letters.close(database, "exe_1")
    assert letters.dead(database) == []


def test_a_crash_after_a_further_step_begins_a_new_count(
    database: Database, settings: Settings, gone: int
) -> None:
    step = database.sql(
        """INSERT INTO {t}operation_outputs (workflow_uuid, function_id, function_name)
        VALUES ('exe_1', :number, 'model')"""
    )
    record(database)
    for number in range(_MOST * 2):
        claim_and_die(database, settings, gone)
        if number % 5 == 0:
            with database.write() as connection:
                connection.execute(step, {"number": number})
        recover(database, settings)

    found = record_of(database, "exe_1")
    assert found is not None
    assert found.state == "queued"


async def test_a_schedule_that_waits_for_too_late_a_moment_is_set_back(
    database: Database, settings: Settings
) -> None:
    later = datetime.now(UTC) + timedelta(days=40)
    made = Schedules(database, settings.version)
    await made.put(Schedule(name="minutely", cron="* * * * *", work="work", payload={}), after=later)

    assert made.set_back() == 1
    (row,) = schedules.listed(database)
    assert datetime.fromisoformat(row["next_at"]) < datetime.now(UTC) + timedelta(minutes=2)
    assert made.set_back() == 0


def test_a_wait_that_began_before_the_clock_was_set_back_is_no_longer(database: Database) -> None:
    soon_ms, later_ms = 120_000, 40 * 86_400_000
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    new = [
        tables.new_execution(
            "work", None, key=id_, lane="chat", version="1", id_=id_, delay_until_ms=now_ms + ahead + soon_ms
        )
        for id_, ahead in (("exe_ahead", later_ms), ("exe_right", 0))
    ]
    with database.write() as connection:
        interior.insert(database, connection, new)
        move = "UPDATE {t}workflow_status SET updated_at = updated_at + :by WHERE workflow_uuid = 'exe_ahead'"
        connection.execute(database.sql(move), {"by": later_ms})

    assert interior.set_back_delays(database) == 1
    with database.read() as connection:
        left = database.sql("SELECT delay_until_epoch_ms - updated_at FROM {t}workflow_status")
        assert [abs(row[0] - soon_ms) < 60_000 for row in connection.execute(left)] == [True, True]
        late = database.sql("SELECT count(*) FROM {t}workflow_status WHERE delay_until_epoch_ms > :later")
        assert connection.execute(late, {"later": now_ms + later_ms}).scalar_one() == 0
    assert interior.set_back_delays(database) == 0


def test_what_is_recorded_in_one_moment_keeps_its_order(database: Database, settings: Settings) -> None:
    """An id may be older than its place in the queue, so ids must not decide."""
    ids = [f"exe_{9 - number}" for number in range(9)]
    new = [tables.new_execution("work", None, key="k", lane="chat", version="1", id_=id_) for id_ in ids]
    with database.write() as connection:
        interior.insert(database, connection, new)
    claims = Claims(database, settings.lane("chat"), settings.version)
    taken: list[str] = []
    done = database.sql("UPDATE {t}workflow_status SET status = 'SUCCESS' WHERE status = 'PENDING'")
    for _ in ids:
        taken += claims.take("exr_1", 5).ids
        with database.write() as connection:
            connection.execute(done)

    assert taken == ids


def _lease_ms(database: Database, leases: Leases) -> int:
    statement = database.sql("SELECT expires_at - renewed_at FROM {t}nexus_leases WHERE executor_id = :id")
    return database.fetch(statement, {"id": leases.executor_id})[0][0]


def test_an_idle_process_takes_a_longer_lease_and_shortens_it_before_it_claims(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = Leases(database, settings, lost=lambda: None, found=lambda: None)
    leases.acquire()
    assert leases.renew()
    assert _lease_ms(database, leases) == settings.lease_ms  # it has just begun

    monkeypatch.setattr("nexus.engine.leases._IDLE_S", -1.0)
    leases.has_work = lambda: True
    assert leases.renew()
    assert _lease_ms(database, leases) == settings.lease_ms

    leases.has_work = lambda: False
    assert leases.renew()
    assert _lease_ms(database, leases) == 5 * settings.lease_ms

    monkeypatch.undo()
    leases.use()
    assert _lease_ms(database, leases) == settings.lease_ms
    leases.stop()
