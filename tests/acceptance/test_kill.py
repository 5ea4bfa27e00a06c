"""A process that is killed at any moment loses nothing that it acknowledged and leaves nothing half done.

NEXUS_LONG=1: fifty moments.
"""

import asyncio
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import apsw
import pytest

from acceptance.program import NEXUS, nexus
from acceptance.writing import BATCH
from long_form import times
from migration import later_release
from migration.old_hooks import OLD_ROWS, old_database
from nexus import config
from nexus.home import LEDGERS, Home
from nexus.ledgers import Ledgers, migrate, sql

_KILLS_WHILE_WRITING = times(6, long=20)
_KILLS_FROM_THE_START = times(2, long=10)
_KILLS_OF_INIT = times(2, long=10)
_KILLS_OF_MIGRATION = times(2, long=10)
_SEED = 35

_TESTS = Path(__file__).parent.parent
_WRITING = [sys.executable, str(Path(__file__).with_name("writing.py"))]
_FOREVER = "600"
_TEXT = {"events": "SELECT content FROM events", "memory": "SELECT fact FROM facts",
         "runtime": "SELECT name FROM spans"}  # fmt: skip
_INDEXES = {"events": "events_fts", "memory": "facts_fts"}
_OLD_HOOKS = 20_000


class Victim:
    """A process that is going to be killed; what it printed before is what it acknowledged."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def first_line(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def kill_after(self, seconds: float) -> list[str]:
        try:
            time.sleep(seconds)
        finally:
            self._process.send_signal(signal.SIGKILL)
            written, _ = self._process.communicate(timeout=30)
        assert self._process.returncode in {-signal.SIGKILL, 0}
        return written.decode().split()


def writer(home: Home, name: str) -> Victim:
    return Victim([*_WRITING, str(home.root), name, _FOREVER])


def check_ledgers(home: Home) -> None:
    """Every file that is there is sound and at one version of its schema, records included."""
    for name in LEDGERS:
        if home.ledger(name).exists():
            connection = apsw.Connection(str(home.ledger(name)), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                check_ledger(connection, name)
            finally:
                connection.close()


def check_ledger(connection: apsw.Connection, name: str) -> None:
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    assert migrate.version(connection, name) == migrate.latest(name)
    records = connection.execute("SELECT version, name FROM schema_migrations ORDER BY version").fetchall()
    assert records == [(number, step) for number, step, _ in sql.migrations(name)]
    if index := _INDEXES.get(name):
        connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")


def check_writes(home: Home, acknowledged: list[str]) -> None:
    """Each acknowledged batch is there once, and none is there in part."""
    found: Counter[str] = Counter()
    for name, query in _TEXT.items():
        if home.ledger(name).exists():
            connection = apsw.Connection(str(home.ledger(name)), flags=apsw.SQLITE_OPEN_READWRITE)
            texts = [str(row[0]) for row in connection.execute(query)]
            connection.close()
            assert len(texts) == len(set(texts))
            found.update(text.rpartition(" ")[0] for text in texts)
    assert set(found.values()) <= {BATCH}
    assert set(acknowledged) <= found.keys()
    assert len(acknowledged) == len(set(acknowledged))


async def open_and_write(home: Home) -> None:
    async with Ledgers(home, config.load(home.config_file).ledgers) as opened:
        await asyncio.gather(*(database.write(lambda c: c.total_changes()) for database in opened))


async def test_nothing_acknowledged_is_lost_when_a_writer_is_killed(tmp_path: Path) -> None:
    home, acknowledged = Home(tmp_path / "home"), list[str]()
    for number in range(_KILLS_WHILE_WRITING):
        victim = writer(home, str(number))
        acknowledged.append(victim.first_line().decode().strip())
        acknowledged += victim.kill_after(random.uniform(0, 0.25))
        check_ledgers(home)
        check_writes(home, acknowledged)
    assert {key.split("/")[0] for key in acknowledged} == set(_TEXT)
    await open_and_write(home)


async def test_a_home_whose_maker_was_killed_at_any_moment_can_be_used(tmp_path: Path) -> None:
    usual = _duration([*_WRITING, str(tmp_path / "usual"), "usual", "0"])
    for number in range(_KILLS_FROM_THE_START):
        home = Home(tmp_path / str(number))
        acknowledged = writer(home, "first").kill_after(random.uniform(0.2, 1.3) * usual)
        if home.exists:
            check_ledgers(home)
            check_writes(home, acknowledged)
        victim = writer(home, "second")
        acknowledged.append(victim.first_line().decode().strip())
        acknowledged += victim.kill_after(0)
        check_ledgers(home)
        check_writes(home, acknowledged)
        await open_and_write(home)


async def test_a_killed_init_is_completed_by_the_next(tmp_path: Path) -> None:
    usual = _duration([str(NEXUS), "--home", str(tmp_path / "usual"), "init"])
    for number in range(_KILLS_OF_INIT):
        home = Home(tmp_path / str(number))
        Victim([str(NEXUS), "--home", str(home.root), "init"]).kill_after(random.uniform(0.3, 1.0) * usual)
        check_ledgers(home)
        again = nexus(home.root, "init")
        assert (again.returncode, again.stderr) == (0, "")
        check_ledgers(home)
        assert all(home.ledger(name).exists() for name in LEDGERS)
        assert home.config_file.read_text() == config.template()
        await open_and_write(home)


# Kills itself after so many steps of SQLite on the runtime ledger, or says how many it takes.
_MIGRATE = """
import asyncio, itertools, os, signal, sys
from pathlib import Path
import apsw
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers

