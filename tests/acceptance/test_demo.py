"""`nexus demo`, as a person tries it."""

import json
from pathlib import Path

import pytest

from acceptance.program import nexus
from nexus.demo import place
from nexus.home import Home


def test_the_doctor_finds_only_the_automation_that_fails_on_purpose(demo_month: Path) -> None:
    found = json.loads(nexus(demo_month, "doctor", "--deep", "--json").stdout)
    (failing,) = [each for each in found["findings"] if each["level"] not in {"ok", "off"}]
    assert failing["message"].startswith("parcel-tracker: stopped after 3 errors in a row")
    assert "invariants" in {each["check"] for each in found["findings"]}


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("where does Clara live now?", "Rotterdam"),
        ("what must Tomas not eat?", "hazelnuts"),
        ("why does the Tidal Room open later?", "moved to 28 June"),
        ("new job of Jonas", "Tidewater"),
    ],
)
def test_recall_finds_what_was_told(demo_month: Path, question: str, answer: str) -> None:
    found = json.loads(nexus(demo_month, "recall", question, "--json", "--limit", "8").stdout)
    assert answer in json.dumps(found)


def test_a_demo_to_which_nothing_was_added_may_be_replaced(demo_month: Path) -> None:
    assert place.is_untouched(Home(demo_month))
