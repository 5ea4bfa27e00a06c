"""Follow-ups in the browser: the list, the line under an answer, and what its buttons do."""

from dataclasses import replace

import httpx

from nexus.app import App
from nexus.gateway.dashboard.render import environment
from nexus.gateway.views import answers
from nexus.ledgers.memory import follow_ups
from nexus.ledgers.memory.follow_ups import FollowUp, NewFollowUp

PART = {"HX-Request": "true"}


async def promise(app: App) -> FollowUp:
    new = NewFollowUp(
        id="fup_01KA0000000000000000ABCDEF",
        event_id="evt_1",
        reply_thread_id=None,
        source_request_id="req_1",
        promiser="owner",
        promiser_entity_id=None,
        promiser_name=None,
        recipient_entity_id=None,
        recipient_name="Jonas",
        promise="I'll send Jonas the <slides> tomorrow.",
        due_at="2026-11-20T23:59:59.000Z",
        raise_at="2026-11-20T09:00:00.000Z",
        created_at="2026-11-19T10:00:00.000Z",
    )
    await app.ledgers.memory.write(follow_ups.add, [new])
    (found,) = await app.ledgers.memory.read(follow_ups.of_requests, ["req_1"])
    return found


async def test_follow_ups_are_listed_and_closed(client: httpx.AsyncClient, app: App) -> None:
    assert "No follow-ups" in (await client.get("/follow-ups")).text
    found = await promise(app)
    listed = (await client.get("/follow-ups")).text
    assert "You: I&#39;ll send Jonas the &lt;slides&gt; tomorrow." in listed
    assert "due Friday 2026-11-20" in listed
    later = await client.post(f"/follow-ups/{found.id}/later", headers=PART)
    assert "09:00" in later.text
    done = await client.post(f"/follow-ups/{found.id}/done", headers=PART)
    assert ">done</span>" in done.text
    assert "<form" not in done.text
    assert "No follow-ups" in (await client.get("/follow-ups")).text
    assert "&lt;slides&gt;" in (await client.get("/follow-ups?show=all")).text
    assert (await client.post(f"/follow-ups/{found.id}/maybe")).status_code == 400
    assert (await client.post("/follow-ups/nosuch/done")).status_code == 404


async def test_an_answer_shows_what_its_turn_promises(app: App) -> None:
    found = await promise(app)
    answer = await answers.load_answer(app.ledgers, "exe_1", "done", None)
    macros = environment().get_template("macros_chat.html").module
    shown = macros.answer_article(answer)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert "followup" not in shown
    shown = macros.answer_article(replace(answer, follow_ups=(found,)))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert 'hx-post="/follow-ups/fup_01KA0000000000000000ABCDEF/done"' in shown
