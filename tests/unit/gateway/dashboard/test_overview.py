"""The home page, the search over everything, and sessions as their owner arranges them."""

import re

import apsw
import httpx
import pytest
from starlette.routing import Route

from nexus import clock
from nexus.app import App
from nexus.gateway.dashboard import routes
from nexus.gateway.dashboard.pages.search import PAGES
from nexus.gateway.views import requests, sessions
from nexus.ledgers import events
from nexus.ledgers.agents import messages, turns
from nexus.ledgers.agents import sessions as stored
from nexus.ledgers.agents.messages import NewMessage
from nexus.ledgers.identity import access, senders
from nexus.ledgers.identity.senders import Seen
from nexus.ledgers.runtime import approvals
from nexus.memory.views import facts
from nexus.memory.views.page import Period
from unit.gateway.scene import Scene


@pytest.fixture
async def telegram(scene: Scene) -> None:
    """What Tyler says on a channel that knows him by a number, in the session of that conversation."""
    seen = Seen(channel="telegram", identifier="4471", display_name="Tyler Reed")
    await scene.ledgers.identity.write(senders.resolve, seen=seen)
    texts = ("Where is the harbor key?", "Found it.")
    ids = await scene.say(*texts, thread="4471", channel="telegram", sender="4471")
    thread_id = await scene.ledgers.events.write(events.ensure_thread, channel="telegram", external_id="4471")

    def work(connection: apsw.Connection) -> None:
        stored.ensure(connection, "telegram:4471", role="manager", thread_id=thread_id)
        for number, (event_id, text) in enumerate(zip(ids, texts, strict=True)):
            turn = turns.begin(
                connection,
                session_label="telegram:4471",
                execution_id=f"exe_t{number}",
                request_id=f"req_t{number}",
                role="manager",
            )
            said = [NewMessage(role="user", content=text, parts_json=None, event_id=event_id)]
            messages.append(connection, turn, 0, said)
            turns.end(connection, turn.id, "done")

    await scene.ledgers.agents.write(work)


async def test_the_home_page_shows_what_waits_and_what_happened_today(
    client: httpx.AsyncClient, app: App, scene: Scene
) -> None:
    await scene.remember("entity", id="tyler", name="Tyler", type="Person")
    await scene.remember("fact", about="tyler", fact="Tyler plays the cello")
    contact = await scene.ledgers.identity.write(
        senders.resolve, seen=Seen(channel="telegram", identifier="4471", display_name="Nora")
    )
    await scene.ledgers.identity.write(access.ask, contact_id=contact.contact_id)
    page = (await client.get("/")).text
    assert "Nora asks for access on telegram" in page
    assert "Tyler plays the cello" in page
    assert re.search(r"Learned today</span><b>1</b>", page)
    assert "No model is set" in page


async def test_a_call_that_waits_for_approval_leads_to_its_session(
    client: httpx.AsyncClient, app: App, scene: Scene
) -> None:
    root = await scene.lineage()
    await app.ledgers.runtime.write(
        approvals.ask,
        request_id=root,
        execution_id="exe_3",
        call_key="1",
        tool="bash",
        arguments={"command": "rm -r build"},
    )
    page = (await client.get("/")).text
    assert "Allow bash?" in page
    assert "rm -r build" in page


