"""A run that failed: what is kept of its error, and who may ask for it again."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from apps import app_on, settings
from memory_writers import rows
from nexus.app import App
from nexus.broker.tools import Context, Tool
from nexus.broker.tools.tool import parameters
from nexus.engine.errors import EngineStateError, WorkFailedError
from nexus.home import Home
from nexus.testing import Hold, ModelServer, ToolCall, Turn

KEY = "sk-secret-0123456789"


async def test_a_key_in_the_error_of_a_run_is_masked_wherever_it_is_kept(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(arguments: Mapping[str, Any], context: Context) -> str:
        raise RuntimeError(f"refused: {KEY}")

    monkeypatch.setenv("TEST_KEY", KEY)
    config = settings(server)
    provider = replace(config.providers["test"], api_key="env:TEST_KEY")
    server.script(Turn("", [ToolCall("shelf__put", {})]))
    async with App(home, replace(config, providers={"test": provider})) as app:
        app.broker.add_tools([Tool(name="shelf__put", description="Put.", parameters=parameters(), run=run)])
        asked = await app.send("Put it away")
        with pytest.raises(WorkFailedError, match=r"RuntimeError: refused: \[secret\]"):
            await asked.result()
        [(request,)] = await rows(app, "runtime", "SELECT error FROM requests")
        [(turn,)] = await rows(app, "agents", "SELECT error FROM agent_turns")
    assert request == turn == "Internal error: RuntimeError: refused: [secret]"
    keeping = [
        path.name for path in home.root.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()
    ]
    assert keeping == []


async def test_a_run_that_has_not_ended_cannot_be_retried(home: Home, server: ModelServer) -> None:
    server.script(Turn("First", faults=[Hold(gate="first")]), "Second")
    async with app_on(home, server) as app:
        runs = await app.send("one")
        await server.until(lambda: server.gate("first").waiting)
        waits = await app.send("two")
        for run, status in ((runs, "running"), (waits, "queued")):
            with pytest.raises(EngineStateError, match=f"is {status}; only finished"):
                await app.queue.retry(run.id)
        server.gate("first").open()
        await runs.result()
        await waits.result()
        assert await rows(app, "runtime", "SELECT count(*) FROM executions") == [(2,)]
