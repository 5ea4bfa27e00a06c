"""Failed async runs of automations over HTTP and in the dashboard."""

import asyncio
from collections.abc import Iterator

import pytest

from gateways import app_for_gateway, gateway_on
from nexus.app import App
from nexus.automations.context import Context
from nexus.home import Home
from nexus.ledgers.runtime import invocations
from nexus.ledgers.runtime.invocations import Invocation
from nexus.testing import ModelServer
from unit.pipeline.test_pipeline import register


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def fails(ctx: Context) -> None:
    raise ValueError("not today")


async def failed_run(app: App) -> Invocation:
    await register(app, "fails", "runAutomations", fails, blocking=False)
    await (await app.send("Hello")).result()
    async with asyncio.timeout(60):
        while not (dead := await app.ledgers.runtime.read(invocations.dead)):
            await asyncio.sleep(0.02)
    return dead[0][1]


async def test_a_failed_async_run_is_retried_once(home: Home, server: ModelServer) -> None:
    server.always("Hi")
    async with app_for_gateway(home, server) as app, gateway_on(app) as client:
        failed = await failed_run(app)
        path = f"/api/automations/fails/runs/{failed.id}/retry"
        answer = await client.post(path)
        assert answer.status_code == 202
        assert (answer.json()["status"], answer.json()["attempts"]) == ("queued", failed.attempts + 1)
        missing = await client.post(path.replace(failed.id, "inv_nothing"))
        assert missing.status_code == 404
        async with asyncio.timeout(60):
            while not (dead := await app.ledgers.runtime.read(invocations.dead)):
                await asyncio.sleep(0.02)
    assert [(each.id, each.attempts) for _, each in dead] == [(failed.id, failed.attempts + 1)]


async def test_a_dismissed_run_is_off_the_list_and_cannot_be_retried(home: Home, server: ModelServer) -> None:
    server.always("Hi")
    async with app_for_gateway(home, server) as app, gateway_on(app) as client:
        failed = await failed_run(app)
        path = f"/api/automations/fails/runs/{failed.id}"
        before = (await client.get("/automations/fails")).text
        answer = await client.post(f"{path}/dismiss")
        after = (await client.get("/automations/fails")).text
        refused = [(await client.post(f"{path}/{verb}")).status_code for verb in ("dismiss", "retry")]
        dead = await app.ledgers.runtime.read(invocations.dead)
    assert (answer.status_code, answer.json()["status"], answer.json()["input"]) == (200, "failed", None)
    assert refused == [404, 404]
    assert dead == []
    assert f"/runs/{failed.id}/dismiss" in before
    assert f"/runs/{failed.id}/" not in after


async def test_the_dashboard_dismisses_a_failed_run(home: Home, server: ModelServer) -> None:
    server.always("Hi")
    async with app_for_gateway(home, server) as app, gateway_on(app) as client:
        failed = await failed_run(app)
        done = await client.post(f"/automations/fails/runs/{failed.id}/dismiss")
        dead = await app.ledgers.runtime.read(invocations.dead)
    assert (done.status_code, done.headers["location"]) == (303, "/automations/fails")
    assert dead == []
