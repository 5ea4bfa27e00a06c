"""`nexus forget`, as a person uses it."""

import json
import os
import pty
import subprocess
from pathlib import Path

import apsw
import pytest

from acceptance.program import nexus, start_program
from nexus.home import Home
from nexus.serving import Serving

_ROWS = {
    "identity": """
        INSERT INTO entities (id, type, canonical_name, normalized_name)
        VALUES ('ent_anna', 'Person', 'Anna Smith', 'anna smith'), ('ent_bob', 'Person', 'Bob', 'bob');
        INSERT INTO entity_aliases (id, entity_id, alias, normalized)
        VALUES ('ali_1', 'ent_anna', 'Annie', 'annie');
    """,
    "events": """
        INSERT INTO threads (id, channel, title) VALUES ('thr_1', 'email', 'Plans');
        INSERT INTO events (id, thread_id, channel, direction, content, occurred_at)
        VALUES ('evt_1', 'thr_1', 'email', 'inbound', 'Annie moves to Leeds', '2026-02-13T10:00:00.000Z'),
               ('evt_2', 'thr_1', 'email', 'inbound', 'The weather is fine', '2026-02-14T10:00:00.000Z');
    """,
    "memory": """
        INSERT INTO facts (id, source_entity_id, fact, source_event_id)
        VALUES ('fact_1', 'ent_anna', 'She moves to Leeds', 'evt_1');
    """,
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A home that knows something about Anna."""
    root = tmp_path / "home"
    assert nexus(root, "init").returncode == 0
    for ledger, rows in _ROWS.items():
        connection = apsw.Connection(str(root / "data" / f"{ledger}.db"))
        connection.execute(rows)
        connection.close()
    return root


def events(root: Path) -> set[str]:
    connection = apsw.Connection(str(root / "data" / "events.db"))
    found = {str(row[0]) for row in connection.execute("SELECT id FROM events")}
    connection.close()
    return found


def on_a_terminal(root: Path, *arguments: str, answer: str) -> tuple[int, str]:
    """Run a command with a person at the keyboard, who gives one answer."""
    controller, terminal = pty.openpty()
    pipe = subprocess.PIPE
    process = start_program("--home", str(root), *arguments, stdin=terminal, stdout=pipe, stderr=pipe)
    os.close(terminal)
    os.write(controller, f"{answer}\n".encode())
    output, _ = process.communicate(timeout=120)
    os.close(controller)
    return process.returncode, output


def test_a_dry_run_tells_what_would_go_and_changes_nothing(place: Path) -> None:
    done = nexus(place, "forget", "entity", "annie", "--dry-run")
    assert done.returncode == 0
    assert "events 1" in done.stdout
    assert "facts 1" in done.stdout
    assert "Events from 2026-02-13 10:00" in done.stdout
    assert "Leeds" not in done.stdout
    assert events(place) == {"evt_1", "evt_2"}


def test_a_home_that_its_host_has_open_and_copies_is_left_to_the_host(place: Path) -> None:
    (place / "data" / ".events.db-litestream").mkdir()
    with Serving(Home(place)) as serving:
        serving.tell("http://anna.localhost:8765")
        done = nexus(place, "forget", "entity", "annie", "--yes")
    assert done.returncode == 1
    assert "served by" in done.stderr
    assert events(place) == {"evt_1", "evt_2"}
    assert nexus(place, "forget", "entity", "annie", "--yes").returncode == 0
    assert events(place) == {"evt_2"}


def test_without_a_terminal_and_without_yes_nothing_is_removed(place: Path) -> None:
    done = nexus(place, "forget", "entity", "Annie")
    assert done.returncode == 1
    assert "--yes" in done.stderr
    assert events(place) == {"evt_1", "evt_2"}


@pytest.mark.parametrize(
    ("answer", "code", "left"),
    [("n", 1, {"evt_1", "evt_2"}), ("", 1, {"evt_1", "evt_2"}), ("y", 0, {"evt_2"})],
)
def test_a_person_is_asked(answer: str, code: int, left: set[str], place: Path) -> None:
    returned, output = on_a_terminal(place, "forget", "entity", "Annie", answer=answer)
    assert "Delete permanently?" in output
    assert returned == code
    assert events(place) == left


def test_the_report_tells_what_went_and_what_could_not_be_reached(place: Path) -> None:
    notes = place / "state" / "meeseeks" / "notes.md"
    notes.write_text("Annie likes tea")
    done = nexus(place, "forget", "entity", "ent_anna", "--yes")
    assert done.returncode == 0
    assert "events 1" in done.stdout
    assert "state/meeseeks/notes.md" in done.stdout
    assert "backups" in done.stdout
    again = nexus(place, "forget", "entity", "ent_anna", "--yes")
    assert again.returncode == 1
    assert "No entity" in again.stderr


def test_a_program_can_read_the_plan_and_the_report(place: Path) -> None:
    plan = json.loads(nexus(place, "forget", "thread", "thr_1", "--dry-run", "--json").stdout)
    report = json.loads(nexus(place, "forget", "thread", "thr_1", "--yes", "--json").stdout)
    assert plan["removed"] == report["removed"]
    assert report["removed"] == {
        "events.threads": 1,
        "events.events": 2,
        "identity.entities": 1,
        "identity.entity_aliases": 1,
        "memory.facts": 1,
    }
    assert report["id"].startswith("fgt_")
    assert nexus(place, "forget", "resume", "--json").stdout.strip() == "[]"


def test_a_range_is_given_as_days(place: Path) -> None:
    assert nexus(place, "forget", "range", "2026-02-14", "2026-02-15", "--yes").returncode == 0
    assert events(place) == {"evt_1"}
    empty = nexus(place, "forget", "range", "2026-02-14", "2026-02-15", "--yes")
    assert empty.returncode == 0
    assert "Nothing to delete" in empty.stdout


def test_a_misspelt_name_is_answered_with_near_ones(place: Path) -> None:
    done = nexus(place, "forget", "entity", "Ana Smith", "--yes")
    assert done.returncode == 1
    assert "Anna Smith (ent_anna)" in done.stderr
