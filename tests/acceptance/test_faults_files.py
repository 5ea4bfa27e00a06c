"""When files are damaged, out of reach or out of room: what is said, and what the doctor mends."""

import os
import re
import shutil
import socket
import sqlite3
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from acceptance.agents import PATIENCE_S
from acceptance.faults import Refusal, found, mended, refusal
from acceptance.program import NEXUS, nexus
from acceptance.running import serving
from acceptance.test_home import troubles
from nexus import clock
from nexus.home import Home
from nexus.ledgers import migrate


def _cut(home: Home, ledger: str, size_bytes: int) -> None:
    os.truncate(home.ledger(ledger), size_bytes)
    for rest in home.data.glob(f"{ledger}.db-*"):
        rest.unlink()


@pytest.mark.parametrize(
    ("size_bytes", "why"), [(5_000, "database disk image is malformed"), (0, "its file is empty")]
)
def test_a_ledger_that_was_truncated(home: Home, size_bytes: int, why: str) -> None:
    _cut(home, "events", size_bytes)
    told = refusal(home.root, "status")
    assert told.message == f"The events ledger at {home.ledger('events')} is damaged: {why}"
    assert told.hint.startswith("Run `nexus doctor`: it names the newest backup")
    [finding] = found(home.root, "ledgers", "--fix")
    assert (finding["message"], finding["fixable"]) == (told.message, False)
    assert finding["remedy"].startswith("No backup is known here.")
    assert "`nexus doctor --fix --create-empty`" in finding["remedy"]
    assert home.ledger("events").stat().st_size == size_bytes, "nothing hides it by making it anew"


def test_a_file_that_is_no_database(home: Home) -> None:
    home.ledger("memory").write_bytes(b"this is not a database at all, sorry" * 200)
    told = refusal(home.root, "status")
    assert told.message == f"The memory ledger at {home.ledger('memory')} is damaged: file is not a database"
    assert told.hint.startswith("Run `nexus doctor`: it names the newest backup")


def test_a_ledger_that_was_deleted_is_restored_and_never_created_empty(home: Home, tmp_path: Path) -> None:
    nexus(home.root, "sql", "--write", _event("2026-01-01T00:00:00.000Z"))
    nexus(home.root, "backup", str(tmp_path / "older"))
    nexus(home.root, "backup", str(tmp_path / "newer"))
    _lose(home, "events")
    told = refusal(home.root, "up")
    assert (told.message, "`nexus doctor`" in told.hint) == (f"{home.ledger('events')} is missing", True)
    assert refusal(home.root, "init", "--yes").message == told.message
    [finding] = found(home.root, "ledgers")
    assert finding["remedy"].startswith(f"Newest backup: {tmp_path / 'newer'}, from ")
    [line] = mended(home.root)
    assert f"events.db is missing; restored from {tmp_path / 'newer'}, from " in line
    assert troubles(home.root) == []
    assert nexus(home.root, "sql", "SELECT count(*) FROM events").stdout == "1\n"


def _lose(home: Home, ledger: str) -> None:
    for file in home.data.glob(f"{ledger}.db*"):
        file.unlink()


def test_vectors_that_were_deleted_are_made_again(home: Home) -> None:
    _lose(home, "embeddings")
    [finding] = found(home.root, "ledgers")
    assert (finding["level"], finding["message"]) == ("warning", "embeddings.db is missing")
    assert "Run `nexus up` or" in finding["remedy"]
    with serving(home):
        assert home.ledger("embeddings").is_file()
    assert troubles(home.root) == []


def test_vectors_that_are_damaged_are_put_aside_and_made_again(home: Home) -> None:
    damaged = b"these were vectors" * 1000
    home.ledger("embeddings").write_bytes(damaged)
    [finding] = found(home.root, "ledgers")
    assert (finding["level"], finding["fixable"]) == ("warning", True)
    assert finding["remedy"].startswith("Run `nexus up` or `nexus doctor --fix` to set the file aside")
    with serving(home):
        pass
    assert troubles(home.root) == []
    [aside] = home.data.glob("damaged-*-embeddings.db")
    assert aside.read_bytes() == damaged


