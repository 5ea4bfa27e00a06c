"""One ledger, open: who waits for whom, what a failure takes back, and what is left after close."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from nexus.config import LedgersConfig
from nexus.errors import (
    LedgerBusyError,
    LedgerClosedError,
    LedgerCorruptError,
    LedgerError,
    LedgerFullError,
)
from nexus.ledgers import Ledgers, migrate
from nexus.ledgers.database import Database

_LONG_S = 20.0  # A wait that only a hang reaches.


@asynccontextmanager
async def opened(folder: Path, ledger: str = "events", **settings: Any) -> AsyncGenerator[Database]:
    path = folder / f"{ledger}.db"
    migrate.create(path, ledger)
    with ThreadPoolExecutor(6) as executor:
        database = Database(path, ledger, LedgersConfig(**settings), executor)
        try:
            yield database
        finally:
            await database.close()


def publish(type_: str) -> Callable[[apsw.Connection], None]:
    def work(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO bus_events (type) VALUES (?)", (type_,))

    return work


def published(connection: apsw.Connection) -> list[str]:
    rows = connection.execute("SELECT type FROM bus_events ORDER BY seq")
    return [cast("str", row[0]) for row in rows]


def hold(started: threading.Event, release: threading.Event) -> Callable[[apsw.Connection], None]:
    """Work that says when it runs and goes on only when it is told."""

    def work(connection: apsw.Connection) -> None:
        started.set()
        assert release.wait(_LONG_S)

    return work


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, _LONG_S)


async def test_a_write_that_returned_is_seen_by_others(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await database.write(publish("one"))
        other = apsw.Connection(str(database.path))
        assert published(other) == ["one"]
        other.close()
        assert await database.read(published) == ["one"]


async def test_a_write_returns_what_its_work_returns(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        assert await database.write(lambda c: c.execute("SELECT 41 + 1").get) == 42


async def test_writes_run_in_the_order_in_which_they_were_asked_for(tmp_path: Path) -> None:
    names = [f"n{number:03d}" for number in range(300)]
    async with opened(tmp_path) as database:
        await asyncio.gather(*(database.write(publish(name)) for name in names))
        assert await database.read(published) == names


async def test_waiting_writes_are_committed_together(tmp_path: Path) -> None:
    commits = 0

    def count() -> bool:
        nonlocal commits
        commits += 1
        return False

    async with opened(tmp_path) as database:
        await database.maintain(lambda c: c.set_commit_hook(count))
        started, release = threading.Event(), threading.Event()
        first = asyncio.create_task(database.write(hold(started, release)))
        await until(started)
        others = [asyncio.create_task(database.write(publish("x"))) for _ in range(128)]
        await asyncio.sleep(0.05)
        release.set()
        await asyncio.gather(first, *others)
        assert len(await database.read(published)) == 128
        assert commits <= 4


async def test_a_failing_write_takes_back_only_its_own_changes(tmp_path: Path) -> None:
    def fail(connection: apsw.Connection) -> None:
        publish("lost")(connection)
        raise KeyError("on purpose")

    async with opened(tmp_path) as database:
        started, release = threading.Event(), threading.Event()
        first = asyncio.create_task(database.write(hold(started, release)))
        await until(started)
        jobs = (publish("before"), fail, publish("after"))
        tasks = [asyncio.create_task(database.write(job)) for job in jobs]
        await asyncio.sleep(0.05)
        release.set()
        await first
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), KeyError, type(None)]
        assert await database.read(published) == ["before", "after"]


async def test_a_refused_statement_keeps_its_own_error(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        with pytest.raises(apsw.ConstraintError):
            await database.write(lambda c: c.execute("INSERT INTO bus_events (type) VALUES (NULL)"))
        with pytest.raises(apsw.SQLError):
            await database.read(lambda c: c.execute("SELECT * FROM nothing_of_the_kind"))
        await database.write(publish("still works"))
        assert await database.read(published) == ["still works"]


async def test_no_error_of_the_work_leaves_its_caller_waiting(tmp_path: Path) -> None:
    def exhausted(connection: apsw.Connection) -> object:
        return next(iter(published(connection)))

    async with opened(tmp_path) as database:
        for use in (database.write, database.read, database.maintain):
            with pytest.raises(RuntimeError, match="StopIteration"):
                await asyncio.wait_for(use(exhausted), _LONG_S)


async def test_maintenance_runs_outside_a_transaction_and_in_its_turn(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        first = asyncio.create_task(database.write(publish("first")))
        vacuum = asyncio.create_task(database.maintain(lambda c: c.execute("VACUUM") and published(c)))
        second = asyncio.create_task(database.write(publish("second")))
        await asyncio.gather(first, second)
        assert await vacuum == ["first"]
        assert await database.read(published) == ["first", "second"]


async def test_a_read_sees_one_snapshot_from_beginning_to_end(tmp_path: Path) -> None:
    counted, release = threading.Event(), threading.Event()

    def twice(connection: apsw.Connection) -> tuple[int, int]:
        before = len(published(connection))
        counted.set()
        assert release.wait(_LONG_S)
        return before, len(published(connection))

    async with opened(tmp_path) as database:
        await database.write(publish("one"))
        reading = asyncio.create_task(database.read(twice))
        await until(counted)
        await database.write(publish("two"))
        release.set()
        assert await reading == (1, 1)
        assert await database.read(published) == ["one", "two"]


async def test_a_read_does_not_see_a_write_under_way_nor_wait_for_it(tmp_path: Path) -> None:
    written, release = threading.Event(), threading.Event()

    def slow(connection: apsw.Connection) -> None:
        publish("unfinished")(connection)
        hold(written, release)(connection)

    async with opened(tmp_path) as database:
        writing = asyncio.create_task(database.write(slow))
        await until(written)
        assert await asyncio.wait_for(database.read(published), _LONG_S) == []
        release.set()
        await writing
        assert await database.read(published) == ["unfinished"]


async def test_a_read_refuses_every_change(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        with pytest.raises(LedgerError):
            await database.read(publish("no"))
        assert await database.read(published) == []


async def test_more_reads_than_connections_wait_for_their_turn(tmp_path: Path) -> None:
    async with opened(tmp_path, readers=2) as database:
        results = await asyncio.gather(*(database.read(published) for _ in range(50)))
        assert results == [[]] * 50


async def test_no_setting_of_readers_makes_reading_hang(tmp_path: Path) -> None:
    async with opened(tmp_path, readers=0) as database:
        assert await asyncio.wait_for(database.read(published), _LONG_S) == []


async def test_the_event_loop_goes_on_while_a_write_is_under_way(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        started, release = threading.Event(), threading.Event()
        writing = asyncio.create_task(database.write(hold(started, release)))
        await until(started)
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not writing.done()
        release.set()
        await writing


async def test_a_write_whose_caller_gave_up_waiting_is_not_done(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        started, release = threading.Event(), threading.Event()
        first = asyncio.create_task(database.write(hold(started, release)))
        await until(started)
        unwanted = asyncio.create_task(database.write(publish("unwanted")))
        await asyncio.sleep(0.01)
        unwanted.cancel()
        with pytest.raises(asyncio.CancelledError):
            await unwanted
        release.set()
        await first
        await database.write(publish("wanted"))
        assert await database.read(published) == ["wanted"]


async def test_a_write_under_way_is_finished_though_its_caller_gave_up(tmp_path: Path) -> None:
    started, release = threading.Event(), threading.Event()

    def slow(connection: apsw.Connection) -> None:
        hold(started, release)(connection)
        publish("done anyway")(connection)

    async with opened(tmp_path) as database:
        writing = asyncio.create_task(database.write(slow))
        await until(started)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        release.set()
        await database.write(publish("next"))
        assert await database.read(published) == ["done anyway", "next"]


async def test_close_finishes_what_was_accepted(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        started, release = threading.Event(), threading.Event()
        first = asyncio.create_task(database.write(hold(started, release)))
        await until(started)
        waiting = [asyncio.create_task(database.write(publish("x"))) for _ in range(100)]
        reads = [asyncio.create_task(database.read(published)) for _ in range(10)]
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0.01)
        assert not closing.done()
        release.set()
        await asyncio.gather(first, closing, *waiting, *reads)
    async with opened(tmp_path) as database:
        assert len(await database.read(published)) == 100


async def test_use_after_close_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await database.close()
        for use in (database.write, database.read, database.maintain):
            with pytest.raises(LedgerClosedError):
                await use(published)


async def test_close_leaves_no_file_open_and_folds_the_log_into_the_ledger(tmp_path: Path) -> None:
    def open_files() -> list[str]:
        links = list(Path("/proc/self/fd").iterdir())
        return [str(link.readlink()) for link in links if link.is_symlink()]

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc to see which files are open")
    async with opened(tmp_path) as database:
        await database.write(publish("x"))
        await asyncio.gather(*(database.read(published) for _ in range(20)))
        assert any(str(tmp_path) in file for file in open_files())
        await database.close()
        assert not any(str(tmp_path) in file for file in open_files())
        assert (tmp_path / "events.db-wal").stat().st_size == 0


async def test_closing_twice_waits_for_the_same_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        started, release = threading.Event(), threading.Event()
        writing = asyncio.create_task(database.write(hold(started, release)))
        await until(started)
        closes = [asyncio.create_task(database.close()) for _ in range(2)]
        await asyncio.sleep(0.02)
        assert not any(close.done() for close in closes)
        release.set()
        await asyncio.gather(writing, *closes)


async def test_a_close_whose_caller_gave_up_still_closes(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        started, release = threading.Event(), threading.Event()
        writing = asyncio.create_task(database.write(hold(started, release)))
        await until(started)
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0.01)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        release.set()
        await writing
        await database.close()
        assert (tmp_path / "events.db-wal").stat().st_size == 0


async def test_a_ledger_that_was_never_used_opens_no_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await database.close()
        assert [file.name for file in tmp_path.iterdir()] == ["events.db"]


async def test_a_full_disk_is_told_and_costs_no_acknowledged_write(tmp_path: Path) -> None:
    def fill(connection: apsw.Connection) -> None:
        publish("x" * 1_000_000)(connection)

    async with opened(tmp_path) as database:
        await database.write(publish("kept"))
        pages = await database.maintain(lambda c: c.pragma("page_count"))
        await database.maintain(lambda c: c.pragma("max_page_count", pages + 2))
        with pytest.raises(LedgerFullError):
            await database.write(fill)
        outcomes = await asyncio.gather(*(database.write(fill) for _ in range(3)), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {LedgerFullError}
        await database.maintain(lambda c: c.pragma("max_page_count", 1_000_000))
        await database.write(publish("after"))
        assert await database.read(published) == ["kept", "after"]


async def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    migrate.create(path, "events")
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    async with opened(tmp_path) as database:
        with pytest.raises(LedgerCorruptError):
            await database.read(published)


async def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "events.db").write_text("not a database " * 1000)
    async with opened(tmp_path) as database:
        for use in (database.read, database.write):
            with pytest.raises(LedgerCorruptError):
                await use(published)


async def test_another_ledger_in_this_ones_place_is_told(tmp_path: Path) -> None:
    migrate.create(tmp_path / "events.db", "memory")
    async with opened(tmp_path) as database:
        with pytest.raises(LedgerCorruptError, match="contains the memory ledger"):
            await database.read(published)


async def test_a_missing_file_is_told_and_not_made(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        database.path.unlink()
        with pytest.raises(LedgerError, match="is missing"):
            await database.write(publish("x"))
        assert not database.path.exists()


async def test_a_lock_that_is_never_given_back_is_told_after_the_timeout(tmp_path: Path) -> None:
    async with opened(tmp_path, busy_timeout_ms=50) as database:
        other = apsw.Connection(str(database.path))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusyError):
            await database.write(publish("refused"))
        assert await database.read(published) == []
        other.close()
        await database.write(publish("accepted"))
        assert await database.read(published) == ["accepted"]


_HOLDER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE; INSERT INTO bus_events (type) VALUES ('theirs')")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


async def test_a_second_writer_waits_behind_the_first_of_another_process(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        with subprocess.Popen(
            [sys.executable, "-c", _HOLDER, str(database.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as holder:
            assert holder.stdin is not None
            assert holder.stdout is not None
            assert await asyncio.to_thread(holder.stdout.readline) == "held\n"
            writing = asyncio.create_task(database.write(publish("ours")))
            await asyncio.sleep(0.2)
            assert not writing.done()
            assert await database.read(published) == []
            holder.stdin.write("\n")
            holder.stdin.flush()
            await asyncio.wait_for(writing, _LONG_S)
            assert await asyncio.to_thread(holder.wait) == 0
        assert await database.read(published) == ["theirs", "ours"]


async def test_work_that_meets_a_changed_schema_is_run_again_from_its_start(opened: Ledgers) -> None:
    attempts: list[str] = []

    def work(connection: apsw.Connection) -> str:
        attempts.append("run")
        if connection.pragma("query_only") == 0:
            connection.execute(f"INSERT INTO threads (id, channel) VALUES ('t{len(attempts)}', 'cli')")
        if len(attempts) % 2:
            raise apsw.SchemaChangeError("the schema has changed")
        return f"{connection.execute('SELECT group_concat(id) FROM threads').get}"

    assert await opened.events.write(work) == "t2"
    assert await opened.events.read(work) == "t2"
    assert len(attempts) == 4


def thread_of(connection: apsw.Connection) -> int:
    return threading.get_ident()


def count_slowly(connection: apsw.Connection) -> tuple[int, int]:
    """A read of some hundred milliseconds, if nothing stops it on the event loop."""
    numbers = "SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000000"
    found = connection.execute(f"WITH RECURSIVE n(x) AS ({numbers}) SELECT max(x) FROM n").get
    return cast("int", found), threading.get_ident()


async def test_a_small_read_runs_where_it_is_and_sees_what_was_committed(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await database.read_now(published)  # the first one opens a connection, on a thread
        assert await database.read_now(thread_of) == threading.get_ident()
        for number in range(3):
            await database.write(publish(str(number)))
            assert len(await database.read_now(published)) == number + 1


async def test_a_read_that_turns_out_large_goes_to_a_thread(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await database.read_now(published)
        count, thread = await database.read_now(count_slowly)
        assert count == 2_000_000
        assert thread != threading.get_ident()
        assert await database.read_now(thread_of) == threading.get_ident()


async def test_a_read_of_another_event_loop_goes_to_a_thread(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await database.read_now(published)

        async def read() -> tuple[int, int]:
            return threading.get_ident(), await database.read_now(thread_of)

        own, ran = await asyncio.to_thread(asyncio.run, read())
        assert ran not in {own, threading.get_ident()}


async def test_a_small_read_can_not_write_and_tells_what_is_wrong(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await database.read_now(published)
        with pytest.raises(LedgerError, match="readonly"):
            await database.read_now(publish("refused"))
        assert await database.read_now(published) == []


async def test_no_small_read_after_the_close(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await database.read_now(published)
        await database.close()
        with pytest.raises(LedgerClosedError):
            await database.read_now(published)
