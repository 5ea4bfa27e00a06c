"""Taking over from processes that are gone: when that is allowed, and when work is given up."""

import asyncio
import errno
import logging
import os
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nexus.engine import Engine, Schedule, Schedules, Settings, WorkContext, records, schedules, store
from nexus.engine.claims import Claims
from nexus.engine.database import Database
from nexus.engine.owner import Ownership, find_owner
from nexus.engine.prepare import prepare_database
from nexus.engine.records import GAVE_UP
from nexus.engine.records import get as record_of

_MOST = 10


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(database=tmp_path / "engine.db", lease_ms=1_000, poll_ms=100, stop_grace_ms=50)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    made = prepare_database(settings)
    yield made
    made.close()


def record(database: Database, id_: str = "exe_1") -> None:
    new = store.new_execution("work", None, key="k", lane="chat", version="1", id_=id_)
    with database.write() as connection:
        store.insert(database, connection, [new])


def claim_and_die(database: Database, settings: Settings) -> None:
    """What a process leaves that took the work and was killed."""
    Claims(database, settings.lane("chat")).take(f"exr_{uuid.uuid4()}", 1)


def recover(database: Database, settings: Settings) -> None:
    store.take_over(database, settings.version, _MOST)


async def run_to_end(settings: Settings, id_: str = "exe_1") -> str:
    engine = Engine(settings)

    async def work(context: WorkContext, payload: Any) -> str:
        return "done"

    engine.register("work", work)
    async with engine:
        return str(await engine.execution(id_).result())


async def test_what_a_dead_process_left_running_is_done(database: Database, settings: Settings) -> None:
    record(database)
    claim_and_die(database, settings)
    assert await run_to_end(settings) == "done"


