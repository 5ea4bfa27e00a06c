"""A home that another host may own is not written to."""

import apsw
import pytest

from nexus.config import LedgersConfig
from nexus.errors import FencedError
from nexus.home import LEDGERS, Home
from nexus.ledgers import Ledgers, events, fencing, sql
from nexus.ledgers.events import NewEvent


class Right:
    """The right to write, until it is lost."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_lost = False

    def check(self) -> None:
        if self.is_lost:
            raise FencedError("lost")


@pytest.mark.parametrize("ledger", LEDGERS)
async def test_no_ledger_is_written_once_the_right_is_lost_or_a_higher_epoch_has_begun(
    home: Home, ledger: str
) -> None:
    fencing.stamp(home, 3)
    right = Right(3)
    make = "CREATE TABLE marks (number INTEGER) STRICT"
    mark = "INSERT INTO marks VALUES (?)"
    async with Ledgers(home, LedgersConfig(), fence=right) as opened:
        database = opened[ledger]
        await database.write(sql.run, make)
        await database.write(sql.run, mark, (1,))
        right.is_lost = True
        with pytest.raises(FencedError):
            await database.write(sql.run, mark, (2,))
        with pytest.raises(FencedError):
            await database.maintain(sql.run, mark, (3,))
        right.is_lost = False
        await database.write(sql.run, mark, (4,))
        fencing.stamp(home, 4)
        with pytest.raises(FencedError, match="epoch 4"):
            await database.write(sql.run, mark, (5,))
        assert await database.read(sql.rows, "SELECT number FROM marks") == [(1,), (4,)]


async def test_a_right_that_is_lost_during_a_write_undoes_it(home: Home) -> None:
    fencing.stamp(home, 1)
    right = Right(1)

    def lose(connection: apsw.Connection) -> None:
        events.append(connection, [NewEvent(channel="cli", content="Too late")])
        right.is_lost = True

    async with Ledgers(home, LedgersConfig(), fence=right) as opened:
        with pytest.raises(FencedError):
            await opened.events.write(lose)
        assert await opened.events.read(sql.value, "SELECT count(*) FROM events") == 0


def test_an_epoch_only_rises_and_counts_once_all_ledgers_have_it(home: Home) -> None:
    assert fencing.read_epoch(home) is None
    fencing.stamp(home, 5)
    fencing.stamp(home, 4)
    assert fencing.read_epoch(home) == 5
    home.ledger("runtime").unlink()
    assert fencing.read_epoch(home) is None
