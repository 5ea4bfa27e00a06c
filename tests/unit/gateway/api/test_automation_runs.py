"""Failed async runs of automations over HTTP."""

import asyncio
from collections.abc import Iterator

import pytest

from gateways import app_for_gateway, gateway_on
from nexus.automations.context import Context
from nexus.home import Home
from nexus.ledgers.runtime import invocations
from nexus.testing import ModelServer
from unit.pipeline.test_pipeline import register


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


async def test_a_failed_async_run_is_retried_once(home: Home, server: ModelServer) -> None:
    def fails(ctx: Context) -> None:
        raise ValueError("not today")

    server.always("Hi")
    async with app_for_gateway(home, server) as app, gateway_on(app) as client:
        await register(app, "fails", "runAutomations", fails, blocking=False)
        await (await app.send("Hello")).result()
        async with asyncio.timeout(60):
            while not (dead := await app.ledgers.runtime.read(invocations.dead)):
                await asyncio.sleep(0.02)
        [(_, failed)] = dead
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