def test_a_ledger_in_the_place_of_another_is_not_taken_for_damage(home: Home) -> None:
    shutil.copy2(home.ledger("events"), home.ledger("embeddings"))
    [finding] = found(home.root, "ledgers", "--fix")
    assert finding["message"] == "The embeddings ledger's file contains the events ledger"
    assert finding["remedy"].startswith("Rename the files in data/ back")
    assert list(home.data.glob("damaged-*")) == []


def test_an_index_that_does_not_fit_its_table_is_made_again(home: Home) -> None:
    connection = sqlite3.connect(home.ledger("events"))
    connection.execute("PRAGMA writable_schema = ON")
    (statement,) = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE name = 'events_occurred'"
    ).fetchone()
    connection.execute("UPDATE sqlite_schema SET sql = sql || ' WHERE 0' WHERE name = 'events_occurred'")
    connection.commit()
    connection.close()
    nexus(home.root, "sql", "--write", _event("2026-01-01T00:00:00.000Z"))
    connection = sqlite3.connect(home.ledger("events"))
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'events_occurred'", (statement,))
    connection.commit()
    connection.close()

    [first, *_] = found(home.root, "ledgers")
    assert "index events_occurred" in first["message"]
    assert "rebuild the indexes" in first["remedy"]
    assert mended(home.root)
    assert troubles(home.root) == []
    assert nexus(home.root, "sql", "SELECT count(*) FROM events").stdout == "1\n"


def test_a_ledger_of_a_newer_nexus(home: Home) -> None:
    connection = sqlite3.connect(home.ledger("memory"))
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    known = migrate.latest("memory")
    told = refusal(home.root, "status")
    assert told.message == f"The memory ledger has schema 999; this version supports up to {known}"
    assert told.hint == "It was written by a newer Nexus. Install that version or a later one."
    [finding] = found(home.root, "ledgers")
    assert (finding["message"], finding["remedy"]) == (told.message, told.hint)


def test_a_ledger_with_another_history_gets_the_same_verdict_from_doctor_and_open(home: Home) -> None:
    connection = sqlite3.connect(home.ledger("runtime"))
    connection.execute("UPDATE schema_migrations SET name = '0100_other'")
    connection.commit()
    connection.close()
    before = {name: home.ledger(name).read_bytes() for name in ("memory", "runtime")}

    told = refusal(home.root, "status")
    assert told.message == (
        "The runtime ledger was written by another line of Nexus: its migration 100 is 0100_other, ours is "
        "0100_baseline"
    )
    assert "`nexus export`" in told.hint
    [finding] = found(home.root, "ledgers", "--fix")
    assert (finding["level"], finding["message"], finding["remedy"]) == ("error", told.message, told.hint)
    left = {name: home.ledger(name).read_bytes() for name in before}
    assert left == before, "the Nexus that wrote it can still open all of it"