async def test_one_search_finds_people_facts_messages_settings_and_commands(
    client: httpx.AsyncClient, scene: Scene
) -> None:
    (event_id,) = await scene.say("The harbor garden opens in June")
    await scene.remember("entity", id="harbor", name="Harbor Garden", type="Place")
    await scene.remember("fact", about="harbor", fact="The harbor garden opens in June", event_id=event_id)
    found = (await client.get("/search", params={"q": "harbor garden"})).text
    assert f'href="/events/{event_id}"' in found
    assert 'href="/memory/entities/harbor"' in found
    (fact_id,) = re.findall(r'href="/memory/facts/(fact_\w+)"', found)
    assert f'href="/memory/facts/{fact_id}"' in (await client.get("/search", params={"q": fact_id})).text
    assert "The harbor garden opens" in (await client.get(f"/memory/facts/{fact_id}")).text
    part = await client.get("/search", params={"q": "budget"}, headers={"HX-Request": "true"})
    assert "<html" not in part.text
    assert "/settings#budgets" in part.text
    commands = (await client.get("/search", params={"q": "forget entity"})).text
    assert "/help#nexus-forget-entity" in commands
    assert 'id="nexus-forget-entity"' in (await client.get("/help")).text
    assert "/requests/req_01" in (await client.get("/search", params={"q": "req_01"})).text
    assert "Nothing found" in (await client.get("/search", params={"q": "zzqx"})).text


async def test_every_page_is_found_by_its_name() -> None:
    found = {
        route.path
        for route in routes()
        if isinstance(route, Route) and "GET" in (route.methods or ()) and "{" not in route.path
    }
    assert found - {href for _, href, _ in PAGES} == {
        "/favicon.ico",
        "/sw.js",
        "/search",
        "/backfill/progress",
        "/memory/forget",
        "/automations/new/script",
        "/mcp-servers/signed-in",
    }


async def test_automations_sessions_are_listed_when_asked_for(
    client: httpx.AsyncClient, scene: Scene
) -> None:
    await scene.converse("Learn this", label="meeseeks:memory-writer:main:exe_1")
    await scene.converse("Good morning", label="main")
    listed = (await client.get("/sessions")).text
    assert "Good morning" in listed
    assert "memory-writer" not in listed
    assert "memory-writer" not in (await client.get("/chat/main")).text
    own = (await client.get("/sessions", params={"kind": "automations"})).text
    assert "memory-writer" in own
    assert "Good morning" not in own
    every = (await client.get("/sessions", params={"kind": "all"})).text
    assert "memory-writer" in every
    assert "Good morning" in every


@pytest.mark.usefixtures("telegram")
async def test_people_on_a_channel_are_called_by_their_names(client: httpx.AsyncClient, scene: Scene) -> None:
    listed = (await client.get("/sessions")).text
    assert "Tyler Reed · telegram" in listed
    found = (await client.get("/search", params={"q": "harbor key"})).text
    assert "Tyler Reed · telegram" in found
    event_id = re.findall(r"/events/(evt_\w+)", found)[0]
    assert "Tyler Reed" in (await client.get(f"/events/{event_id}")).text


@pytest.mark.usefixtures("telegram")
async def test_a_session_is_renamed_archived_found_and_comes_back(
    client: httpx.AsyncClient, scene: Scene
) -> None:
    await client.post("/sessions/telegram:4471", data={"to": "rename", "title": "  Harbor   keys "})
    assert "Harbor keys" in (await client.get("/sessions")).text
    assert "Harbor keys" in (await client.get("/chat/telegram:4471")).text
    assert "Harbor keys" in (await client.get("/sessions", params={"q": "harbor"})).text
    assert "Harbor keys" in (await client.get("/sessions", params={"q": "found it"})).text, "by what was said"
    assert "No sessions found" in (await client.get("/sessions", params={"q": "zzqx"})).text
    await client.post("/sessions/telegram:4471", data={"to": "archive"})
    assert "Harbor keys" not in (await client.get("/sessions")).text
    assert "Harbor keys" in (await client.get("/sessions", params={"archived": "1"})).text
    await scene.ledgers.agents.write(
        lambda c: turns.begin(
            c, session_label="telegram:4471", execution_id="exe_new", request_id="req_new", role="manager"
        )
    )
    assert "Harbor keys" in (await client.get("/sessions")).text, "what is used again is not archived"


