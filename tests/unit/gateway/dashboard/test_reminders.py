"""Reminders in the browser: drafted in the chat, shown before they are saved, listed, paused and deleted."""

import asyncio
import html
import re
from pathlib import Path

import apsw
import httpx

from nexus.app import App
from nexus.automations import changes, registration
from nexus.ledgers import events
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation, NewAutomation
from unit.gateway.scene import Scene

PART = {"HX-Request": "true"}
PROPOSED = '''"""tea-time: Says that there is <tea>."""


def run(ctx):
    return {"response": "tea"}
'''


def fields(page: str) -> dict[str, str]:
    """The hidden fields of the form that saves a draft."""
    form = page[page.index('<form class="reminder"') :]
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form)
    return {name: html.unescape(value) for name, value in found}


async def test_the_chat_shows_the_time_before_it_saves_a_reminder(
    client: httpx.AsyncClient, app: App
) -> None:
    said = {"text": "/remind every Monday at 9 tell me <what> is open"}
    drafted = await client.post("/chat/desk", data=said, headers=PART)
    assert "Every Monday at 09:00 UTC. Next: Monday " in drafted.text
    assert "The agent answers: tell me &lt;what&gt; is open" in drafted.text
    assert await app.reminders.load_all() == []
    saved = await client.post("/reminders", data=fields(drafted.text), headers=PART)
    assert "Saved: every Monday at 09:00 UTC: tell me &lt;what&gt; is open" in saved.text
    (made,) = await app.reminders.load_all()
    assert (made.session, made.channel, made.asks) == ("desk", "web", True)
    assert (made.when, made.text) == ("every Monday at 09:00 UTC", "tell me <what> is open")


async def test_words_without_a_time_are_answered_with_examples(client: httpx.AsyncClient, app: App) -> None:
    told = await client.post("/chat/desk", data={"text": "/remind call Anna"}, headers=PART)
    assert "No time found" in told.text
    assert "in two hours" in told.text
    assert await app.reminders.load_all() == []


async def test_a_reminder_is_listed_paused_and_deleted(client: httpx.AsyncClient, app: App) -> None:
    await app.remind(await app.reminders.draft("tomorrow at 9 call Anna"))
    assert "call Anna" in (await client.get("/reminders")).text
    await client.post("/reminders/reminder-1/pause")
    assert "Resume" in (await client.get("/reminders")).text
    await client.post("/reminders/reminder-1/resume")
    assert "Pause" in (await client.get("/reminders")).text
    await client.post("/reminders/reminder-1/delete")
    assert "No reminders" in (await client.get("/reminders")).text
    assert (await client.post("/reminders/reminder-1/pause")).status_code == 404


async def test_what_was_sent_unasked_comes_once_into_an_open_chat_and_stays_in_it(
    client: httpx.AsyncClient, scene: Scene, app: App
) -> None:
    """Also what was sent to the terminal: the session is the same."""
    await scene.converse("Hi", "Hello", label="desk")
    before = (await client.get("/chat/desk")).text
    later = re.search(r'data-later="([^"]+)"', before)
    assert later is not None

    def send(connection: apsw.Connection) -> None:
        thread_id = events.ensure_thread(connection, channel="cli", external_id="desk")
        new = events.NewEvent(
            channel="cli", content="call **Anna**", direction="outbound", thread_id=thread_id
        )
        events.append(connection, [new])

    await app.ledgers.events.write(send)
    arrived = (await client.get(html.unescape(later[1]), headers=PART)).text
    assert arrived.count("<strong>Anna</strong>") == 1
    again = re.search(r'data-later="([^"]+)"', arrived)
    assert again is not None
    assert "Anna" not in (await client.get(html.unescape(again[1]), headers=PART)).text
    whole = (await client.get("/chat/desk")).text
    assert whole.count("<strong>Anna</strong>") == 1
    assert whole.index("Hello") < whole.index("<strong>Anna</strong>")


