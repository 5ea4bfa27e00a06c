"""The notes of many users, run as its README says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from installed import EXAMPLES


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "user-notes"


def run(notes: Path, *words: str) -> str:
    script = EXAMPLES / "user-notes" / "user_notes.py"
    environment = {**os.environ, "USER_NOTES_HOME": str(notes)}
    done = subprocess.run(
        [sys.executable, str(script), *words], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_each_user_finds_their_own_notes_until_they_are_deleted(notes: Path) -> None:
    question = "Where is the spare key?"
    made = run(notes, "7", "add", "The spare key hangs behind the fuse box")
    assert run(notes, "7", "ask", question).endswith("The spare key hangs behind the fuse box")
    assert run(notes, "8", "ask", question) == "I don't know."

    run(notes, "7", "correct", f"{made} = The spare key is with Clara")
    answers = run(notes, "7", "ask", question).splitlines()
    assert any(line.endswith("The spare key is with Clara") for line in answers)
    assert all("(until " in line for line in answers if "fuse box" in line)

    run(notes, "7", "forget")
    assert run(notes, "7", "ask", question) == "I don't know."