@pytest.mark.usefixtures("telegram")
async def test_a_session_is_deleted_after_its_preview(client: httpx.AsyncClient, scene: Scene) -> None:
    await scene.converse("Something else", label="other")
    shown = (await client.get("/session-deletion/telegram:4471")).text
    assert re.search(r"Messages</th><td class=\"n\">2</td>", shown)
    done = await client.post("/session-deletion/telegram:4471")
    assert done.status_code == 303
    labels = {line.label for line in (await sessions.load_page(scene.ledgers)).items}
    assert labels == {"other"}
    assert "harbor key" not in (await client.get("/search", params={"q": "harbor key"})).text.lower().replace(
        "nothing found for “harbor key”", ""
    ).replace('value="harbor key"', "")
    assert "no messages of people" in (await client.get("/session-deletion/other")).text


async def test_lists_are_limited_to_days(client: httpx.AsyncClient, scene: Scene) -> None:
    await scene.requests(3)  # of 2026-05-02
    await scene.remember("entity", id="tyler", name="Tyler", type="Person")
    await scene.remember("fact", about="tyler", fact="Tyler plays the cello")
    may = Period(since="2026-05-02", until="2026-05-03")
    assert len((await requests.load_page(scene.ledgers, period=may)).items) == 3
    assert not (await requests.load_page(scene.ledgers, period=Period(since="2026-05-03"))).items
    assert not (await requests.load_page(scene.ledgers, period=Period(until="2026-05-02"))).items
    today = Period(since=clock.day(clock.now()))
    assert len((await facts.load_page(scene.ledgers, period=today)).items) == 1
    assert not (await facts.load_page(scene.ledgers, period=Period(until="2026-01-01"))).items
    dates = {"when": "custom", "since": "2026-05-02", "until": "2026-05-02"}
    assert "req_cli_0002" in (await client.get("/requests", params=dates)).text
    assert "No requests found" in (await client.get("/requests", params={"when": "7"})).text
    assert "No requests found" not in (await client.get("/requests", params={**dates, "until": "x"})).text


async def test_reminders_and_pairs_are_limited_to_days(
    client: httpx.AsyncClient, app: App, scene: Scene
) -> None:
    draft = await app.reminders.draft("every Monday at 9 water the plants")
    await app.remind(draft, session_label="main", channel="web")
    for id_, alias in (("ada", "Ada Lovelace"), ("countess", "Countess Lovelace")):
        await scene.remember("entity", id=id_, name=alias, type="Person")
        await scene.remember("alias", entity=id_, alias="ada@example.com:email")
    old = {"when": "custom", "until": "2020-01-01"}
    for address, text, none in (
        ("/reminders", "water the plants", "No reminders found"),
        ("/memory/merges", "Countess Lovelace", "No pairs found"),
    ):
        for days in ({}, {"when": "1"}):
            assert text in (await client.get(address, params=days)).text
        shown = (await client.get(address, params=old)).text
        assert text not in shown
        assert none in shown


async def test_pages_of_a_list_go_on_within_the_days(scene: Scene) -> None:
    await scene.requests(5)
    may, seen, cursor = Period(since="2026-05-02", until="2026-05-03"), list[str](), None
    for _ in range(3):
        page = await requests.load_page(scene.ledgers, period=may, cursor=cursor, limit=2)
        seen += [line.id for line in page.items]
        cursor = page.next
    assert seen == [f"req_cli_{number:04}" for number in (4, 3, 2, 1, 0)]
    assert cursor is None
    await scene.remember("entity", id="tyler", name="Tyler", type="Person")
    for number in range(5):
        await scene.remember("fact", about="tyler", fact=f"Tyler has {number} boats")
    today, told, cursor = Period(since=clock.day(clock.now())), list[str](), None
    for _ in range(3):
        found = await facts.load_page(scene.ledgers, period=today, cursor=cursor, limit=2)
        told += [fact.fact for fact in found.items]
        cursor = found.next
    assert told == [f"Tyler has {number} boats" for number in (4, 3, 2, 1, 0)]