sys.path.insert(0, sys.argv[3])
from migration import later_release

steps, last = itertools.count(1), int(sys.argv[2])

def count():
    if next(steps) == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return False

def watch(connection):
    if connection.filename.endswith("runtime.db"):
        connection.set_progress_handler(count, 500)

async def main():
    async with Ledgers(Home(Path(sys.argv[1])), LedgersConfig()) as opened:
        await opened.runtime.read(lambda c: c.execute("SELECT count(*) FROM automations").get)

apsw.connection_hooks.append(watch)
with later_release.installed():
    asyncio.run(main())
print(next(steps) - 1)
"""


@pytest.fixture
def old_home(home: Home) -> Home:
    """A home whose runtime ledger is still the old hooks database, large enough to take a while.

    To a later release it goes through several steps.
    """
    home.ledger("runtime").unlink()
    rows = [(f"{row[0]}-{number}", *row[1:]) for number in range(_OLD_HOOKS // 2) for row in OLD_ROWS[:2]]
    old_database(home.ledger("runtime"), rows)
    return home


async def test_a_killed_migration_happened_or_did_not(old_home: Home, tmp_path: Path) -> None:
    def copy(name: str) -> Home:
        return Home(shutil.copytree(old_home.root, tmp_path / name))

    def run(home: Home, last: int) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", _MIGRATE, str(home.root), str(last), str(_TESTS)]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600)

    newest, steps, chance = 0, int(run(copy("usual"), 0).stdout), random.Random(_SEED)
    reached: list[int] = []
    for number in range(_KILLS_OF_MIGRATION):
        home = copy(str(number))
        last = round(steps * (number + chance.random()) / _KILLS_OF_MIGRATION)
        assert run(home, max(1, last)).returncode == -signal.SIGKILL
        reached.append(_check_migrating(home.ledger("runtime")))
        with later_release.installed():
            await open_and_write(home)
            check_ledgers(home)
            newest = migrate.latest("runtime")
        assert _check_migrating(home.ledger("runtime")) == newest
        assert _journal_mode(home.ledger("runtime")) == "wal"
        shutil.rmtree(home.root)
    # Each got as far as its last whole step: the first not to the end, and none less far than the one before.
    assert reached == sorted(reached)
    assert reached[0] < reached[-1] <= newest


def _check_migrating(path: Path) -> int:
    """The version that a file is at, having checked that it is wholly there."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        version = migrate.version(connection, "runtime")
        records = connection.execute("SELECT version FROM schema_migrations").fetchall() if version else []
        assert records == [(number,) for number in range(sql.BASELINE, version + 1)]
        assert ("schema_migrations" in tables) == (version >= sql.BASELINE)
        assert {"hooks", "automations"} & tables == {"automations" if version else "hooks"}
        rows = f"SELECT count(*) FROM {'automations' if version else 'hooks'}"
        assert connection.execute(rows).get == _OLD_HOOKS
        return version
    finally:
        connection.close()


def _journal_mode(path: Path) -> object:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return connection.pragma("journal_mode")
    finally:
        connection.close()


def _duration(command: list[str]) -> float:
    """How long the whole command takes here and now, in seconds."""
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
    return time.monotonic() - started
