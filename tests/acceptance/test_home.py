"""`nexus init`, `doctor`, `status` and `sql`, as a person uses them."""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acceptance.program import NEXUS, nexus
from migration.old_hooks import old_database
from nexus.automations import improvement
from nexus.home import Home


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below a folder: mode, time of change, bytes."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(root.rglob("*"))
    }


def findings(home: Path, *options: str) -> tuple[int, list[dict[str, Any]]]:
    done = nexus(home, "doctor", "--json", *options)
    return done.returncode, json.loads(done.stdout)["findings"]


def troubles(home: Path, *options: str) -> list[dict[str, Any]]:
    return [finding for finding in findings(home, *options)[1] if finding["level"] not in {"ok", "off"}]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    assert nexus(tmp_path / "h", "init").returncode == 0
    return tmp_path / "h"


def test_init_makes_a_private_and_healthy_home(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"

    done = nexus(home, "init")

    assert done.returncode == 0
    assert {path.name for path in home.iterdir()} == {
        "config.toml",
        "data",
        "home.lock",
        "logs",
        "run",
        "state",
        "token",
    }
    assert (home / "state" / "meeseeks").is_dir()
    assert (home / "state" / "hooks" / "scripts").is_dir()
    loose = [path for path in [home, *home.rglob("*")] if path.stat().st_mode & 0o077]
    assert loose == []
    assert nexus(home, "doctor").returncode == 0
    assert troubles(home) == []


def test_init_twice_changes_nothing(made: Path) -> None:
    before = snapshot(made)

    done = nexus(made, "init")

    assert done.returncode == 0
    assert "nothing changed" in done.stdout
    assert snapshot(made) == before


def test_init_completes_a_damaged_home_and_keeps_the_rest(made: Path) -> None:
    (made / "config.toml").write_text("[ledgers]\nreaders = 2\n")
    shutil.rmtree(made / "logs")

    assert nexus(made, "init").returncode == 0

    assert (made / "logs").is_dir()
    assert (made / "config.toml").read_text() == "[ledgers]\nreaders = 2\n"


def test_every_command_on_a_missing_home_says_what_to_do(tmp_path: Path) -> None:
    for command in (["status"], ["sql", "SELECT 1"], ["doctor"]):
        done = nexus(tmp_path / "none", *command)
        assert done.returncode == 1
        assert " init`" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_a_home_that_cannot_be_made_says_why_and_where_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    done = nexus(tmp_path / "file", "init")

    assert done.returncode == 1
    assert "File exists" in done.stderr
    assert "--home PATH" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_finds_and_mends_what_needs_no_decision(made: Path) -> None:
    (made / "data").chmod(0o755)
    (made / "data" / "attach.sql").unlink()
    (made / "data" / ".events.db.new_01ABC").write_bytes(b"")
    (made / "data" / "events.db").chmod(0o644)
    shutil.rmtree(made / "state" / "hooks")
    subprocess.run(["sqlite3", made / "data" / "memory.db", "DROP TRIGGER facts_are_not_deleted"], check=True)

    code, found = findings(made)
    assert code == 1
    broken = [finding for finding in found if finding["level"] not in {"ok", "off"}]
    assert {finding["check"] for finding in broken} == {
        "layout",
        "permissions",
        "ledgers",
        "attach",
        "leftovers",
    }
    assert all(finding["remedy"] for finding in broken)

    assert findings(made, "--fix")[0] == 0
    assert troubles(made) == []


def test_doctor_finds_what_a_person_must_decide(made: Path) -> None:
    (made / "config.toml").write_text("[ledgers]\nbusy_timeout = 1\n")
    events = made / "data" / "events.db"
    page = bytearray(events.read_bytes())
    page[4096 * 3 : 4096 * 4] = os.urandom(4096)
    events.write_bytes(page)
    (made / "data" / "memory.db").write_bytes(b"this is not a database at all, sorry" * 200)

    code, found = findings(made, "--fix")

    assert code == 1
    broken = {finding["check"]: finding for finding in found if finding["level"] == "error"}
    assert "busy_timeout_ms" in broken["config"]["remedy"]
    ledger_messages = [finding["message"] for finding in found if finding["check"] == "ledgers"]
    assert any("events.db" in message or "events ledger" in message for message in ledger_messages)
    assert any("memory ledger" in message and "damaged" in message for message in ledger_messages)
    assert all(
        "restore" in finding["remedy"]
        for finding in found
        if finding["level"] == "error" and finding["check"] == "ledgers"
    )


def test_doctor_migrates_an_old_schema_on_request(made: Path) -> None:
    runtime = made / "data" / "runtime.db"
    runtime.unlink()
    old_database(runtime)
    runtime.chmod(0o600)

    _, found = findings(made)
    warnings = [finding["message"] for finding in found if finding["level"] == "warning"]
    assert sum("runtime.db has schema 0 of" in warning for warning in warnings) == 1

    _, found = findings(made, "--fix")
    assert [finding for finding in found if finding["level"] == "warning"] == []
    errors = [finding["message"] for finding in found if finding["level"] == "error"]
    assert errors == ["greeter: refused: Can't read /s/greeter.ts: No such file or directory"]
    assert nexus(made, "sql", "SELECT count(*) FROM automations WHERE hook_point IS NULL").stdout == "3\n"


def test_status_counts_what_is_there(made: Path) -> None:
    insert = "INSERT INTO events (id, channel, direction, content, occurred_at) VALUES "
    nexus(made, "sql", "--write", f"{insert} ('e', 'cli', 'inbound', 'hi', '2026-01-01T00:00:00.000Z')")

    picture = json.loads(nexus(made, "status", "--json").stdout)

    assert picture["ledgers"]["events"]["counts"] == {"events": 1, "threads": 0}
    assert picture["last_event_at"] == "2026-01-01T00:00:00.000Z"
    text = nexus(made, "status").stdout
    assert "1 event," in text
    assert len(text.splitlines()) <= 10


def test_sql_reads_all_six_and_writes_only_when_asked(made: Path) -> None:
    tables = ("events", "entities", "facts", "agent_sessions", "embeddings", "automations")
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in tables)
    assert nexus(made, "sql", f"SELECT {counts}").stdout == "0|0|0|0|0|0\n"

    refused = nexus(made, "sql", "INSERT INTO threads (id, channel) VALUES ('t', 'cli')")
    assert refused.returncode != 0
    assert "read-only" in refused.stderr
    assert (
        nexus(made, "sql", "--write", "INSERT INTO threads (id, channel) VALUES ('t', 'cli')").returncode == 0
    )
    assert json.loads(nexus(made, "sql", "-json", "SELECT id FROM threads").stdout) == [{"id": "t"}]
    assert nexus(made, "sql", stdin="SELECT count(*) FROM threads;\n").stdout == "1\n"


