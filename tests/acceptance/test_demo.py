"""`nexus demo`, as a person tries it."""

import json
from pathlib import Path

import pytest

from acceptance.program import nexus


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("demo") / "home"
    made = nexus(home, "demo", "--until", "2026-05-31T18:00Z")
    assert made.returncode == 0, made.stderr
    assert f"nexus --home {home} recall" in made.stdout
    return home


def test_the_doctor_finds_nothing_wrong_with_it(month: Path) -> None:
    found = json.loads(nexus(month, "doctor", "--json").stdout)
    assert [each for each in found["findings"] if each["level"] != "ok"] == []


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("where does Clara live now?", "Rotterdam"),
        ("what must Tomas not eat?", "hazelnuts"),
        ("why does the Tidal Room open later?", "moved to 28 June"),
        ("new job of Jonas", "Tidewater"),
    ],
)
def test_recall_finds_what_was_told(month: Path, question: str, answer: str) -> None:
    found = json.loads(nexus(month, "recall", question, "--json", "--limit", "8").stdout)
    assert answer in json.dumps(found)
