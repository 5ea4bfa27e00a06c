"""Automations are registered, changed, paused and run over HTTP, by the owner alone."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from automating import runs
from gateways import app_for_gateway, client_of, gateway_on
from nexus.app import App
from nexus.home import Home
from nexus.testing import ModelServer

PLACE = "/api/automations/tea"
TEA = """def run(ctx):
    if "tea" not in ctx.request.event.content:
        return None
    return {"handled": True, "response": "Tea is ready."}
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.always("From the model.")
        yield server


@pytest.fixture
async def app(home: Home, server: ModelServer) -> AsyncIterator[App]:
    async with app_for_gateway(home, server) as app:
        yield app


@pytest.fixture
async def client(app: App) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway_on(app) as client:
        yield client


async def put(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await client.put(PLACE, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def said(app: App, text: str) -> str:
    return (await (await app.send(text)).result()).response.content


async def test_a_script_sent_as_text_is_registered_and_answers(app: App, client: httpx.AsyncClient) -> None:
    made = await put(client, script=TEA, description="Makes tea", timeout_ms=5_000, workspace=True)
    assert (made["condition"]["text"], made["script"]) == ("active", TEA)
    automation = made["automation"]
    assert (automation["version"], automation["hook_point"], automation["timeout_ms"]) == (
        *(1, "runAutomations", 5_000),
    )
    assert await said(app, "Is there tea?") == "Tea is ready."
    again = await put(client, script=TEA)
    assert again["automation"]["version"] == 1, "nothing changed"
    changed = await put(client, script=TEA.replace("ready", "cold"))
    assert (changed["automation"]["version"], changed["automation"]["timeout_ms"]) == (2, 5_000)
    assert await said(app, "Is there tea?") == "Tea is cold."


async def test_a_script_that_lies_in_the_home_is_registered_by_its_path(
    app: App, client: httpx.AsyncClient
) -> None:
    app.home.scripts.joinpath("tea.py").write_text(TEA)
    made = await put(client, path="scripts/tea.py", role="You make tea.\n")
    assert made["automation"]["script_path"] == str(app.home.scripts / "tea.py")
    assert (app.home.meeseeks / "tea" / "ROLE.md").read_text() == "You make tea.\n"


async def test_settings_change_without_the_script_and_a_paused_one_stays_paused(
    app: App, client: httpx.AsyncClient
) -> None:
    await put(client, script=TEA, config={"cups": 2})
    paused = await client.post(f"{PLACE}/disable", json={"reason": "no kettle"})
    assert paused.json()["condition"]["text"] == "disabled: no kettle"
    assert await said(app, "Is there tea?") == "From the model."
    changed = await client.patch(PLACE, json={"priority": 7, "config": {"milk": True}, "sandbox": True})
    told = changed.json()
    assert told["condition"]["text"] == "disabled: no kettle"
    assert told["automation"]["priority"] == 7
    assert told["automation"]["config"] == {"cups": 2, "milk": True, "sandbox": True}
    assert (await client.post(f"{PLACE}/enable")).json()["condition"]["text"] == "active"
    assert await said(app, "Is there tea?") == "Tea is ready."


async def test_one_is_run_now_with_a_message_and_recorded(app: App, client: httpx.AsyncClient) -> None:
    await put(client, script=TEA)
    answer = await client.post(f"{PLACE}/run", json={"content": "tea, please"})
    told = answer.json()
    assert (answer.status_code, told["status"]) == (200, "done"), told
    assert told["result"] == {"handled": True, "response": "Tea is ready."}
    assert [run.id for run in await runs(app, "tea")] == [told["id"]]


async def test_a_failed_run_says_why(app: App, client: httpx.AsyncClient) -> None:
    await put(client, script="def run(ctx):\n    raise ValueError('no kettle')\n")
    told = (await client.post(f"{PLACE}/run", json={})).json()
    assert (told["status"], told["error"]) == ("failed", "ValueError: no kettle")


async def test_a_removed_one_runs_no_more_and_comes_back_with_a_rollback(
    app: App, client: httpx.AsyncClient
) -> None:
    await put(client, script=TEA)
    assert (await client.delete(PLACE)).json()["automation"]["status"] == "superseded"
    assert await said(app, "Is there tea?") == "From the model."
    assert (await client.delete(PLACE)).status_code == 404
    assert (await client.post(f"{PLACE}/rollback", json={})).json()["condition"]["text"] == "active"


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "an unknown hook point": ({"script": TEA, "hook_point": "after:tea"}, 409, "after:tea"),
    "a time-out that would be cut": (
        {"script": TEA, "hook_point": "after:runAgent", "timeout_ms": 60_000},
        *(409, "60,000 ms exceeds the 10,000 ms of after:runAgent"),
    ),
    "a time-out that is none": ({"script": TEA, "timeout_ms": 0}, 422, "timeout_ms"),
    "a setting that there is not": ({"script": TEA, "timeout": 10}, 422, "timeout"),
    "a number that JSON has not got": ({"script": TEA, "config": {"cups": float("inf")}}, 422, "config"),
    "an unknown peer": ({"script": TEA, "workspace": True, "peers": ["milk"]}, 409, "`milk`"),
    "no script": ({"priority": 1}, 400, "either `script` or `path`"),
    "two scripts": ({"script": TEA, "path": "scripts/tea.py"}, 400, "either `script` or `path`"),
    "a script without run": ({"script": "tea = 1\n"}, 409, "no function `run(ctx)`"),
    "a script that is not Python": ({"script": "def run(:"}, 409, "not valid Python"),
    "a missing file": ({"path": "scripts/tea.py"}, 404, "No script at"),
    "a path outside": ({"path": "../../config.toml"}, 400, "outside"),
    "an absolute path outside": ({"path": "/etc/hostname"}, 400, "outside"),
    "a link that leads outside": ({"path": "scripts/link.py"}, 400, "outside"),
    "an older version's copy": ({"path": ".versions/abc/tea.py"}, 400, "outside"),
    "a name that no file has": ({"path": "tea\0.py"}, 400, "not a file's name"),
}


@pytest.mark.parametrize("wrong", REFUSED)
async def test_what_could_not_run_is_refused_and_changes_nothing(
    app: App, client: httpx.AsyncClient, tmp_path: Path, wrong: str
) -> None:
    body, status, told = REFUSED[wrong]
    outside = tmp_path / "outside.py"
    outside.write_text(TEA)
    app.home.scripts.joinpath("link.py").symlink_to(outside)
    answer = await client.request(
        "PUT",
        PLACE,
        content=json.dumps(body),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == status, answer.text
    assert told in answer.json()["detail"]
    assert (await client.get(PLACE)).status_code == 404
    assert not app.home.scripts.joinpath("tea.py").exists()


async def test_a_refused_version_leaves_the_registered_one_running(
    app: App, client: httpx.AsyncClient
) -> None:
    await put(client, script=TEA)
    refused = await client.put(PLACE, json={"script": TEA.replace("ready", "cold"), "hook_point": "tea"})
    assert refused.status_code == 409
    assert (await client.get(PLACE)).json()["condition"]["text"] == "active"
    assert await said(app, "Is there tea?") == "Tea is ready."


async def test_a_script_that_was_edited_is_not_taken_over_with_other_settings(
    app: App, client: httpx.AsyncClient
) -> None:
    await put(client, script=TEA)
    app.home.scripts.joinpath("tea.py").write_text(TEA.replace("ready", "poisoned"))
    refused = await client.patch(PLACE, json={"priority": 1})
    assert (refused.status_code, "changed since it was registered" in refused.text) == (409, True)


async def test_what_waits_for_approval_is_not_run(app: App, client: httpx.AsyncClient) -> None:
    await put(client, script=TEA)
    await client.post(f"{PLACE}/disable", json={"reason": "imported: waits for approval"})
    refused = await client.post(f"{PLACE}/run", json={})
    assert (refused.status_code, refused.json()["detail"]) == (409, "`tea` waits for approval")


async def test_nobody_without_the_owners_token_registers_changes_or_runs_anything(
    app: App, client: httpx.AsyncClient
) -> None:
    await put(client, script=TEA)
    async with client_of(str(client.base_url), "x" * 43) as guest:
        answers = [
            await guest.put(PLACE, json={"script": TEA}),
            await guest.patch(PLACE, json={"priority": 1}),
            await guest.post(f"{PLACE}/disable", json={}),
            await guest.post(f"{PLACE}/run", json={}),
            await guest.delete(PLACE),
        ]
    assert [answer.status_code for answer in answers] == [401] * 5
    assert (await client.get(PLACE)).json()["automation"]["version"] == 1
    assert await runs(app, "tea") == []


async def test_unknown_automations_are_not_found(client: httpx.AsyncClient) -> None:
    answers = [
        await client.patch(PLACE, json={}),
        await client.post(f"{PLACE}/run", json={}),
        await client.delete(PLACE),
    ]
    assert [answer.status_code for answer in answers] == [404] * 3
