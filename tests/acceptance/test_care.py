"""`nexus backup`, `restore`, `export` and `import`, as a person uses them on a home at work."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from acceptance.program import NEXUS, nexus
from acceptance.writing import BATCH
from contents import execute, files, furnish, rows
from long_form import times
from nexus.home import LEDGERS, Home
from nexus.ledgers import health

_KILLS_OF_RESTORE = times(2, long=8)
_TEXT = {"events": "SELECT content FROM events", "memory": "SELECT fact FROM facts",
         "runtime": "SELECT name FROM spans"}  # fmt: skip

# Appends events, and facts that name the event they come from, until it is stopped.
_REFERRING = """
import asyncio, itertools, sys
from pathlib import Path
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers, events, memory

async def main():
    async with Ledgers(Home(Path(sys.argv[1])), LedgersConfig(synchronous="normal")) as opened:
        for number in itertools.count():
            said = [events.NewEvent(channel="cli", content="said")]
            (event,) = await opened.events.write(lambda c: events.append(c, said))
            learned = [memory.NewFact(fact="learned", source_event_id=event)]
            await opened.memory.write(lambda c: memory.append_facts(c, learned))
            if number < 100:
                print(event, flush=True)

asyncio.run(main())
"""


@contextmanager
def running(*command: str) -> Generator["subprocess.Popen[str]"]:
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def lines(process: "subprocess.Popen[str]", count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def texts(folder: Path, ledger: str, query: str) -> list[str]:
    """What a copied database says, opened as a file that nobody writes."""
    path = (folder / "data" / f"{ledger}.db").as_uri() + "?immutable=1"
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        return [str(text) for (text,) in connection.execute(query)]
    finally:
        connection.close()


def report(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def furnished(home: Home) -> Home:
    furnish(home)
    return home


def test_a_backup_of_a_home_being_written_holds_all_that_was_acknowledged_before(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running(str(Path(__file__).with_name("writing.py")), str(home), "w", "600") as writer:
        acknowledged = lines(writer, 60)
        done = nexus(home, "backup", str(tmp_path / "copy"))
        lines(writer, 60)

    assert done.returncode == 0, done.stderr
    found = [text for ledger, query in _TEXT.items() for text in texts(tmp_path / "copy", ledger, query)]
    batches = [text.rpartition(" ")[0] for text in found]
    assert len(found) == len(set(found))
    assert {batches.count(batch) for batch in set(batches)} == {BATCH}, "a write is there whole or not at all"
    assert set(acknowledged) <= set(batches)
    assert nexus(home, "backup", "--verify", str(tmp_path / "copy")).returncode == 0


def test_what_a_copied_row_refers_to_was_copied_too(home: Home, tmp_path: Path) -> None:
    with running("-c", _REFERRING, str(home.root)) as writer:
        lines(writer, 20)
        for number in range(5):
            assert nexus(home.root, "backup", str(tmp_path / str(number))).returncode == 0

    for number in range(5):
        copy = tmp_path / str(number)
        referred = set(texts(copy, "memory", "SELECT source_event_id FROM facts"))
        assert len(referred) >= 20
        assert referred <= set(texts(copy, "events", "SELECT id FROM events"))


def test_a_restore_takes_the_home_back_and_keeps_what_it_replaced(furnished: Home, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    made = report(nexus(furnished.root, "backup", copy, "--json"))
    execute(furnished, "events", "INSERT INTO threads (id, channel) VALUES ('thr_late', 'cli')")

    refused = nexus(furnished.root, "restore", copy)
    done = report(nexus(furnished.root, "restore", copy, "--replace", "--json"))

    assert refused.returncode == 1
    assert "--replace" in refused.stderr
    assert done["rows"] == made["rows"]
    assert execute(furnished, "events", "SELECT count(*) FROM threads") == 0
    assert execute(Home(Path(done["kept"])), "events", "SELECT count(*) FROM threads") == 1
    assert nexus(Path(done["kept"]), "status").returncode == 0
    assert nexus(furnished.root, "doctor").returncode == 0


def test_a_restore_can_go_to_another_place(furnished: Home, tmp_path: Path) -> None:
    nexus(furnished.root, "backup", str(tmp_path / "copy"))
    done = nexus(tmp_path / "other", "restore", str(tmp_path / "copy"))
    assert done.returncode == 0, done.stderr
    assert files(Home(tmp_path / "other")) == files(furnished)
    assert rows(Home(tmp_path / "other"))["events.events"] == rows(furnished)["events.events"]
    assert nexus(tmp_path / "other", "doctor").returncode == 0


def test_a_damaged_backup_is_told_and_changes_nothing(furnished: Home, tmp_path: Path) -> None:
    nexus(furnished.root, "backup", str(tmp_path / "copy"))
    path = tmp_path / "copy" / "data" / "events.db"
    content = bytearray(path.read_bytes())
    content[random.randrange(len(content))] ^= 1
    path.write_bytes(content)
    before = rows(furnished)

    checked = nexus(furnished.root, "backup", "--verify", str(tmp_path / "copy"), "--json")
    refused = nexus(furnished.root, "restore", str(tmp_path / "copy"), "--replace")

    assert (checked.returncode, refused.returncode) == (1, 1)
    assert json.loads(checked.stdout)["problems"] == ["data/events.db is not the file that was copied"]
    assert "data/events.db" in refused.stderr
    assert rows(furnished) == before


def test_a_schedule_makes_encrypted_backups_and_a_person_restores_them(
    furnished: Home, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public, copy = key.with_suffix(".pub").read_text().strip(), tmp_path / "nightly.age"
    # As cron starts it: no terminal, almost no environment, and the public key alone.
    command = f'"{NEXUS}" --home "{furnished.root}" backup "{copy}" --encrypt-to "{public}" >/dev/null'
    made = subprocess.run(
        ["/bin/sh", "-c", command], env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, capture_output=True
    )
    assert (made.returncode, made.stdout, made.stderr) == (0, b"", b"")

    assert nexus(furnished.root, "backup", "--verify", str(copy), "--identity", str(key)).returncode == 0
    keyless = nexus(tmp_path / "other", "restore", str(copy))
    done = nexus(tmp_path / "other", "restore", str(copy), "--identity", str(key), "--trust")
    assert keyless.returncode == 1
    assert "--identity" in keyless.stderr
    assert done.returncode == 0, done.stderr
    assert files(Home(tmp_path / "other")) == files(furnished)


def test_a_home_at_work_is_not_replaced(furnished: Home, tmp_path: Path) -> None:
    nexus(furnished.root, "backup", str(tmp_path / "copy"))
    with running("-c", _REFERRING, str(furnished.root)) as writer:
        lines(writer, 1)
        refused = nexus(furnished.root, "restore", str(tmp_path / "copy"), "--replace")
        assert refused.returncode == 1
        assert f"in use by process {writer.pid}" in refused.stderr
        assert lines(writer, 1) != [""], "the writer goes on"


def test_a_restore_killed_at_any_moment_leaves_a_whole_home_or_none(furnished: Home, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    assert nexus(furnished.root, "backup", copy).returncode == 0
    execute(furnished, "events", "INSERT INTO threads (id, channel) VALUES ('thr_late', 'cli')")
    command = [str(NEXUS), "--home", str(furnished.root), "restore", copy, "--replace"]
    started = time.monotonic()
    subprocess.run([str(NEXUS), "--home", str(tmp_path / "usual"), "restore", copy], check=True)
    usual = time.monotonic() - started

    for _ in range(_KILLS_OF_RESTORE):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(random.uniform(0.3, 1.1) * usual)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
        if furnished.exists:
            problems = [
                problem for name in LEDGERS for problem in health.inspect(furnished.ledger(name), name)
            ]
            assert problems == []
            assert execute(furnished, "events", "SELECT count(*) FROM events") == 50
        old = [Home(path) for path in tmp_path.glob("home.before-restore-*") if (path / "data").is_dir()]
        late = "SELECT count(*) FROM threads WHERE id = 'thr_late'"
        holders = [home for home in [furnished, *old] if home.exists and execute(home, "events", late)]
        assert len(holders) == 1, "what was there before is always somewhere"

    done = nexus(furnished.root, "restore", copy, "--replace")
    assert done.returncode == 0, done.stderr
    assert nexus(furnished.root, "doctor").returncode == 0
    assert [path.name for path in furnished.root.iterdir() if path.name.startswith(".")] == []


def test_a_home_goes_through_a_pipe(furnished: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    export = [str(NEXUS), "--home", str(furnished.root), "export", "-"]
    import_ = [str(NEXUS), "--home", str(other.root), "import", "-"]
    with subprocess.Popen(export, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as writing:
        reading = subprocess.run(import_, stdin=writing.stdout, capture_output=True, timeout=120)
    assert (writing.returncode, reading.returncode) == (0, 0), reading.stderr
    assert rows(other) == rows(furnished)
    assert files(other) == files(furnished)
    assert nexus(other.root, "doctor").returncode == 0


def test_a_home_goes_through_a_file(furnished: Home, tmp_path: Path) -> None:
    file = str(tmp_path / "home.jsonl.gz")
    made = report(nexus(furnished.root, "export", file, "--json"))
    done = report(nexus(tmp_path / "other", "import", file, "--json"))
    again = nexus(tmp_path / "other", "import", file)

    assert made["rows"] == done["rows"]
    assert made["sha256"] == done["sha256"]
    assert rows(Home(tmp_path / "other")) == rows(furnished)
    assert again.returncode == 1
    assert "already" in again.stderr


def test_a_file_that_is_cut_short_is_told(furnished: Home, tmp_path: Path) -> None:
    nexus(furnished.root, "export", str(tmp_path / "home.jsonl"))
    with (tmp_path / "home.jsonl").open("r+b") as stream:
        stream.truncate(5000)
    done = nexus(tmp_path / "other", "import", str(tmp_path / "home.jsonl"))
    assert done.returncode == 1
    assert done.stderr.startswith("nexus: The file is truncated")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("command", ["backup PLACE/copy", "export PLACE/out", "--home PLACE/h restore copy",
                                     "--home PLACE/h import out"])  # fmt: skip
def test_what_cannot_be_written_to_the_end_leaves_nothing(
    furnished: Home, tmp_path: Path, command: str
) -> None:
    nexus(furnished.root, "backup", str(tmp_path / "copy"))
    nexus(furnished.root, "export", str(tmp_path / "out"))
    (tmp_path / "place").mkdir()
    words = command.replace("PLACE", str(tmp_path / "place"))
    # A limit on a file's size stands for a full disk: any user can set one.
    limited = f"ulimit -f 32; exec {NEXUS} {words}"
    done = subprocess.run(
        ["bash", "-c", limited],
        cwd=tmp_path,
        env={**os.environ, "NEXUS_HOME": str(furnished.root)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("nexus: ")
    assert list((tmp_path / "place").iterdir()) == []


def test_a_name_that_is_wrong_is_told(furnished: Home, tmp_path: Path) -> None:
    missing = nexus(tmp_path / "other", "import", str(tmp_path / "nothing.jsonl"))
    folder = nexus(tmp_path / "other", "import", str(tmp_path))
    no_backup = nexus(tmp_path / "other", "restore", str(tmp_path))
    assert [done.returncode for done in (missing, folder, no_backup)] == [1, 1, 1]
    assert "No such file" in missing.stderr
    assert "nexus restore" in folder.stderr
    assert "manifest.json" in no_backup.stderr
    assert not (tmp_path / "other").exists()
