"""A private copy of a home: what is done in it stays in it, and nothing of it stays."""

from hashlib import sha256

import apsw
import pytest

from nexus.config import LedgersConfig
from nexus.errors import HomeBusyError
from nexus.home import Home
from nexus.ledgers import Ledgers, backup, events, forgetting


def digest(home: Home) -> dict[str, str]:
    return {
        str(path.relative_to(home.root)): sha256(path.read_bytes()).hexdigest()
        for path in home.root.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")
    }


async def say(home: Home, text: str) -> None:
    async with Ledgers(home, LedgersConfig()) as ledgers:
        await ledgers.events.write(
            lambda connection: connection.execute(
                "INSERT INTO events (id, channel, direction, content) VALUES (?, 'c', 'inbound', ?)",
                (f"evt_{text}", text),
            )
        )


async def test_what_is_written_to_the_copy_does_not_reach_the_home(home: Home) -> None:
    await say(home, "known")
    before = digest(home)
    with backup.private_copy(home) as copy:
        await say(copy, "tried")
        async with Ledgers(copy, LedgersConfig()) as ledgers:
            assert await ledgers.events.read(events.get, event_id="evt_known")
    assert digest(home) == before
    assert not copy.root.exists()


async def test_the_wal_that_a_crash_left_is_copied_and_stays(home: Home) -> None:
    await say(home, "known")
    connection = apsw.Connection(str(home.ledger("events")))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.execute(
        "INSERT INTO events (id, channel, direction, content) "
        "VALUES ('evt_wal', 'c', 'inbound', 'in the WAL')"
    )
    connection.close()
    before = digest(home)
    assert home.ledger("events").with_name("events.db-wal").stat().st_size
    with backup.private_copy(home) as copy:
        async with Ledgers(copy, LedgersConfig()) as ledgers:
            found = await ledgers.events.read(events.get, event_id="evt_wal")
    assert found is not None
    assert found.content == "in the WAL"
    assert digest(home) == before


def test_a_copy_that_fails_is_deleted(home: Home) -> None:
    before = digest(home)
    with pytest.raises(KeyboardInterrupt), backup.private_copy(home):
        raise KeyboardInterrupt
    assert digest(home) == before


def test_what_a_killed_process_left_is_deleted_by_the_next(home: Home) -> None:
    left = home.run / "preview" / "data" / "left.db"
    left.parent.mkdir(parents=True)
    left.write_text("private")
    with backup.private_copy(home) as copy:
        assert not left.exists()
    assert not copy.root.exists()


def test_there_is_one_at_a_time(home: Home) -> None:
    with backup.private_copy(home) as copy:
        with pytest.raises(HomeBusyError, match="Another preview"), backup.private_copy(home):
            pass
        assert copy.ledger("memory").exists()


async def test_forgetting_deletes_what_a_killed_preview_left(home: Home) -> None:
    left = home.run / "preview" / "data" / "left.db"
    left.parent.mkdir(parents=True)
    left.write_text("known")
    await say(home, "known")
    async with Ledgers(home, LedgersConfig()) as ledgers:
        target = await forgetting.find(ledgers, lambda connection: forgetting.event(connection, "evt_known"))
        await forgetting.forget(ledgers, target, actor="ada")
    assert not left.exists()
