"""An agent that may read the memory: all six ledgers from inside the sandbox, and no way to write them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acceptance.program import nexus
from nexus.broker.tools import Grant, Limits, Outcome, Sandbox
from nexus.config import LedgersConfig
from nexus.home import LEDGERS, Home
from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory
from nexus.memory.recall.recall import Recall
from nexus.memory.writing import Provenance
from nexus.skills import memory
from nexus.skills.commands import Commands
from nexus.skills.memory_socket import MemorySocket

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is a program for Linux")

_TABLES = ("facts", "entities", "events", "agent_sessions", "embeddings", "automations")
_COUNTS = ", ".join(f"(SELECT count(*) FROM {table})" for table in _TABLES)
_SIX = f"""sqlite3 -bail -init "$(sed -n 's/^attach=//p' DB_PATHS)" :memory: "SELECT {_COUNTS}" """
_BATCH = '{"operation": "fact", "fact": "planted"}'


class Inside:
    """A reader's workspace, seen from inside its sandbox."""

    def __init__(self, home: Home, folder: Path) -> None:
        folder.mkdir()
        socket_folder = home.run / "memory-reader"
        socket_folder.mkdir(parents=True, exist_ok=True)
        self.socket_folder = socket_folder.resolve()
        self.skill = memory.install(home, folder.resolve(), self.socket_folder).folder
        self._sandbox = Sandbox(
            grants=(
                Grant(path=folder.resolve(), writable=True),
                Grant(path=home.data.resolve()),
                Grant(path=self.socket_folder),
            ),
            limits=Limits(timeout_ms=memory.longest_read_ms(LedgersConfig())),
        )

    async def run(self, line: str) -> Outcome:
        return await self._sandbox.run(["bash", "-c", line], directory=self.skill)

    async def counts(self) -> list[int]:
        """What all six ledgers hold."""
        done = await self.run(_SIX)
        assert (done.exit_code, done.stderr) == (0, b""), done
        return [int(count) for count in done.stdout.split(b"|")]

    async def no_way_to_write(self, home: Home) -> None:
        for name in LEDGERS:
            path = str(home.ledger(name))
            for command in (
                f"sqlite3 -bail '{path}' 'PRAGMA query_only=0; CREATE TABLE planted (x)'",
                f"sqlite3 -bail '{path}' 'DELETE FROM schema_migrations'",
                f"sqlite3 -bail 'file:{path}?mode=rwc' 'PRAGMA journal_mode=OFF; CREATE TABLE planted (x)'",
                f"echo x >> '{path}'",
                f"echo x >> '{path}-wal'",
                f"rm -f '{path}' '{path}-wal' '{path}-shm'",
                f"mv '{path}' '{path}.away'",
            ):
                done = await self.run(command)
                assert done.exit_code != 0, command


def _state(home: Home) -> dict[str, Any]:
    return {name: home.ledger(name).read_bytes() for name in LEDGERS}


@pytest.fixture
def inside(home: Home, tmp_path: Path) -> Inside:
    return Inside(home, tmp_path / "reader")


async def test_all_six_are_read_live_and_never_written(home: Home, inside: Inside) -> None:
    async with Ledgers(home, LedgersConfig()) as opened:
        for database in opened:
            await database.read(lambda c: c.execute("SELECT 1 FROM sqlite_schema").get)
        assert await inside.counts() == [0, 0, 0, 0, 0, 0]

        writer = Memory(opened)
        await writer.run("fact", {"about": "ann", "fact": "Ann grows tomatoes"})
        assert await inside.counts() == [1, 1, 0, 0, 0, 0]
        await writer.run("fact", {"about": "ann", "fact": "Ann grows basil too"})
        assert await inside.counts() == [2, 1, 0, 0, 0, 0]

        await inside.no_way_to_write(home)
        await writer.run("fact", {"about": "ann", "fact": "Ann goes on"})
        assert await inside.counts() == [3, 1, 0, 0, 0, 0]


async def test_all_six_are_read_after_the_home_was_closed(home: Home, inside: Inside) -> None:
    async with Ledgers(home, LedgersConfig()) as opened:
        for database in opened:
            await database.read(lambda c: c.execute("SELECT 1 FROM sqlite_schema").get)
        await Memory(opened).run("fact", {"about": "ann", "fact": "Ann grows tomatoes"})
    before = _state(home)

    assert await inside.counts() == [1, 1, 0, 0, 0, 0]
    await inside.no_way_to_write(home)

    assert _state(home) == before
    # Commands that look at every file leave it readable too.
    assert nexus(home.root, "doctor").returncode == 0
    assert await inside.counts() == [1, 1, 0, 0, 0, 0]


async def test_a_reader_s_door_answers_questions_and_takes_no_writes(home: Home, inside: Inside) -> None:
    async with Ledgers(home, LedgersConfig()) as opened:
        writer = Memory(opened)
        await writer.run("fact", {"about": "ann", "fact": "Ann grows tomatoes"})

        async def by_words() -> Recall:
            return Recall(opened, None)

        commands = Commands(writer, by_words, Provenance(actor="memory-reader"), writes=False)
        async with MemorySocket(inside.socket_folder, commands.answer):
            found = await inside.run("./memory-search.sh 'Which tomatoes does Ann grow?'")
            refused = await inside.run("./memory-write.sh fact --fact 'planted'")
            batch = await inside.run(f"./memory-write.sh batch <<< '{_BATCH}'")

    assert json.loads(found.stdout)["results"][0]["text"] == "Ann grows tomatoes", found
    for done in (refused, batch):
        assert (done.exit_code, done.stdout) == (2, b"")
        assert b"may read the memory and not write it" in done.stderr
    rows = subprocess.run(
        ["sqlite3", str(home.ledger("memory")), "SELECT count(*) FROM facts"], capture_output=True, text=True
    )
    assert rows.stdout == "1\n"


async def test_a_writer_s_door_is_used_from_inside(home: Home, inside: Inside) -> None:
    async with Ledgers(home, LedgersConfig()) as opened:
        writer = Memory(opened)

        async def by_words() -> Recall:
            return Recall(opened, None)

        commands = Commands(
            writer, by_words, Provenance(actor="memory-writer", kind="writer", request_id="req_1")
        )
        async with MemorySocket(inside.socket_folder, commands.answer):
            written = await inside.run("./memory-write.sh fact --about ann --fact 'Ann grows tomatoes'")
        rows = await opened.memory.read(
            lambda c: c.execute("SELECT id, source_request_id FROM facts").fetchall()
        )

    assert rows == [(json.loads(written.stdout)["id"], "req_1")]


def test_a_reader_is_ended_before_a_writer_gives_up() -> None:
    settings = LedgersConfig(busy_timeout_ms=9_000)

    assert memory.longest_read_ms(settings) < settings.busy_timeout_ms
