"""Outages of providers: a message waits for their end, visibly, across restarts, until it is cancelled."""

import asyncio
from datetime import timedelta

import pytest

from apps import app_on
from memory_writers import rows
from nexus import clock
from nexus.broker.run_handle import Run as BrokerRun
from nexus.engine.errors import WorkCancelledError, WorkFailedError
from nexus.home import Home
from nexus.ledgers.runtime.executions import Execution
from nexus.runs import Run
from nexus.testing import ModelServer, failures

_HOUR_MS = 3_600_000


async def waiting(answer: Run) -> Execution:
    assert isinstance(answer, BrokerRun)
    while (state := await answer.state()).waiting_since is None:
        assert state.status in {"queued", "running"}, state.error
        await asyncio.sleep(0.05)
    return state


async def test_a_message_waits_for_its_provider_also_over_a_restart(home: Home, server: ModelServer) -> None:
    server.always(failures.server_error())
    async with app_on(home, server, outage_ms=_HOUR_MS) as app:
        asked = await app.send("Hello")
        state = await waiting(asked)
        assert state.status == "running"
        assert "500" in (state.waiting_for or "")
    server.reset()
    server.always("Hi")
    async with app_on(home, server, outage_ms=_HOUR_MS) as app:
        assert isinstance(asked, BrokerRun)
        run = app.broker.run(asked.id)
        assert (await run.result()).response.content == "Hi"
        assert (await run.state()).waiting_since is None
        assert await rows(app, "runtime", "SELECT status FROM requests") == [("done",)]


async def test_a_message_waits_for_a_model_server_that_is_restarted(home: Home, server: ModelServer) -> None:
    server.always("Hi")
    server.stop()
    async with app_on(home, server, outage_ms=_HOUR_MS, max_requests=1) as app:
        asked = await app.send("Hello")
        state = await waiting(asked)
        assert state.waiting_for == f"The model server at {server.url} isn't running"
        server.start()
        assert (await asked.result()).response.content == "Hi"
        # A request that no server took is no model call.
        assert await rows(app, "runtime", "SELECT count(*) FROM usage") == [(1,)]
        assert await rows(app, "runtime", "SELECT count(*) FROM reservations") == [(0,)]


async def test_a_clock_that_is_set_does_not_end_an_outage(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.stop()
    async with app_on(home, server, outage_ms=_HOUR_MS) as app:
        asked = await app.send("Hello")
        await waiting(asked)
        ahead = clock.now() + timedelta(days=40)
        monkeypatch.setattr(clock, "now", lambda: ahead)
        server.start()
        server.script(failures.server_error(), "Hi")
        assert (await asked.result()).response.content == "Hi"


async def test_a_message_that_waits_for_a_provider_can_be_cancelled(home: Home, server: ModelServer) -> None:
    server.always(failures.server_error())
    async with app_on(home, server, outage_ms=_HOUR_MS) as app:
        asked = await app.send("Hello")
        await waiting(asked)
        assert await asked.cancel()
        with pytest.raises(WorkCancelledError):
            await asked.result()
        assert await rows(app, "runtime", "SELECT status FROM requests") == [("cancelled",)]


async def test_a_message_that_no_waiting_helps_fails_immediately(home: Home, server: ModelServer) -> None:
    server.always(failures.out_of_quota())
    async with app_on(home, server, outage_ms=_HOUR_MS) as app:
        with pytest.raises(WorkFailedError, match="No model answered"):
            await (await app.send("Hello")).result()


async def test_an_outage_beyond_the_limit_fails_the_message(home: Home, server: ModelServer) -> None:
    server.always(failures.server_error())
    async with app_on(home, server, outage_ms=1) as app:
        with pytest.raises(WorkFailedError, match="No model answered"):
            await (await app.send("Hello")).result()