def test_a_ledger_that_another_process_does_not_let_go(home: Home, tmp_path: Path) -> None:
    holder = sqlite3.connect(home.ledger("runtime"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        env = {**os.environ, "NEXUS_LEDGERS_BUSY_TIMEOUT_MS": "200"}
        script = tmp_path / "quiet.py"
        script.write_text("def handle(context):\n    return None\n")
        told = refusal(home.root, "automations", "register", str(script), env=env, apart=True)
    finally:
        holder.close()
    assert told.message == "The runtime ledger is locked by another process"
    assert told.hint.startswith("Find the process with `nexus status`")


def test_an_engine_that_is_damaged(home: Home) -> None:
    home.engine_file.write_text("This is not a database. " * 100)
    home.engine_file.chmod(0o600)
    told = refusal(home.root, "engine", "status")
    assert told.message == f"The engine's database at {home.engine_file} is damaged: file is not a database"
    assert "nexus restore" in told.hint


@pytest.mark.parametrize("what", ["root", "data", "ledger"])
def test_modes_that_shut_you_out_are_mended(home: Home, what: str) -> None:
    path = {"root": home.root, "data": home.data, "ledger": home.ledger("events")}[what]
    right = path.stat().st_mode & 0o777
    path.chmod(0o000)
    try:
        told = refusal(home.root, "status", apart=True)
        assert "Permission denied" in told.message or "unable to open database file" in told.message
        assert "nexus doctor" in told.hint
        [line] = mended(home.root, apart=True)
        assert f"No read and write access to {path} " in line
        assert path.stat().st_mode & 0o777 == right
    finally:
        path.chmod(right)
    assert troubles(home.root) == []


def test_several_layers_of_trouble_are_mended_in_one_go(home: Home) -> None:
    shutil.rmtree(home.logs)
    home.ledger("events").chmod(0o644)
    stale = home.run / "owner" / "memory.sock"
    stale.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(stale)) if len(str(stale)) < 100 else stale.touch()
    home.root.chmod(0o000)
    try:
        lines = mended(home.root, apart=True)
    finally:
        home.root.chmod(0o700)
    assert f"No read and write access to {home.root}" in lines[0], "behind it, the rest was found"
    assert {line.split()[0] for line in lines} == {"permissions", "layout", "leftovers"}
    assert troubles(home.root) == []
    assert not stale.exists()


def _event(recorded_at: str) -> str:
    return (
        "INSERT INTO events (id, channel, direction, content, created_at) "
        f"VALUES ('evt_1', 'cli', 'inbound', 'hi', '{recorded_at}')"
    )


def test_a_clock_that_was_set_back(home: Home) -> None:
    ahead = clock.timestamp(clock.now() + timedelta(days=400))
    assert nexus(home.root, "sql", "--write", _event(ahead)).returncode == 0
    [finding] = troubles(home.root)
    assert finding["check"] == "clock"
    assert finding["message"].endswith(f", but the newest event is from {ahead}")
    assert "`timedatectl set-ntp true`" in finding["remedy"]


def _on_a_disk_of(size_bytes: int, place: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A line of shell, where a folder is a disk of that size."""
    place.mkdir(exist_ok=True)
    disk = ["bwrap", "--dev-bind", "/", "/", "--size", str(size_bytes), "--tmpfs", str(place)]
    return subprocess.run(
        [*disk, "bash", "-c", line],
        env={**os.environ, "HOME_ON_DISK": str(place / "home"), "NEXUS": str(NEXUS), "DISK": str(place)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    done = _on_a_disk_of(200_000, tmp_path / "disk", '"$NEXUS" --home "$HOME_ON_DISK" init')
    assert done.returncode == 1
    assert re.search(r"Disk full: could not write to the \w+ ledger", done.stderr)
    assert "Free disk space for" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_disk_that_has_become_full(tmp_path: Path) -> None:
    line = """
        "$NEXUS" --home "$HOME_ON_DISK" init > /dev/null
        head -c 3000000 /dev/zero > "$DISK/full" 2> /dev/null
        "$NEXUS" --home "$HOME_ON_DISK" status
        "$NEXUS" --home "$HOME_ON_DISK" doctor
    """
    done = _on_a_disk_of(3_000_000, tmp_path / "disk", line)
    assert done.stderr.startswith("nexus: Disk full: could not write to the events ledger\n  Free ")
    assert "Restore your newest backup" not in done.stdout, "nothing is lost"
    assert "Free disk space now: writes will soon fail." in done.stdout
    assert "Traceback" not in done.stderr


def test_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    line = '"$NEXUS" --home "$HOME_ON_DISK" init > /dev/null; "$NEXUS" --home "$HOME_ON_DISK" doctor'
    done = _on_a_disk_of(500_000_000, tmp_path / "disk", line)
    assert done.returncode == 0
    assert "warning  disk " in done.stdout
    assert "Free disk space: a backup or a forget needs as much again as the ledgers use." in done.stdout


def test_a_refusal_has_both_lines(tmp_path: Path) -> None:
    none = tmp_path / "none"
    assert refusal(none, "status") == Refusal(
        f"No Nexus home at {none}", f"Check the path, or run `nexus --home {none} init` to create one."
    )
