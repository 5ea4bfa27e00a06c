"""The invented month in the ledgers of a home."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from pydantic_ai.messages import TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

from nexus import clock, ids
from nexus.broker.agent.message_json import load_message
from nexus.broker.agent.records import ToolCall
from nexus.config import Config
from nexus.demo.answers import dump_turn
from nexus.demo.filling import Demo, fill
from nexus.demo.month import load_cast
from nexus.demo.place import prepare
from nexus.errors import HomeError
from nexus.gateway.views import usage
from nexus.home import LEDGERS, Home
from nexus.ledgers import Ledgers, events
from nexus.ledgers.agents import history
from nexus.ledgers.events import NewEvent
from nexus.ledgers.runtime import automations, injections, requests, trace
from nexus.memory.conclusions import mental_models, observations
from nexus.memory.views import entities as entity_views
from nexus.memory.views import facts as fact_views
from nexus.roles.bundled import bundled_plugins

_UNTIL = datetime(2026, 5, 31, 18, tzinfo=UTC)
# They say when the home was made and where it lies; codes by which strangers ask are random on purpose.
_PARTICULAR = {"schema_migrations", "analysis_types", "pairings", "automations"}


async def _made(root: Path) -> Home:
    home = Home(root)
    await prepare(home, Config())
    await fill(home, Config(), Demo(seed=5, until=_UNTIL))
    return home


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "home"


@pytest.fixture
async def month(root: Path) -> Home:
    """The month, written once for all these tests, which only read it."""
    return Home(root) if root.exists() else await _made(root)


def _content(home: Home) -> dict[str, str]:
    """A fingerprint of every table."""
    found: dict[str, str] = {}
    for ledger in LEDGERS:
        connection = apsw.Connection(str(home.ledger(ledger)), flags=apsw.SQLITE_OPEN_READONLY)
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%fts%'"
        for (table,) in connection.execute(tables).fetchall():
            if table not in _PARTICULAR and not str(table).endswith("_terms"):
                rows = sorted(map(repr, connection.execute(f'SELECT * FROM "{table}"')))
                found[f"{ledger}.{table}"] = hashlib.sha256("\n".join(rows).encode()).hexdigest()
        connection.close()
    return found


async def test_two_homes_of_one_seed_hold_the_same_down_to_the_ids(month: Home, tmp_path: Path) -> None:
    assert _content(await _made(tmp_path / "other")) == _content(month)


async def test_everything_is_dated_within_the_month(month: Home) -> None:
    def dates(connection: apsw.Connection) -> list[Any]:
        tables = ("requests", "usage", "invocations", "dispatches")
        query = "SELECT min(created_at), max(created_at) FROM {}"
        return [connection.execute(query.format(table)).fetchone() for table in tables]

    async with Ledgers(month, Config().ledgers) as ledgers:
        for first, last in await ledgers.runtime.read(dates):
            assert "2026-05-01" <= first < last <= clock.timestamp(_UNTIL)


async def test_ids_are_made_of_the_present_again_afterwards(month: Home) -> None:
    async with Ledgers(month, Config().ledgers) as ledgers:
        newest = await ledgers.runtime.read(requests.recent_roots, limit=1)
    assert ids.new("req") > newest[0].id


async def test_requests_ended_in_every_way_and_one_has_workers(month: Home) -> None:
    async with Ledgers(month, Config().ledgers) as ledgers:
        roots = await ledgers.runtime.read(requests.recent_roots, limit=1_000)
        asked = next(root for root in roots if root.session_label == "kitchen")
        lineage = await ledgers.runtime.read(requests.lineage, root_request_id=roots[-1].id)
        trees = [await ledgers.runtime.read(trace.load, request_id=root.id) for root in roots[-80:]]
    assert {root.status for root in roots} == {"done", "failed", "denied", "cancelled"}
    assert asked.access.level == "owner"
    assert len(lineage) == 1
    kinds = {node.detail.get("kind", node.kind) for tree in trees for node in tree.walk()}
    assert kinds >= {"request", "execution", "automation", "stage", "hook", "model", "tool"}
    assert max(sum(node.kind == "request" for node in tree.walk()) for tree in trees) == 3


async def test_what_changed_over_time_is_there_with_what_was_before(month: Home) -> None:
    async with Ledgers(month, Config().ledgers) as ledgers:
        lived = await fact_views.load_log(ledgers, "Clara Holm")
        pairs = await entity_views.load_candidates(ledgers, status=None)
    places = [fact.fact for fact in lived if fact.relation_type == "LIVES_IN"]
    assert "Aarhus" in places[0]
    assert "lives in Rotterdam now" in places[1]
    assert sorted(pair.status for pair in pairs) == ["accepted", "pending", "rejected"]


async def test_conclusions_have_versions_and_hold_while_nothing_replaces_their_facts(month: Home) -> None:
    async with Ledgers(month, Config().ledgers) as ledgers:
        observed = await observations.list_observations(ledgers)
        models = await mental_models.list_models(ledgers)
    assert {each["version"] for each in observed} == {1, 2}
    assert {(model.name, model.version) for model in models} == {
        ("How Mira likes things", 1),
        ("State of the Tidal Room", 2),
    }
    assert [model.stale_at for model in models] == [None, None]


async def test_an_automation_has_versions_and_another_an_open_circuit(month: Home) -> None:
    async with Ledgers(month, Config().ledgers) as ledgers:
        tagging = await ledgers.runtime.read(automations.versions, name="tag-errands")
        tracker = await ledgers.runtime.read(automations.get, name="parcel-tracker")
    assert [each.version for each in tagging] == [3, 2, 1]
    assert tracker is not None
    assert tracker.circuit_state == "open"


async def test_the_bundled_automations_are_registered_when_it_ends(month: Home) -> None:
    async with Ledgers(month, Config().ledgers) as ledgers:
        found = {each.name: each for each in await ledgers.runtime.read(automations.list_current)}
    assert {each.name for each in bundled_plugins(config=Config())} <= found.keys()
    assert found["memory-reader"].disabled_reason == "off by default"
    assert (month.meeseeks / "memory-reader" / "ROLE.md").is_file()


async def test_what_was_injected_leads_to_the_message_that_it_was_learned_from(month: Home) -> None:
    async with Ledgers(month, Config().ledgers) as ledgers:
        known = await fact_views.load_log(ledgers, "Clara Holm")
        moved = next(fact for fact in known if "lives in Rotterdam now" in fact.fact)
        (when,) = await ledgers.runtime.read(injections.of_item, item_id=moved.id)
        offered = await ledgers.runtime.read(injections.of_root, root_request_id=when.root_request_id)
    assert {each.injected for each in offered} == {True, False}
    assert when.used
    assert moved.said is not None
    assert moved.said.content.startswith("We are here!")


async def test_what_automations_spent_is_told_apart_and_one_message_met_its_budget(month: Home) -> None:
    async with Ledgers(month, Config().ledgers) as ledgers:
        spent = await usage.load_usage(ledgers, days=31, now=lambda: _UNTIL)
        (hit,) = await usage.load_hits(ledgers, days=31, now=lambda: _UNTIL)
        request = await ledgers.runtime.read(requests.get, request_id=hit.request_id)
    assert [each.name for each in spent.automations] == ["evening-notes"]
    assert 0 < hit.most <= hit.used
    assert request is not None
    assert "The budget of" in (request.error or "")


async def test_a_session_of_the_month_can_be_gone_on_with(month: Home) -> None:

    async with Ledgers(month, Config().ledgers) as ledgers:
        past = await ledgers.agents.read(history.load, session_label="kitchen")
    assert [load_message(message.parts_json or "") for message in past.messages]
    assert {message.role for message in past.messages} == {"user", "assistant", "tool"}


async def test_a_home_that_holds_something_is_refused(home: Home) -> None:
    async with Ledgers(home, Config().ledgers) as ledgers:
        new = NewEvent(channel="cli", content="Mine")
        await ledgers.events.write(events.append, events=[new])
    with pytest.raises(HomeError, match="already contains data"):
        await prepare(home, Config())


async def test_a_folder_that_is_no_home_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "first.txt").write_text("Dear")
    with pytest.raises(HomeError, match="not an empty folder"):
        await prepare(Home(tmp_path / "letters"), Config())


def test_a_turn_reads_as_the_agent_library_writes_it() -> None:
    at = datetime(2026, 5, 1, 9, tzinfo=UTC)
    call = ToolCall(call_id="c1", tool="recall", arguments_json='{"query": "trams"}')

    said, called, gave, answered = map(load_message, dump_turn("Trams?", [(call, "69")], "69 trams.", at))

    assert said.parts == [UserPromptPart("Trams?", timestamp=at)]
    assert called.parts == [ToolCallPart("recall", call.arguments_json, "c1")]
    assert gave.parts == [ToolReturnPart("recall", "69", "c1", timestamp=at)]
    assert answered.parts == [TextPart("69 trams.")]
    assert {each.timestamp for each in (said, called, gave, answered)} == {at}


def test_first_names_are_names_of_the_people() -> None:
    for each in load_cast():
        name = each["name"].split()[0]
        # There are two Brams in the story.
        if each["type"] == "Person" and name != "Bram":
            assert name in each["alias"]
