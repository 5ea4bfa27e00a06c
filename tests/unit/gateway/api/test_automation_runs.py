"""Failed async runs of automations over HTTP and in the dashboard."""

import asyncio
from pathlib import Path

import automating
from gateways import app_for_gateway, gateway_on
from nexus.app import App
from nexus.automations.context import Context
from nexus.home import Home
from nexus.ledgers.runtime import invocations
from nexus.ledgers.runtime.invocations import Invocation
from nexus.testing import ModelServer
from unit.pipeline.test_pipeline import register


def fails(ctx: Context) -> None:
    raise ValueError("not today")


async def failed_run(app: App) -> Invocation:
    await register(app, "fails", "runAutomations", fails, blocking=False)
    await (await app.send("Hello")).result()
    async with asyncio.timeout(60):
        while not (dead := await app.ledgers.runtime.read(invocations.list_dead)):
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
            while not (dead := await app.ledgers.runtime.read(invocations.list_dead)):
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
        dead = await app.ledgers.runtime.read(invocations.list_dead)
    assert (answer.status_code, answer.json()["status"], answer.json()["input"]) == (200, "failed", None)
    assert refused == [404, 404]
    assert dead == []
    assert f"/runs/{failed.id}/dismiss" in before
    for verb in ("dismiss", "retry"):
        assert f"/runs/{failed.id}/{verb}" not in after


async def test_the_dashboard_dismisses_a_failed_run(home: Home, server: ModelServer) -> None:
    server.always("Hi")
    async with app_for_gateway(home, server) as app, gateway_on(app) as client:
        failed = await failed_run(app)
        done = await client.post(f"/automations/fails/runs/{failed.id}/dismiss")
        dead = await app.ledgers.runtime.read(invocations.list_dead)
    assert (done.status_code, done.headers["location"]) == (303, "/automations/fails")
    assert dead == []


async def test_a_run_is_run_again_on_what_it_was_given(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    server.always("Hi")
    source = "def run(ctx):\n    return {'log': {'heard': ctx.request.event.content}}\n"
    async with app_for_gateway(home, server) as app, gateway_on(app) as client:
        await automating.register(app, "listens", source, tmp_path)
        await (await app.send("Tea?")).result()
        [first] = await automating.ended(app, "listens")
        page = (await client.get("/automations/listens")).text
        answer = await client.post(f"/api/automations/listens/runs/{first.id}/rerun")
        found = await automating.ended(app, "listens", 2)
        done = await client.post(f"/automations/listens/runs/{first.id}/rerun")
        found = await automating.ended(app, "listens", 3)
        missing = await client.post("/api/automations/listens/runs/inv_nothing/rerun")
        await client.post("/api/automations/listens/disable", json={})
        disabled = await client.post(f"/api/automations/listens/runs/{first.id}/rerun")
    assert f"/runs/{first.id}/rerun" in page
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    assert (done.status_code, done.headers["location"]) == (303, "/automations/listens")
    assert [run.result for run in found] == [{"log": {"heard": "Tea?"}}] * 3
    assert len({run.id for run in found}) == 3
    assert {run.request_id for run in found} == {first.request_id}
    assert (missing.status_code, disabled.status_code) == (404, 409)


async def test_the_page_resets_a_circuit_and_a_run_again_ignores_it(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    server.always("Hi")
    async with app_for_gateway(home, server) as app, gateway_on(app) as client:
        await automating.register(app, "fails", "def run(ctx):\n    raise ValueError('no milk')\n", tmp_path)
        healthy = (await client.get("/automations/fails")).text
        for _ in range(app.config.automations.circuit_errors):
            await (await app.send("Tea?")).result()
            await app.automations.runner.settled()
        [first, *_] = failed = await automating.ended(app, "fails", 3)
        open_ = (await client.get("/automations/fails")).text
        await client.post(f"/automations/fails/runs/{first.id}/rerun")
        again = (await automating.ended(app, "fails", 4))[-1]
        await client.post("/automations/fails/enable")
        reset = (await client.get("/automations/fails")).text
    assert [run.status for run in (*failed, again)] == ["failed"] * 4
    assert ">Reset</button>" in open_
    assert "stopped after" in open_
    assert "ValueError: no milk" in open_
    for page in (healthy, reset):
        assert ">Reset</button>" not in page
        assert "stopped after" not in page