async def test_of_two_engines_one_works_and_the_other_takes_over(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner is another process here, which a lock of this one stands for."""
    caplog.set_level(logging.INFO)
    record(prepare_database(settings))
    owner = Ownership(settings)
    assert owner.take()
    assert not Ownership(settings).take()
    found = find_owner(settings)
    assert found is not None
    assert (found.executor_id, found.pid) == (owner.executor_id, os.getpid())

    engine = Engine(settings)

    async def work(context: WorkContext, payload: Any) -> str:
        return "done"

    engine.register("work", work)
    async with engine:
        assert not engine.serving
        handle = await engine.start("work", None, key="k", lane="chat")
        await asyncio.sleep(1.0)
        assert f"pid {os.getpid()}" in caplog.text
        assert (await handle.state()).state == "queued"
        owner.release()
        assert await handle.result() == "done"
        assert find_owner(settings) is not None
    assert find_owner(settings) is None


def test_an_owner_that_cannot_write_its_name_leaves_no_lock(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", fail)
        with pytest.raises(OSError, match="No space"):
            Ownership(settings).take()
    owner = Ownership(settings)
    assert owner.take()
    owner.release()


async def test_an_engine_that_stands_by_can_be_closed(settings: Settings) -> None:
    owner = Ownership(settings)
    assert owner.take()
    async with Engine(settings) as engine:
        assert not engine.serving
    owner.release()


def test_those_who_look_for_an_owner_keep_nobody_from_becoming_one(settings: Settings) -> None:
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            find_owner(settings)

    looking = [threading.Thread(target=look) for _ in range(3)]
    for each in looking:
        each.start()
    try:
        for _ in range(200):
            owner = Ownership(settings)
            assert owner.take()
            owner.release()
    finally:
        stop.set()
        for each in looking:
            each.join()


async def test_restarts_never_discard_work(settings: Settings) -> None:
    """Only crashes count: a service may be restarted any number of times while something runs."""
    begun: list[str] = []

    for number in range(_MOST + 4):
        engine = Engine(settings)

        async def work(context: WorkContext, payload: Any) -> None:
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
    database: Database, settings: Settings
) -> None:
    record(database)
    for _ in range(_MOST - 1):
        claim_and_die(database, settings)
        recover(database, settings)
        assert records.count_dead_letters(database) == 0
    claim_and_die(database, settings)
    recover(database, settings)

    (letter,) = records.list_dead_letters(database)
    found = record_of(database, "exe_1")
    assert found is not None
    assert (letter.execution_id, letter.error) == ("exe_1", GAVE_UP)
    assert (found.state, found.error) == ("failed", GAVE_UP)
    records.close_dead_letter(database, "exe_1")
    assert records.list_dead_letters(database) == []


def test_a_restart_begins_a_new_count_of_crashes(database: Database, settings: Settings) -> None:
    record(database)
    for _ in range(2):
        for _ in range(_MOST - 1):
            claim_and_die(database, settings)
            recover(database, settings)
        Claims(database, settings.lane("chat")).take(f"exr_{uuid.uuid4()}", 1)
        store.requeue(database)
    assert records.states(database, ["exe_1"]) == {"exe_1": "queued"}


async def test_what_waits_for_a_person_is_not_given_up_however_often_its_process_dies(
    database: Database, settings: Settings
) -> None:
    record(database)
    for _ in range(_MOST - 1):
        claim_and_die(database, settings)
        recover(database, settings)
    engine, waits = Engine(settings), asyncio.Event()

    async def work(context: WorkContext, payload: Any) -> None:
        await context.note_waiting()
        waits.set()
        await asyncio.Event().wait()

    engine.register("work", work)
    async with engine:
        await waits.wait()
        recover(database, settings)  # as if this process had died now
        assert records.count_dead_letters(database) == 0


async def test_a_stop_is_on_record_before_the_code_has_stopped(settings: Settings) -> None:
    engine, begun, goes_on = Engine(settings), asyncio.Event(), asyncio.Event()

    async def work(context: WorkContext, payload: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await goes_on.wait()

    engine.register("work", work)
    async with engine:
        handle = await engine.start("work", None, key="k", lane="chat")
        await begun.wait()
        await handle.cancel()
        assert store.waiting(engine.database, ["chat"])[1] == [handle.id]
        goes_on.set()


async def test_a_stop_on_record_is_seen_when_its_run_begins_again(
    database: Database, settings: Settings
) -> None:
    """Not at the next poll, which is far away here."""
    record(database)
    claim_and_die(database, settings)
    store.ask_to_stop(database, "exe_1")
    engine, stopped = Engine(replace(settings, poll_ms=3_600_000)), asyncio.Event()

    async def work(context: WorkContext, payload: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    engine.register("work", work)
    async with engine, asyncio.timeout(60):
        await stopped.wait()


def test_a_crash_after_a_further_step_begins_a_new_count(database: Database, settings: Settings) -> None:
    step = database.sql(
        """INSERT INTO {t}operation_outputs (workflow_uuid, function_id, function_name)
        VALUES ('exe_1', :number, 'model')"""
    )
    record(database)
    for number in range(_MOST * 2):
        claim_and_die(database, settings)
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
    (row,) = schedules.list_schedules(database)
    assert datetime.fromisoformat(row["next_at"]) < datetime.now(UTC) + timedelta(minutes=2)
    assert made.set_back() == 0


def test_a_wait_that_began_before_the_clock_was_set_back_is_no_longer(database: Database) -> None:
    soon_ms, later_ms = 120_000, 40 * 86_400_000
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    new = [
        store.new_execution(
            "work", None, key=id_, lane="chat", version="1", id_=id_, delay_until_ms=now_ms + ahead + soon_ms
        )
        for id_, ahead in (("exe_ahead", later_ms), ("exe_right", 0))
    ]
    with database.write() as connection:
        store.insert(database, connection, new)
        move = "UPDATE {t}workflow_status SET updated_at = updated_at + :by WHERE workflow_uuid = 'exe_ahead'"
        connection.execute(database.sql(move), {"by": later_ms})

    assert store.set_back_delays(database) == 1
    with database.read() as connection:
        left = database.sql("SELECT delay_until_epoch_ms - updated_at FROM {t}workflow_status")
        assert [abs(row[0] - soon_ms) < 60_000 for row in connection.execute(left)] == [True, True]
        late = database.sql("SELECT count(*) FROM {t}workflow_status WHERE delay_until_epoch_ms > :later")
        assert connection.execute(late, {"later": now_ms + later_ms}).scalar_one() == 0
    assert store.set_back_delays(database) == 0


def test_what_is_recorded_in_one_moment_keeps_its_order(database: Database, settings: Settings) -> None:
    """An id may be older than its place in the queue, so ids must not decide."""
    ids = [f"exe_{9 - number}" for number in range(9)]
    new = [store.new_execution("work", None, key="k", lane="chat", version="1", id_=id_) for id_ in ids]
    with database.write() as connection:
        store.insert(database, connection, new)
    claims = Claims(database, settings.lane("chat"))
    taken: list[str] = []
    done = database.sql("UPDATE {t}workflow_status SET status = 'SUCCESS' WHERE status = 'PENDING'")
    for _ in ids:
        taken += claims.take("exr_1", 5).ids
        with database.write() as connection:
            connection.execute(done)

    assert taken == ids
