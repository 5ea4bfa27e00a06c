"""Runs that were given up: retried in the dashboard, dismissed over HTTP."""

import sqlite3

from apps import app_on
from gateways import app_for_gateway, gateway_on
from memory_writers import rows
from nexus.engine import records
from nexus.home import Home
from nexus.testing import Hold, ModelServer, Turn


async def given_up(home: Home, server: ModelServer) -> str:
    """A run whose process crashed as often as it may, as `Leases` leaves it."""
    server.script(Turn("Never", faults=[Hold(gate="never")]))
    async with app_on(home, server) as app:
        asked = await app.send("Hello")
        await server.until(lambda: server.gate("never").waiting, 30_000)
    with sqlite3.connect(home.engine_file) as engine:
        statement = (
            "UPDATE workflow_status SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' WHERE workflow_uuid = ?"
        )
        engine.execute(statement, (asked.id,))
    engine.close()
    server.reset()
    server.always("Hi")
    return asked.id


async def test_the_dashboard_retries_a_run_that_was_given_up(home: Home, server: ModelServer) -> None:
    await given_up(home, server)
    async with app_for_gateway(home, server) as app, gateway_on(app) as client:
        [(request_id,)] = await rows(app, "runtime", "SELECT id FROM requests")
        page = (await client.get(f"/requests/{request_id}")).text
        done = await client.post(f"/requests/{request_id}/retry")
        [(_, again)] = await rows(
            app, "runtime", "SELECT status, id FROM executions ORDER BY rowid LIMIT 1, 1"
        )
        result = await app.broker.run(str(again)).result()
        refused = await client.post(f"/requests/{request_id}/retry")
        after = (await client.get(f"/requests/{request_id}")).text
        dead = records.list_dead_letters(app.engine.database)
    assert f"/requests/{request_id}/retry" in page
    assert (done.status_code, done.headers["location"]) == (303, f"/requests/{request_id}")
    assert (result.response.content, refused.status_code, dead) == ("Hi", 404, [])
    assert f"/requests/{request_id}/retry" not in after


async def test_a_run_that_was_given_up_is_dismissed(home: Home, server: ModelServer) -> None:
    run = await given_up(home, server)
    async with app_for_gateway(home, server) as app, gateway_on(app) as client:
        told = [(await client.post(f"/api/executions/{run}/dismiss")).json() for _ in range(2)]
        dead = records.list_dead_letters(app.engine.database)
        states = await rows(app, "runtime", "SELECT status FROM executions")
    assert told == [{"dismissed": True}, {"dismissed": False}]
    assert (dead, states) == ([], [("failed",)])
