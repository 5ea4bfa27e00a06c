"""Which homes a demonstration may be written into, and what becomes of an earlier one."""

import shutil
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from nexus.config import Config
from nexus.demo.place import finish, prepare
from nexus.errors import HomeError
from nexus.home import Home
from nexus.ledgers import Ledgers, events
from nexus.ledgers.events import NewEvent


async def _demonstrate(home: Home, *, again: bool = False) -> None:
    await prepare(home, Config(), again=again)
    await _say(home, "Invented")
    finish(home)


async def _say(home: Home, text: str) -> None:
    async with Ledgers(home, Config().ledgers) as ledgers:
        new = NewEvent(channel="cli", content=text)
        await ledgers.events.write(events.append, events=[new])


def _count(connection: apsw.Connection) -> int:
    return int(str(connection.execute("SELECT count(*) FROM events").get))


async def _events(home: Home) -> int:
    async with Ledgers(home, Config().ledgers) as ledgers:
        return await ledgers.events.read(_count)


async def test_an_empty_home_is_filled_and_a_demonstration_made_anew(home: Home) -> None:
    await _demonstrate(home)
    (home.data / "left.txt").touch()
    await _demonstrate(home)
    assert not (home.data / "left.txt").exists()
    assert await _events(home) == 1


async def test_what_was_said_since_is_not_erased_without_a_word(home: Home) -> None:
    await _demonstrate(home)
    await _say(home, "Mine")
    with pytest.raises(HomeError, match="contains more") as refused:
        await prepare(home, Config())
    assert "--again" in refused.value.hint
    assert await _events(home) == 2
    await _demonstrate(home, again=True)
    assert await _events(home) == 1


async def test_a_file_that_an_agent_was_given_since_is_not_erased(home: Home) -> None:
    await _demonstrate(home)
    (home.meeseeks / "notes.md").write_text("Mine")
    with pytest.raises(HomeError, match="contains more"):
        await prepare(home, Config())


async def test_again_does_not_erase_a_home_that_was_never_a_demonstration(home: Home) -> None:
    await _say(home, "Mine")
    with pytest.raises(HomeError, match="already contains"):
        await prepare(home, Config(), again=True)
    assert await _events(home) == 1


async def test_an_earlier_one_is_kept_until_the_new_one_is_written(home: Home) -> None:
    await _demonstrate(home)
    (home.data / "left.txt").touch()
    await prepare(home, Config())
    assert list(home.root.rglob("left.txt"))
    finish(home)
    assert not list(home.root.rglob("left.txt"))


async def test_one_that_lacks_a_directory_is_made_anew(home: Home) -> None:
    await _demonstrate(home)
    shutil.rmtree(home.run)
    await _demonstrate(home)
    assert home.run.is_dir()


async def test_one_that_was_cut_off_is_named_and_can_be_made_anew(home: Home) -> None:
    await prepare(home, Config())
    with pytest.raises(HomeError, match="incomplete demo"):
        await prepare(home, Config())
    await _demonstrate(home, again=True)
    assert await _events(home) == 1


@pytest.mark.parametrize("moves", range(5))
async def test_a_kill_while_it_makes_room_leaves_what_can_be_made_a_home(
    home: Home, moves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _demonstrate(home)
    (home.data / "left.txt").touch()
    rename, left = Path.rename, [None] * moves

    def killed(self: Path, target: Path) -> Path:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        with suppress(KeyboardInterrupt):
            await prepare(home, Config())
    assert list(home.root.rglob("left.txt"))
    await _demonstrate(home, again=True)
    assert await _events(home) == 1
    assert not list(home.root.rglob("left.txt"))
