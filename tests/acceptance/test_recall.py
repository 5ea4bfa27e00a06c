"""`nexus recall` and `nexus models` as a person and a program use them, with the real model."""

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from acceptance.agents import until
from acceptance.program import nexus
from acceptance.running import serving
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers, events, memory

SAID = [
    ("Ann", "The dentist moved my appointment to Thursday at nine."),
    ("Bob", "Did you find a sitter for the twins?"),
    ("Ann", "Yes, Mrs Keller from next door."),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = Path(tmp_path_factory.mktemp("recall")) / "home"
    assert nexus(path, "init").returncode == 0
    asyncio.run(_fill(Home(path)))
    return path


async def _fill(home: Home) -> None:
    async with Ledgers(home, LedgersConfig()) as opened:
        thread_id = await opened.events.write(events.ensure_thread, channel="imessage", external_id="family")
        said = [
            events.NewEvent(
                channel="imessage",
                content=text,
                sender=speaker,
                thread_id=thread_id,
                occurred_at=datetime(2026, 5, 4, 8, minute, tzinfo=UTC),
            )
            for minute, (speaker, text) in enumerate(SAID)
        ]
        ids = await opened.events.write(events.append, said)
        fact = memory.NewFact(
            fact="Ann has a dentist appointment on Thursday", confidence=0.9, source_event_id=ids[0]
        )
        await opened.memory.write(memory.append_facts, [fact])


def test_a_person_sees_the_best_first_and_why(home: Path) -> None:
    shown = nexus(home, "recall", "When is Ann's dentist appointment?", "--explain", "--budget", "high")
    assert shown.returncode == 0, shown.stderr
    assert "The dentist moved my appointment to Thursday at nine." in shown.stdout
    for word in ("found by", "says", "score", "age", "source", "evt_", "fact_", "learned from", "candidates"):
        assert word in shown.stdout, shown.stdout


def test_a_program_reads_json(home: Path) -> None:
    shown = nexus(home, "recall", "Who looks after the twins?", "--json", "--budget", "high")
    answer = json.loads(shown.stdout)
    texts = [result["item"]["text"] for result in answer["results"]]
    assert "Did you find a sitter for the twins?" in texts
    assert "Yes, Mrs Keller from next door." in texts
    assert answer["notes"] == []
    assert answer["results"][0]["reasons"]["arms"]
    assert answer["timings_ms"]["total"] > 0


def test_what_hardly_answers_is_listed_under_weak_matches(home: Path) -> None:
    shown = nexus(home, "recall", "Mongolian corporate tax treaty")
    assert shown.stdout.startswith("Weak matches:\n")
    assert shown.returncode == 0


def test_kinds_and_times_narrow_the_answer(home: Path) -> None:
    facts = nexus(home, "recall", "dentist appointment", "--scope", "facts")
    assert "[fact] Ann has a dentist appointment" in facts.stdout
    assert "moved my appointment" not in facts.stdout
    assert (
        "No matches" in nexus(home, "recall", "dentist", "--scope", "events", "--before", "2020-01-01").stdout
    )


def _recalled(home: Path) -> int:
    log = nexus(home, "logs", "--json", "--lines", "1000").stdout
    return [json.loads(line).get("route") for line in log.splitlines()].count("/api/recall")


def test_a_home_that_is_served_answers_the_same_through_its_process(home: Path) -> None:
    asked = (
        "recall",
        "When is Ann's dentist appointment?",
        "--scope",
        "events,facts",
        "--after",
        "2026-05-01",
    )
    alone = json.loads(nexus(home, *asked, "--json").stdout)
    with serving(Home(home)):
        shown = nexus(home, *asked, "--json")
        explained = nexus(home, *asked, "--explain")
        until(lambda: _recalled(home) == 2)  # it is written once the answer is sent
    through = json.loads(shown.stdout)

    assert through["notes"] == alone["notes"] == []
    assert [result["item"] for result in through["results"]] == [
        result["item"] for result in alone["results"]
    ]
    assert _shape(through["results"]) == _shape(alone["results"])
    assert through.keys() == alone.keys()
    assert "found by" in explained.stdout, explained.stderr


def _shape(value: object) -> object:
    """Which keys are where, without numbers that depend on the time of day."""
    if isinstance(value, dict):
        return {
            key: _shape(each) for key, each in cast("dict[str, object]", value).items() if key != "factors"
        }
    return [_shape(each) for each in cast("list[object]", value)] if isinstance(value, list) else type(value)


def test_what_cannot_be_used_is_said_in_two_lines(home: Path) -> None:
    for arguments in (("--scope", "secrets"), ("--after", "soon")):
        shown = nexus(home, "recall", "dentist", *arguments)
        assert shown.returncode == 1
        assert len(shown.stderr.splitlines()) == 2


def test_the_models_are_listed_with_where_they_are(home: Path) -> None:
    shown = nexus(home, "models", "list")
    assert "nexus-english (default)" in shown.stdout
    assert re.search(r"Installed: (package nexus-model-english|source checkout)\.", shown.stdout)
    assert "nexus models pull ms-marco-minilm-l6-v2" in shown.stdout


def test_an_unknown_model_is_refused(home: Path) -> None:
    shown = nexus(home, "models", "pull", "gpt-7")
    assert shown.returncode == 1
    assert "Unknown model `gpt-7`" in shown.stderr