@pytest.mark.parametrize(
    "command", [".shell touch planted", ".open data/memory.db", ".py 1", ".read planted.py"]
)
def test_the_read_only_shell_reaches_nothing_but_its_connection(made: Path, command: str) -> None:
    for given in ([command], ["-init", "planted.sql"], ["-cmd", command]):
        refused = nexus(made, "sql", *given)
        assert refused.returncode != 0
        assert "--write" in refused.stderr
    assert nexus(made, "sql", stdin=f"{command}\n").returncode == 1
    assert not list(made.rglob("planted*"))


def test_sql_works_where_sqlite3_is_not_installed(made: Path) -> None:
    environment = {**os.environ, "PATH": str(NEXUS.parent)}
    command = [str(NEXUS), "--home", str(made), "sql", "SELECT count(*) FROM facts"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout.strip()) == (0, "0")


def test_an_unknown_command_is_refused_with_help(tmp_path: Path) -> None:
    done = nexus(tmp_path, "remember")

    assert done.returncode == 2
    assert "No such command" in done.stderr


def test_help_starts_within_six_times_an_empty_python(tmp_path: Path) -> None:
    # As after a `pip install`: byte code is compiled and can be kept.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    empty, full = [sys.executable, "-c", "pass"], [str(NEXUS), "--help"]

    def seconds(command: list[str]) -> float:
        # Processor time: what else the machine does is no part of it.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    for command in (empty, full):
        seconds(command)
    ratios: list[float] = []
    for _ in range(4):
        rounds = [(seconds(empty), seconds(full)) for _ in range(7)]
        ratios.append(statistics.median(b for _, b in rounds) / statistics.median(a for a, _ in rounds))
        if ratios[-1] <= 6:
            return
    pytest.fail(f"`nexus --help` takes {min(ratios):.1f} times as long as `python -c pass`")


def test_doctor_and_status_show_lessons_that_wait(made: Path) -> None:
    assert "lesson" not in nexus(made, "doctor").stdout
    for number in (1, 2):
        improvement.put_aside(Home(made), "evening-notes", f"reason {number}", ())

    assert "2 lessons of evening-notes waiting for your approval" in nexus(made, "doctor").stdout
    assert "2 waiting for approval: nexus automations lessons evening-notes" in nexus(made, "status").stdout
    assert json.loads(nexus(made, "status", "--json").stdout)["lessons"] == {"evening-notes": 2}
