"""A worker never waits longer than it may for its memories, whatever the fast model does."""

from dataclasses import replace

import pytest

from apps import settings
from nexus.app import App
from nexus.config import ModelsConfig
from nexus.home import Home
from nexus.ledgers.runtime import invocations
from nexus.roles import memory_injection
from nexus.roles.memory_injection import injection
from nexus.testing import Drip, ModelServer, Silence, Stall, Step, Turn, failures
from unit.roles.memory_injection.knowing import BIRTHDAY, done, know, offered, workers

# The limit of the code itself ends it as a timeout; this is with the preparation before it.
MOST_MS = 14_000
BAD: dict[str, Step] = {
    "stalled": Silence(),
    "slow": Turn("1, 2 " * 40, faults=[Drip(delay_ms=500)]),
    "paused": Turn("1", faults=[Stall(ms=60_000)]),
    "erroring": failures.server_error(),
    "overloaded": failures.overloaded(),
    "garbage": "Well! As a memory agent I find these \u0000 very interesting: 7000.",
}


async def test_the_triage_decides_in_time_where_the_model_does_not(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine takes longer to recall, and to record what was decided.
    monkeypatch.setattr(memory_injection, "TIMEOUT_MS", 12_000)
    monkeypatch.setattr(injection, "_MARGIN_MS", 3_000)
    config = settings(server)
    provider = replace(config.providers["test"], max_retries=2)
    models = ModelsConfig(manager=("test/large",), fast=("test/small",), writer=("none",))
    memory = replace(config.memory, injection="model")
    given = replace(config, models=models, memory=memory, providers={"test": provider})
    async with App(home, given) as app:
        await know(app, "Tyler", BIRTHDAY)
        for step in BAD.values():
            server.reset()
            server.when(model="small").always(step)
            root = await done(app, server)
            assert BIRTHDAY in workers(server)[0].last_user
            assert {row.decided_by for row in await offered(app, root)} == {"triage"}
        waited = await app.ledgers.runtime.read(invocations.of_automation, "memory-injection")
    assert [each.status for each in waited] == ["done"] * len(BAD)
    assert max(each.duration_ms or 0.0 for each in waited) <= MOST_MS
