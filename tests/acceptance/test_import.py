"""`nexus import`: what would come, the import, a killed one that is resumed, and its undoing."""

import json
import os
import shutil
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from acceptance.program import NEXUS, nexus
from contents import execute
from nexus.home import Home
from unit.history.exports import AGENT_SESSIONS, chatgpt, long_conversation, mail


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = nexus(tmp_path / "home", "init", "--yes")
    assert made.returncode == 0, made.stderr
    return tmp_path / "home"


def test_a_mailbox_is_previewed_imported_found_listed_and_undone(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "mail.mbox"
    path.write_text(mail(1, body="The spare key hangs behind the piano.") + mail(2) + "From x\nnothing")
    seen = nexus(home, "import", str(path), "--me", "me@example.com", "--dry-run")
    assert seen.returncode == 0, seen.stderr
    assert "2 messages in 2 threads" in seen.stdout
    assert "1 set aside: it is not a mail" in seen.stdout
    done = nexus(home, "import", str(path), "--me", "me@example.com")
    assert "Imported 2 messages in 2 new threads." in done.stdout
    assert "behind the piano" in nexus(home, "recall", "where is the spare key").stdout
    [listed] = json.loads(nexus(home, "import", "--list", "--json").stdout)
    undone = nexus(home, "forget", "import", listed["id"], "--yes")
    assert undone.returncode == 0, undone.stderr
    assert "No imports yet." in nexus(home, "import", "--list").stdout
    assert "piano" not in nexus(home, "recall", "where is the spare key").stdout
    assert nexus(home, "doctor", "--deep").returncode == 0


_LAST_WEEK = """
SELECT date(t.started_at) AS day, s.project, m.content AS asked
FROM agent_messages m JOIN agent_turns t ON t.id = m.turn_id JOIN agent_sessions s ON s.id = m.session_id
WHERE s.source = 'claude-code' AND s.role = 'manager' AND m.role = 'user'
  AND t.started_at > date('now', '-7 days')
ORDER BY t.started_at
"""


def test_what_was_done_with_a_coding_agent_last_week_is_a_query(home: Path, tmp_path: Path) -> None:
    projects = shutil.copytree(AGENT_SESSIONS / "claude-code", tmp_path / "projects")
    yesterday = datetime.now(UTC) - timedelta(days=1)
    for file in projects.rglob("*.jsonl"):
        file.write_text(file.read_text().replace("2026-05-04", f"{yesterday:%Y-%m-%d}"))
    usage = nexus(home, "usage").stdout
    for _ in range(2):
        done = nexus(home, "import", str(projects), "--json")
        assert done.returncode == 0, done.stderr
        asked = nexus(home, "sql", "-json", _LAST_WEEK)
        assert json.loads(asked.stdout) == [
            {"day": f"{yesterday:%Y-%m-%d}", "project": "/home/ada/kettle", "asked": question}
            for question in ("The kettle boils over at 95 degrees. Find out why.", "Fix it.")
        ]
    assert nexus(home, "usage").stdout == usage
    checked = nexus(home, "doctor", "--deep")
    assert checked.returncode == 0, checked.stdout
    for each in json.loads(nexus(home, "import", "--list", "--json").stdout):
        assert nexus(home, "forget", "import", each["id"], "--yes").returncode == 0
    assert nexus(home, "sql", "SELECT count(*) FROM agent_sessions").stdout.split() == ["0"]


def test_a_missing_source_and_an_unknown_format_are_told(home: Path, tmp_path: Path) -> None:
    assert "Missing SOURCE" in nexus(home, "import").stderr
    (tmp_path / "x").write_text("?")
    assert "unrecognized format" in nexus(home, "import", str(tmp_path / "x")).stderr
    assert "Unknown time zone" in nexus(home, "import", str(tmp_path / "x"), "--timezone", "Mars").stderr


def _recorded(home: Path) -> int:
    return execute(Home(home), "events", "SELECT count(*) FROM events")


def _everything(home: Path) -> list[Any]:
    return execute(
        Home(home),
        "events",
        "SELECT e.seq, e.id, e.external_id, t.id, content, occurred_at, e.metadata_json, reply_to_event_id "
        "FROM events AS e JOIN threads AS t ON t.id = e.thread_id ORDER BY e.seq",
    )


def test_an_import_that_is_killed_three_times_ends_as_one_that_was_not(home: Path, tmp_path: Path) -> None:
    path = chatgpt(tmp_path / "conversations.json", *(long_conversation(f"c{n}", 40) for n in range(300)))
    assert nexus(tmp_path / "other", "init", "--yes").returncode == 0
    whole = nexus(tmp_path / "other", "import", str(path), "--json")
    assert whole.returncode == 0, whole.stderr
    for after in (1_000, 4_000, 8_000):
        process = subprocess.Popen(
            [str(NEXUS), "--home", str(home), "import", str(path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while process.poll() is None and _recorded(home) < after:
                time.sleep(0.05)
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
    done = nexus(home, "import", str(path), "--json")
    assert done.returncode == 0, done.stderr
    assert _everything(home) == _everything(tmp_path / "other")
    for place in (tmp_path / "other", home):
        # A process may end before it can be killed: then the last import has nothing left to do.
        counts = json.loads(nexus(place, "import", "--list", "--json").stdout)[0]
        assert (counts["threads"], counts["messages"], counts["already_imported"]) == (300, 12_000, 0)
