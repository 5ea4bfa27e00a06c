"""Reminders over HTTP: what words mean, saved, listed, paused and deleted, by the owner alone."""

from collections.abc import AsyncIterator

import httpx
import pytest

from gateways import app_for_gateway, gateway_on
from nexus.app import App
from nexus.home import Home
from nexus.testing import ModelServer


@pytest.fixture
async def app(home: Home) -> AsyncIterator[App]:
    with ModelServer() as server:
        async with app_for_gateway(home, server) as app:
            yield app


@pytest.fixture
async def client(app: App) -> AsyncIterator[httpx.AsyncClient]:
    """The owner's."""
    async with gateway_on(app) as client:
        yield client


async def _names(client: httpx.AsyncClient) -> list[tuple[str, str]]:
    return [(each["name"], each["state"]) for each in (await client.get("/api/reminders")).json()]


async def test_words_are_drafted_saved_listed_paused_resumed_and_deleted(client: httpx.AsyncClient) -> None:
    words = {"words": "every Monday at 9 tell me what is open"}
    drafted = (await client.post("/api/reminders/draft", json=words)).json()
    shown = drafted.pop("described")
    assert shown[0].startswith("Every Monday at 09:00 UTC. Next: Monday ")
    assert shown[1] == "The agent answers: tell me what is open"
    assert drafted == {
        "text": "tell me what is open",
        "asks": True,
        "at": None,
        "cron": "0 9 * * 1",
        "zone": "UTC",
    }
    assert await _names(client) == [], "a draft saves nothing"
    saved = await client.post("/api/reminders", json={**drafted, "session": "desk"})
    assert saved.status_code == 201
    assert (saved.json()["name"], saved.json()["session"]) == ("reminder-1", "desk")
    assert saved.json()["made_by"] == "owner"
    paused = await client.post("/api/reminders/reminder-1/pause")
    assert [(each["state"], each["next_at"]) for each in paused.json()] == [("paused", None)]
    await client.post("/api/reminders/reminder-1/resume")
    assert await _names(client) == [("reminder-1", "active")]
    assert (await client.delete("/api/reminders/reminder-1")).json() == []
    for unknown in (
        await client.post("/api/reminders/reminder-1/pause"),
        await client.delete("/api/reminders/reminder-1"),
    ):
        assert (unknown.status_code, unknown.json()["detail"]) == (404, "No reminder named `reminder-1`")


@pytest.mark.parametrize(
    ("path", "given", "told"),
    [
        ("/draft", {"words": "call Anna"}, "No time found in 'call Anna'"),
        ("/draft", {"words": "in two hours"}, "A reminder needs some text"),
        ("", {"text": "x"}, "A reminder needs either `at` or `cron`"),
        (
            "",
            {"text": "x", "at": "2031-01-01T08:00Z", "cron": "0 9 * * *"},
            "A reminder needs either `at` or",
        ),
        ("", {"text": "x", "at": "soon"}, "`soon` is not an ISO 8601 time"),
        ("", {"text": "x", "at": "2020-01-01T08:00Z"}, "has passed"),
        ("", {"text": "x", "cron": "0 9 * * 1", "zone": "Mars/Olympus"}, "`Mars/Olympus` is not a time zone"),
        ("", {"text": "x", "cron": "whenever"}, "whenever"),
        ("", {"text": "x", "cron": "0 9 30 2 *"}, "The schedule `0 9 30 2 *` never comes due"),
    ],
)
async def test_what_makes_no_reminder_is_refused_with_the_reason(
    client: httpx.AsyncClient, path: str, given: dict[str, str], told: str
) -> None:
    refused = await client.post(f"/api/reminders{path}", json=given)
    assert 400 <= refused.status_code < 500
    assert told in refused.json()["detail"]
    assert await _names(client) == []


async def test_a_guest_without_the_token_neither_sees_nor_changes_reminders(
    app: App, client: httpx.AsyncClient
) -> None:
    await app.remind(await app.reminders.draft("tomorrow at 9 call Anna"))
    new = {"text": "x", "cron": "* * * * *"}
    async with httpx.AsyncClient(base_url=client.base_url, timeout=60) as guest:
        for answer in (
            await guest.get("/api/reminders"),
            await guest.post("/api/reminders", json=new),
            await guest.post("/api/reminders/draft", json={"words": "tomorrow x"}),
            await guest.post("/api/reminders/reminder-1/pause"),
            await guest.delete("/api/reminders/reminder-1"),
            await guest.get("/reminders"),
            await guest.post("/reminders", data=new),
            await guest.post("/reminders/reminder-1/delete"),
            await guest.post("/automations/tea-time@proposed/approve"),
        ):
            assert answer.status_code == 401
            assert "Anna" not in answer.text
    assert await _names(client) == [("reminder-1", "active")]