async def test_an_open_chat_without_messages_looks_for_the_answer_to_a_scheduled_question(
    client: httpx.AsyncClient, app: App
) -> None:
    page = (await client.get("/chat/desk")).text
    later = re.search(r'data-later="[^"]*after=([^"&]+)', page)
    assert later is not None
    assert later[1].startswith("exe_")


async def propose(app: App) -> None:
    """As the agent does with its tool."""
    new = NewAutomation(
        name="proposed",
        script_path="",
        script_hash=None,
        hook_point="schedule",
        blocking=False,
        triggers={"cron": "0 16 * * *", "zone": "UTC"},
        created_by_agent="nexus",
    )
    write = registration.writer(app.ledgers)
    await asyncio.to_thread(changes.propose, app.home, write, PROPOSED, new)


async def standing(app: App, name: str) -> Automation | None:
    return await app.ledgers.runtime.read(automations.get, name=name)


async def test_the_page_of_a_proposal_shows_its_diff_and_approves_it_into_the_sandbox(
    client: httpx.AsyncClient, app: App
) -> None:
    await propose(app)
    page = (await client.get("/automations/tea-time@proposed")).text
    assert "Proposed by the agent" in page
    assert '<span class="add">+    return {&#34;response&#34;: &#34;tea&#34;}</span>' in page
    assert "<tea>" not in page, "an agent wrote it"
    (button,) = re.findall(r'action="([^"]+/approve)"', page)
    assert "/enable" not in page
    done = await client.post(button)
    assert (done.status_code, done.headers["location"]) == (303, "/automations/tea-time")
    made = await standing(app, "tea-time")
    assert made is not None
    assert (made.status, made.config["sandbox"]) == ("active", True)
    assert await standing(app, "tea-time@proposed") is None
    after = (await client.get("/automations/tea-time")).text
    assert "Approve" not in after
    assert (await client.post(button)).status_code == 404, "a second click"


async def test_a_proposal_is_reviewed_before_it_runs(client: httpx.AsyncClient, app: App) -> None:
    await propose(app)
    listed = (await client.get("/automations")).text
    assert 'href="/automations/tea-time@proposed">Review</a>' in listed.replace("%40", "@")
    for address in ("/automations", "/api/automations"):
        refused = await client.post(f"{address}/tea-time@proposed/enable")
        assert (refused.status_code, "waits for approval" in refused.text) == (409, True)
    proposal = await standing(app, "tea-time@proposed")
    assert proposal is not None
    assert proposal.status == "disabled"


async def test_the_list_of_automations_leads_to_the_reminders(client: httpx.AsyncClient, app: App) -> None:
    await app.remind(await app.reminders.draft("every Monday at 9 call Anna"))
    page = (await client.get("/automations")).text
    assert '<a class="button" href="/reminders">Reminders <span class="count">1</span></a>' in page
    assert "reminder-1" not in page
    assert "every Monday at 09:00 UTC" in (await client.get("/automations/reminder-1")).text


async def test_a_proposal_is_discarded_and_never_runs(client: httpx.AsyncClient, app: App) -> None:
    await propose(app)
    page = (await client.get("/automations/tea-time@proposed")).text
    (button,) = re.findall(r'action="([^"]+/discard)"', page)
    done = await client.post(button)
    assert (done.status_code, done.headers["location"]) == (303, "/automations")
    assert await standing(app, "tea-time@proposed") is None
    assert await standing(app, "tea-time") is None
    assert "tea-time" not in (await client.get("/automations")).text
    assert (await client.post(button)).status_code == 404


async def test_what_is_no_proposal_is_neither_approved_nor_discarded(
    client: httpx.AsyncClient, scene: Scene, app: App, tmp_path: Path
) -> None:
    await scene.automation(tmp_path, "greeter")
    for to in ("approve", "discard"):
        assert (await client.post(f"/automations/greeter/{to}")).status_code == 404
    made = await standing(app, "greeter")
    assert made is not None
    assert made.status == "active"
