"""The six ledgers together: opening costs nothing that closing does not give back."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from new_homes import new_home
from nexus.config import LedgersConfig
from nexus.errors import HomeBusyError, HomeMissingError, LedgerClosedError, LedgerError
from nexus.home import LEDGERS, Home, HomeLock
from nexus.ledgers import Ledgers, events, sql


async def test_a_home_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HomeMissingError):
        Ledgers(Home(tmp_path / "nowhere"), LedgersConfig())


async def test_every_ledger_is_reached_by_its_name(opened: Ledgers) -> None:
    assert [database.ledger for database in opened] == list(LEDGERS)
    assert opened["memory"] is opened.memory


async def test_opening_a_home_opens_no_file_and_starts_no_thread(home: Home) -> None:
    before = set(threading.enumerate())
    async with Ledgers(home, LedgersConfig()):
        assert set(threading.enumerate()) == before
        assert not list(home.data.glob("*-wal"))


async def test_closing_a_home_leaves_no_thread_no_lock_and_an_empty_log(home: Home) -> None:
    before = set(threading.enumerate())
    async with Ledgers(home, LedgersConfig()) as opened:
        await asyncio.gather(*(database.write(lambda c: c.total_changes()) for database in opened))
        await asyncio.gather(*(database.read(lambda c: c.total_changes()) for database in opened))
        with pytest.raises(HomeBusyError), HomeLock(home, "alone"):
            pass
    assert set(threading.enumerate()) == before
    assert [log.stat().st_size for log in home.data.glob("*-wal")] == [0] * len(LEDGERS)
    with HomeLock(home, "alone"):
        pass
    with pytest.raises(LedgerClosedError):
        await opened.events.read(lambda c: c.total_changes())


async def test_many_homes_share_a_few_threads(tmp_path: Path) -> None:
    homes = [new_home(tmp_path / str(number)) for number in range(12)]
    before = threading.active_count()
    with ThreadPoolExecutor(3) as executor:
        opened = [Ledgers(home, LedgersConfig(), executor) for home in homes]
        writes = (each.events.write(lambda c: c.execute("SELECT 1").get) for each in opened)
        assert await asyncio.gather(*writes) == [1] * len(homes)
        assert threading.active_count() - before <= 3
        await asyncio.gather(*(each.close() for each in opened))
        # The threads belong to the host: closing homes does not stop them.
        assert executor.submit(len, homes).result() == len(homes)


async def test_rows_are_dated_by_the_clock_that_ledgers_are_given(home: Home) -> None:
    moment = datetime(2021, 3, 4, 5, 6, 7, 891_000, tzinfo=UTC)
    async with Ledgers(home, LedgersConfig(), now=lambda: moment) as opened:
        await opened.events.write(events.ensure_thread, channel="cli", external_id="main")
        dated = await opened.events.read(lambda c: c.execute("SELECT created_at FROM threads").get)
    assert dated == "2021-03-04T05:06:07.891Z"
    async with Ledgers(home, LedgersConfig()) as opened:
        today = await opened.events.read(lambda c: c.execute("SELECT strftime('%Y', 'now')").get)
    assert str(today) >= "2026"


async def test_one_read_sees_several_ledgers_and_leaves_their_logs_empty(home: Home) -> None:
    statement = "SELECT (SELECT count(*) FROM threads) + (SELECT count(*) FROM entities)"
    async with Ledgers(home, LedgersConfig()) as opened:
        await opened.events.write(events.ensure_thread, channel="cli", external_id="main")
        assert await opened.read(sql.value, statement) == 1
        with pytest.raises(LedgerError):
            await opened.read(sql.run, "DELETE FROM threads")
    assert [log.stat().st_size for log in home.data.glob("*-wal")] == [0] * len(list(home.data.glob("*-wal")))
