"""Every surface says the same of a fact, a run and an automation.

Surfaces are commands, API, MCP, Python, agents' tools, automations and the dashboard.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from nexus.app import App
from nexus.automations.services import find_matches
from nexus.broker.tools.recall import recall_tool
from nexus.broker.tools.sandbox import Sandbox
from nexus.broker.tools.tool import Context
from nexus.cli import program
from nexus.cli.recall import print_answer
from nexus.config import Config
from nexus.gateway.dependencies import Served
from nexus.gateway.guard import Keys
from nexus.gateway.mcp.mind import Mind
from nexus.gateway.server import build
from nexus.home import Home
from nexus.ledgers import sql
from nexus.library.items import make_hit
from nexus.memory.recall.item import Matches, Query
from nexus.memory.recall.recall import Recall
from nexus.memory.writing import Provenance
from nexus.request import Access, Event, Request
from nexus.serialization import decode
from nexus.skills.commands import Commands
from unit.gateway.scene import Scene

OLD, NEW = "Sarah works at Anthropic", "Sarah works at Mistral"
QUESTION = "Where does Sarah work?"
LONG_MS = 30_000


@dataclass(frozen=True, kw_only=True)
class Account:
    """What a surface says of a fact."""

    id: str
    text: str
    day: str
    source_event_id: str | None
    replaced_by: tuple[str, str, str] | None
    """Id, text and how."""


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """A home in which a fact came from a message and was replaced by hand since."""

    app: App
    client: httpx.AsyncClient
    old: Account
    new: Account

    @property
    def accounts(self) -> dict[str, Account]:
        """What every surface has to say of the two facts."""
        return {each.id: each for each in (self.old, self.new)}

    async def recall(self) -> Recall:
        return Recall(self.app.ledgers, None)

    async def get(self, path: str, **params: Any) -> httpx.Response:
        return await get(self.client, path, **params)


async def get(client: httpx.AsyncClient, path: str, **params: Any) -> httpx.Response:
    response = await client.get(path, params=params)
    assert response.status_code == 200, response.text
    return response


async def run(app: App, *words: str) -> Any:
    """What a command prints as JSON."""
    arguments = ["--home", str(app.home.root), *words, "--json"]
    done = await asyncio.to_thread(CliRunner().invoke, program, arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
async def app(home: Home) -> AsyncIterator[App]:
    async with App(home, Config(), serve=False) as app:
        yield app


@pytest.fixture
async def client(app: App) -> AsyncIterator[httpx.AsyncClient]:
    """Whoever came past the guard."""
    async with AsyncExitStack() as stack:
        transport = httpx.ASGITransport(build(Served(app, Keys("t" * 43), stack)))
        yield await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7807")
        )


@pytest.fixture
async def corrected(app: App, client: httpx.AsyncClient) -> Corrected:
    scene = Scene(ledgers=app.ledgers)
    (event_id,) = await scene.say("Sarah has started at Anthropic", sender="mona")
    await scene.remember("entity", id="sarah", name="Sarah Chen", type="Person")
    old = await scene.remember("fact", event_id=event_id, about="sarah", fact=OLD, as_of="2026-05-01")
    person = Provenance(actor="person:mona", kind="owner", channel="cli")
    new = await app.memory.correct(old["id"], NEW, person, how="changed")
    (written,) = await app.ledgers.memory.read(
        sql.rows, "SELECT valid_at FROM facts WHERE id = ?", (new["id"],)
    )
    return Corrected(
        app=app,
        client=client,
        old=Account(
            id=old["id"],
            text=OLD,
            day="2026-05-01",
            source_event_id=event_id,
            replaced_by=(new["id"], NEW, "changed"),
        ),
        new=Account(id=new["id"], text=NEW, day=written[0][:10], source_event_id=None, replaced_by=None),
    )


def account(fact: dict[str, Any]) -> Account:
    """A fact in the JSON of commands, API and MCP."""
    by = fact["replaced_by"]
    return Account(
        id=fact["id"],
        text=fact["fact"],
        day=fact["at"][:10],
        source_event_id=fact["source_event_id"],
        replaced_by=(by["id"], by.get("fact") or by["text"], by["how"]) if by else None,
    )


def account_of_match(match: dict[str, Any]) -> Account:
    """What recall found, in the JSON of a surface."""
    by = match.get("replaced_by")
    return Account(
        id=match["id"],
        text=match["text"],
        day=match["at"][:10],
        source_event_id=match.get("source_event_id"),
        replaced_by=(by["id"], by["text"], by["how"]) if by else None,
    )


def leave_out(values: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


async def test_every_surface_says_the_same_of_a_fact(corrected: Corrected) -> None:
    wanted = corrected.accounts
    app = corrected.app
    timeline = await run(app, "memory", "timeline", "Sarah Chen")
    assert {each["id"]: account(each) for each in timeline} == wanted
    assert await run(app, "memory", "facts") == timeline
    assert (await run(app, "memory", "show", "Sarah Chen"))["facts"] == timeline
    assert await run(app, "memory", "changes") == [
        each for each in timeline if each["id"] == corrected.old.id
    ]

    listed = (await corrected.get("/api/memory/facts")).json()["items"]
    of_entity = (await corrected.get("/api/memory/entities/sarah/timeline")).json()["items"]
    assert {each["id"]: account(each) for each in listed} == wanted
    assert sorted(of_entity, key=lambda each: each["seq"]) == listed[::-1]
    for fact_id, told in wanted.items():
        view = (await corrected.get(f"/api/memory/facts/{fact_id}")).json()
        assert account(view["fact"]) == told
        assert {each["id"]: account(each) for each in view["chain"]} == wanted

    observed = (await Mind(corrected.app, serves=False).timeline("Sarah Chen", 10)).observations
    assert {each.id: account(each.model_dump()) for each in observed} == wanted

    for fact_id, told in wanted.items():
        page = (await corrected.get(f"/memory/facts/{fact_id}")).text
        assert told.text in page
        assert told.day in page
        assert fact_id in page
        if told.source_event_id:
            assert f"/events/{told.source_event_id}" in page
        if told.replaced_by:
            assert f"now: {NEW}" in page


async def test_who_said_it_is_the_same_everywhere(corrected: Corrected) -> None:
    printed = await run(corrected.app, "memory", "timeline", "Sarah Chen")
    by_command = {each["id"]: (each["said"]["sender"], each["said"]["channel"]) for each in printed}
    listed = (await corrected.get("/api/memory/facts")).json()["items"]
    by_api = {
        each["id"]: (each["said"]["sender"], each["said"]["channel"])
        if each["said"]
        else (each["written"]["by"], each["written"]["channel"])
        for each in listed
    }
    observed = (await Mind(corrected.app, serves=False).timeline("Sarah Chen", 10)).observations
    assert by_command == by_api == {corrected.old.id: ("mona", "cli"), corrected.new.id: ("mona", "cli")}
    assert {each.id: each.said_by for each in observed} == {
        id_: sender for id_, (sender, _) in by_command.items()
    }


async def test_every_surface_says_the_same_of_what_recall_finds(
    corrected: Corrected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = corrected.accounts
    query = Query(text=QUESTION, kinds=frozenset({"fact"}), deadline_ms=LONG_MS)

    found = (await corrected.get("/api/recall", text=QUESTION, scope="facts")).json()
    assert {each["item"]["id"]: account_of_match(each["item"]) for each in found["results"]} == wanted

    memories = (await Mind(corrected.app, serves=False).recall(query)).memories
    assert {each.id: account_of_match(each.model_dump()) for each in memories} == wanted

    hits = [make_hit(each) for each in (await (await corrected.recall()).find(query)).results]
    assert {
        each.id: Account(
            id=each.id,
            text=each.text,
            day=each.at.date().isoformat(),
            source_event_id=each.source,
            replaced_by=(by.id, by.text, by.how) if (by := each.replaced_by) else None,
        )
        for each in hits
    } == wanted
    notes = {each.id: each.note for each in hits}
    assert notes[corrected.old.id].endswith(f"now: {NEW}")
    assert notes[corrected.new.id] == ""
    assert {each.id: each.note or "" for each in memories} == notes

    commands = Commands(corrected.app.memory, corrected.recall, Provenance(actor="test"))
    searched = json.loads(json.dumps(await commands.search([QUESTION, "--scope", "facts"])))
    assert {each["id"]: account_of_match(each) for each in searched["results"]} == wanted
    assert {each["id"]: each.get("note", "") for each in searched["results"]} == notes
    # Only how they were found may differ: a search by words alone stands beside one with vectors.
    graded = {"found_by", "probability", "strength"}
    assert {each["id"]: leave_out(each, graded) for each in searched["results"]} == {
        each.id: leave_out(each.model_dump(mode="json"), graded) for each in memories
    }
    for each in found["results"]:
        [short] = [result for result in searched["results"] if result["id"] == each["item"]["id"]]
        whole = {**each["reasons"], **each["item"]}
        assert all(whole[name] == value for name, value in leave_out(short, {*graded, "note"}).items())

    owner = Request(event=Event(content=""), access=Access(level="owner", memory="all"))
    options = {"kinds": ["fact"], "deadline_ms": LONG_MS}
    recalled = await find_matches(corrected.recall, owner, QUESTION, options)
    items = [each.item for each in recalled.results]
    assert {each.id: (each.text, each.at[:10]) for each in items} == {
        told.id: (told.text, told.day) for told in wanted.values()
    }
    assert {each.id: each.note for each in items} == notes

    async def ask(_: Context) -> Recall:
        return await corrected.recall()

    tool = recall_tool(ask)
    told = await tool.call(
        {"query": QUESTION, "scope": "facts"}, Context(sandbox=Sandbox(), directory=tmp_path)
    )
    print_answer(decode(Matches, found), explain=True)
    printed = " ".join(capsys.readouterr().out.split())
    page = (await corrected.get("/memory", q=QUESTION, scope="facts")).text
    for surface in (told, printed, page):
        for each in wanted.values():
            assert each.text in surface
            assert each.day in surface
            assert each.id in surface
            assert not each.source_event_id or each.source_event_id in surface
            assert not each.replaced_by or f"now: {NEW}" in surface


async def test_every_surface_says_the_same_of_a_run(app: App, client: httpx.AsyncClient) -> None:
    scene = Scene(ledgers=app.ledgers)
    request_id = await scene.lineage()
    printed = await run(app, "trace", request_id)
    told = (await get(client, f"/api/requests/{request_id}")).json()
    assert without_offsets({**told["trace"], "asked": told["asked"], "changes": told["changes"]}) == (
        without_offsets(printed)
    )
    listed = (await get(client, "/api/requests")).json()["items"]
    assert [(each["id"], each["status"], each["total"]) for each in listed] == [
        (request_id, printed["status"], printed["total"])
    ]
    page = (await get(client, f"/requests/{request_id}")).text
    for part in (request_id, printed["status"], "ModelError: no model answered"):
        assert part in page


def without_offsets(step: dict[str, Any]) -> dict[str, Any]:
    """A step of a trace without what only the command adds: when each began after the first."""
    kept = {name: value for name, value in step.items() if name != "offset_ms"}
    return kept | {"children": [without_offsets(child) for child in step["children"]]}


async def test_every_surface_says_the_same_of_an_automation(
    app: App, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    scene = Scene(ledgers=app.ledgers)
    made = await scene.automation(
        tmp_path, "tidy-up", description="Tidies the notes.", hook_point="runAutomations"
    )
    printed = await run(app, "automations", "show", made.name)
    told = (await get(client, f"/api/automations/{made.name}")).json()
    assert {name: printed[name] for name in told["automation"]} == told["automation"]
    state, condition = ("state", "level", "remedy", "next_at"), told["condition"]
    assert [printed[name] for name in state] == [
        condition["text"], condition["level"], condition["remedy"], condition["next_at"]
    ]  # fmt: skip
    (listed,) = [
        line
        for place in (await get(client, "/api/automations")).json()
        for line in place["automations"]
        if line["automation"]["name"] == made.name
    ]
    assert (listed["automation"], listed["condition"]) == (told["automation"], told["condition"])
    assert [each for each in await run(app, "automations", "list") if each["name"] == made.name] == [
        {name: value for name, value in printed.items() if name != "lessons"}
    ]
    page = (await get(client, f"/automations/{made.name}")).text
    for part in (made.name, made.description or "", printed["state"], "runAutomations"):
        assert part in page
