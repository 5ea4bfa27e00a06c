"""`nexus memory`, as a person uses it."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from acceptance.program import nexus
from nexus import clock
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers, attach, events
from nexus.ledgers.events import NewEvent
from nexus.memory.operations import Memory
from nexus.memory.writing import Provenance

TYLER = [
    ("2024-03-15", "Tyler works at Google", 0.8),
    ("2025-01-10", "Tyler left Google", 0.9),
    ("2025-02-01", "Tyler works at Anthropic", 1.0),
    ("2026-02-10", "Tyler is building Nexus at Anthropic", 1.0),
]


async def _fill(home: Home) -> None:
    async with Ledgers(home, LedgersConfig()) as ledgers:
        thread, (said,) = await ledgers.events.write(_talk)
        for day, fact, confidence in TYLER:
            memory = Memory(ledgers, now=lambda day=day: clock.parse(day))
            observed = {"source": "tyler", "type": "WORKS_AT", "fact": fact, "confidence": confidence}
            await memory.run(
                "relationship", observed, Provenance(actor="writer", kind="writer", event_id=said)
            )
        memory = Memory(ledgers)
        await memory.run(
            "entity", {"id": "tyler", "name": "Tyler Brown", "type": "Person", "alias": "t@x.org"}
        )
        await memory.run("entity", {"id": "other", "name": "Tylor Brown", "type": "Person"})
        await memory.run("entity", {"id": "google", "name": "Google", "type": "Company"})
        await memory.run("fact", {"about": "other", "fact": "Tylor plays chess", "entities": "google"})
        assert thread


def _talk(connection: Any) -> tuple[str, list[str]]:
    thread = events.ensure_thread(connection, channel="slack", external_id="t")
    at = clock.parse("2024-03-15T09:00Z")
    said = NewEvent(
        channel="slack", thread_id=thread, sender="Tyler", content="I am at Google", occurred_at=at
    )
    return thread, events.append(connection, [said])


@pytest.fixture
def made(tmp_path: Path) -> Path:
    home = Home(tmp_path / "h")
    assert nexus(home.root, "init").returncode == 0
    asyncio.run(_fill(home))
    return home.root


def answered(home: Path, *words: str) -> Any:
    done = nexus(home, "memory", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_timeline_prints_all_observations_in_order_with_their_sources(made: Path) -> None:
    log = answered(made, "timeline", "Tyler Brown")
    assert [(fact["at"][:10], fact["fact"], fact["confidence"]) for fact in log] == TYLER
    assert {fact["said"]["sender"] for fact in log} == {"Tyler"}

    printed = nexus(made, "memory", "timeline", "t@x.org").stdout
    places = [printed.index(fact) for _, fact, _ in TYLER]
    assert places == sorted(places)
    assert "Tyler, slack 2024-03-15 09:00" in printed

    query = (
        "SELECT fact FROM relationships WHERE source_entity_id = 'tyler' AND relation_type = 'WORKS_AT' "
        "ORDER BY created_at ASC;"
    )
    command = ["sqlite3", "-init", str(attach.path(Home(made), writes=False)), ":memory:", query]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [fact for _, fact, _ in TYLER]


def test_entities_are_listed_found_merged_and_taken_apart(made: Path) -> None:
    listed = {entity["id"]: entity["facts"] for entity in answered(made, "entities")}
    assert listed == {"tyler": 4, "other": 1, "google": 1}
    assert [entity["id"] for entity in answered(made, "entities", "t@x")] == ["tyler"]
    assert [entity["id"] for entity in answered(made, "entities", "--type", "company")] == ["google"]

    (pair,) = answered(made, "candidates")
    assert {pair["entity_a_id"], pair["entity_b_id"]} == {"tyler", "other"}

    before = answered(made, "show", "other")
    merged = answered(made, "merge", "Tylor Brown", "Tyler Brown", "--reason", "a slip of the pen")
    assert (merged["merged"], merged["root"]) == ("other", "tyler")
    whole = answered(made, "show", "Tylor Brown")
    assert (whole["id"], whole["merged"], len(whole["facts"])) == ("tyler", ["other"], 5)
    assert whole["merge_events"][0]["reason"] == "a slip of the pen"
    assert "may be" not in (printed := nexus(made, "memory", "show", "tyler").stdout)
    assert "a slip of the pen" in printed

    assert nexus(made, "memory", "unmerge", "Tylor Brown").returncode == 0
    after = answered(made, "show", "other")
    assert [event["action"] for event in after.pop("merge_events")] == ["merge", "unmerge"]
    assert after == {name: value for name, value in before.items() if name != "merge_events"}

    assert nexus(made, "memory", "reject", pair["id"]).returncode == 0
    assert [each["status"] for each in answered(made, "candidates", "--status", "all")] == ["rejected"]


def test_facts_episodes_and_counts(made: Path) -> None:
    assert [fact["fact"] for fact in answered(made, "facts", "chess")] == ["Tylor plays chess"]
    done = nexus(made, "memory", "episodes", "--make")
    assert "Made 1 episode of 1 event." in done.stderr
    (episode,) = answered(made, "episodes")
    assert (episode["channel"], episode["event_count"], episode["version"]) == ("slack", 1, 1)
    assert "3  2 Person, 1 Company" in nexus(made, "memory", "stats").stdout


def test_mistakes_are_answered_with_what_to_do(made: Path) -> None:
    unknown = nexus(made, "memory", "show", "Tyler Browning")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith("nexus: No entity is called 'Tyler Browning'\n  Similar: Tyl")
    apart = nexus(made, "memory", "unmerge", "google")
    assert apart.stderr == "nexus: google is not merged into another entity\n  Nothing is merged with it.\n"
