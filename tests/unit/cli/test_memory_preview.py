"""`--preview`: what it prints, and that it changes nothing."""

import asyncio
import json
from typing import Any

from click.testing import CliRunner, Result

from nexus import clock
from nexus.cli import program
from nexus.config import LedgersConfig
from nexus.evaluation.preview import Difference, Preview
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory
from nexus.memory.writing import Provenance

OWNER = Provenance(actor="person:ada", kind="owner", channel="cli")
ACCESS = json.dumps({"level": "owner", "memory": "all"})


def run(home: Home, *arguments: str) -> Result:
    return CliRunner().invoke(program, ["--home", str(home.root), *arguments], catch_exceptions=False)


def fill(home: Home) -> str:
    """Learn a few facts and record a prompt that asks for one of them; returns that fact."""

    async def work() -> str:
        async with Ledgers(home, LedgersConfig()) as ledgers:
            operations: list[dict[str, Any]] = [
                {"operation": "entity", "id": "ruth", "name": "Ruth Hale", "type": "Person"},
                {"operation": "fact", "about": "ruth", "fact": "Ruth plays the cello in the Leeds orchestra"},
                {"operation": "fact", "about": "ruth", "fact": "Ruth keeps bees behind the shed"},
            ]
            answer = await Memory(ledgers).run("batch", {"operations": operations}, OWNER)
            await asyncio.sleep(0.01)
            now = clock.timestamp(clock.now())
            await ledgers.events.write(
                lambda connection: connection.execute(
                    "INSERT INTO events (id, channel, direction, content) "
                    "VALUES ('evt_1', 'cli', 'inbound', 'What instrument does Ruth Hale play?')"
                )
            )
            await ledgers.runtime.write(
                lambda connection: connection.execute(
                    "INSERT INTO requests "
                    "(id, root_request_id, event_id, session_label, access_json, created_at) "
                    "VALUES ('req_1', 'req_1', 'evt_1', 'main', ?, ?)",
                    (ACCESS, now),
                )
            )
            await ledgers.runtime.write(
                lambda connection: connection.execute(
                    "INSERT INTO executions (id, request_id, root_request_id, session_label) "
                    "VALUES ('exe_1', 'req_1', 'req_1', 'main')"
                )
            )
            await asyncio.sleep(0.01)
            return str(answer["results"][1]["id"])

    return asyncio.run(work())


def test_a_corrected_fact_is_shown_beside_what_it_replaces(home: Home) -> None:
    fact = fill(home)
    shown = run(home, "memory", "correct", fact, "Ruth plays the viola", "--preview").output
    assert "1 of the last 30 days' 1 prompt would have been different" in shown
    assert "- Ruth plays the cello in the Leeds orchestra" in shown
    assert "+ Ruth plays the viola" in shown
    assert "viola" not in run(home, "memory", "facts", "--json").output


def test_a_preview_as_json_counts_what_would_be_different(home: Home) -> None:
    fact = fill(home)
    for command in (
        ("forget", "fact", fact, "--preview", "--json"),
        ("memory", "review", "--reject", fact, "--preview", "--json"),
    ):
        found = json.loads(run(home, *command).stdout)
        assert (found["prompts"], found["different"]) == (1, 1)
        [difference] = found["differences"]
        assert difference["removed"][0].startswith("- Ruth plays the cello")
    assert "cello" in run(home, "memory", "facts", "--json").output


def test_an_empty_home_has_nothing_to_compare(home: Home) -> None:
    made = json.loads(run(home, "memory", "add", "Tea is served at five", "--json").stdout)
    shown = run(home, "memory", "review", "--reject", made["id"], "--preview").output
    assert "Nothing to compare: no prompts in the last 30 days." in shown


def test_what_cannot_be_done_cannot_be_previewed(home: Home) -> None:
    shown = CliRunner().invoke(
        program, ["--home", str(home.root), "memory", "correct", "fact_none", "x", "--preview"]
    )
    assert shown.exit_code
    assert not (home.run / "preview").exists()


def test_a_list_has_no_preview(home: Home) -> None:
    shown = CliRunner().invoke(program, ["--home", str(home.root), "memory", "review", "--preview"])
    assert shown.exit_code


def test_prompts_that_differ_by_earlier_messages_alone_are_counted_apart() -> None:
    def difference(*, removed: tuple[str, ...]) -> Difference:
        return Difference(
            request_id="req_1",
            execution_id="exe_1",
            at="",
            text="",
            before=removed,
            after=(),
            kept=(),
            removed=removed,
            added=(),
            has_other_history=True,
        )

    found = Preview(days=30, known_since="", until="", prompts=9)
    found.differences = [difference(removed=("- tea",)), difference(removed=()), difference(removed=())]
    assert "3 of the last 30 days' 9 prompts would have been different (2 of them only by" in found.summary
