"""Four processes write to one home while the plain `sqlite3` program reads it, and nobody is refused.

NEXUS_LONG=1 has them write for half a minute.
"""

import logging
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from acceptance.writing import BATCH
from long_form import times
from migration.old_hooks import OLD_ROWS, old_database
from nexus.home import LEDGERS, Home
from nexus.ledgers import attach

_log = logging.getLogger(__name__)
_SECONDS = times(3, long=30)
_WRITERS = 4
_WRITING = str(Path(__file__).with_name("writing.py"))
_TEXT = {"events": "SELECT content FROM events", "memory": "SELECT fact FROM facts",
         "runtime": "SELECT name FROM spans"}  # fmt: skip

_LOOK = """
SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM facts), (SELECT count(*) FROM spans),
       (SELECT count(*) FROM events_fts WHERE events_fts MATCH 'events'), (SELECT count(*) FROM automations);
"""

pytestmark = pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs the sqlite3 program")


@dataclass
class Writers:
    """Four processes that write for a while; what each printed is what it was promised."""

    home: Home
    seconds: float
    _processes: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def start(self) -> None:
        for number in range(_WRITERS):
            command = [sys.executable, _WRITING, str(self.home.root), f"w{number}", str(self.seconds)]
            printed = (self.home.root / f"printed-{number}").open("w")
            self._processes.append(
                subprocess.Popen(command, stdout=printed, stderr=subprocess.PIPE, text=True)
            )
            printed.close()

    @property
    def at_work(self) -> bool:
        return any(process.poll() is None for process in self._processes)

    def finish(self) -> list[str]:
        """Every key that was acknowledged. A writer that met an error fails the test."""
        for process in self._processes:
            _, errors = process.communicate(timeout=self.seconds + 60)
            assert (process.returncode, errors) == (0, "")
        files = [self.home.root / f"printed-{number}" for number in range(_WRITERS)]
        return [key for file in files for key in file.read_text().split()]

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def look(home: Home) -> list[int]:
    """What `sqlite3` sees right now, or a failing test if it meets any error."""
    script = str(attach.path(home, writes=False))
    done = subprocess.run(
        ["sqlite3", "-bail", "-batch", "-init", script, ":memory:", _LOOK], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [int(count) for count in done.stdout.split("|")]


def stored(home: Home) -> Counter[str]:
    """Every batch that the ledgers hold, with its number of rows."""
    found: Counter[str] = Counter()
    for name, query in _TEXT.items():
        connection = apsw.Connection(str(home.ledger(name)), flags=apsw.SQLITE_OPEN_READWRITE)
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        texts = [str(row[0]) for row in connection.execute(query)]
        connection.close()
        assert len(texts) == len(set(texts))
        found.update(text.rpartition(" ")[0] for text in texts)
    return found


def test_four_processes_write_while_sqlite3_reads_and_nobody_sees_an_error(home: Home) -> None:
    writers, looks = Writers(home, _SECONDS), list[list[int]]()
    writers.start()
    try:
        while writers.at_work:
            looks.append(look(home))
        acknowledged = writers.finish()
    finally:
        writers.stop()

    assert all(count % BATCH == 0 for counts in looks for count in counts)
    assert all(later >= earlier for a, b in pairwise(looks) for earlier, later in zip(a, b, strict=True))
    assert looks[-1] > looks[0]
    # Everything was acknowledged, since every writer ended by itself; and everything is there once.
    assert stored(home) == Counter(dict.fromkeys(acknowledged, BATCH))
    assert len(acknowledged) == len(set(acknowledged))
    writes = Counter(key.split("/")[0] for key in acknowledged)
    _log.info("%g s: %s writes; sqlite3 looked %d times", _SECONDS, dict(writes), len(looks))


def test_processes_that_open_and_close_an_old_home_at_once_all_succeed(home: Home) -> None:
    home.ledger("runtime").unlink()
    rows = [(f"{row[0]}-{number}", *row[1:]) for number in range(2_000) for row in OLD_ROWS[:2]]
    old_database(home.ledger("runtime"), rows)
    for name in LEDGERS:
        if name != "runtime":
            home.ledger(name).unlink()
    started = time.monotonic()
    acknowledged: list[str] = []
    while time.monotonic() - started < _SECONDS / 4:
        for file in home.root.glob("printed-*"):
            file.unlink()
        writers = Writers(home, 0.05)
        writers.start()
        try:
            acknowledged = writers.finish()
        finally:
            writers.stop()
        assert look(home)[-1] == len(rows)
    assert acknowledged
