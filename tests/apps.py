"""A home with an agent in it, on a model server."""

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

from new_homes import with_engine
from nexus.app import App
from nexus.config import (
    AgentsConfig,
    AutomationsConfig,
    Config,
    EngineConfig,
    ModelsConfig,
    ProviderConfig,
    ToolsConfig,
)
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, Step, ToolCall, Turn

MODEL = "test/large"


def settings(server: ModelServer, wire: str = "anthropic", **agents: Any) -> Config:
    """The settings of a home whose models are all on that server."""
    provider = ProviderConfig(kind="anthropic", base_url=server.url, max_retries=0)
    if wire == "openai":
        provider = replace(provider, kind="openai", base_url=server.openai_url)
    return Config(
        # A busy machine does not lose its lease, and so asks no model twice.
        engine=EngineConfig(lease_ms=60_000),
        # A test of the memory writer turns it on.
        models=ModelsConfig(manager=(MODEL,), writer=("none",)),
        providers={"test": provider},
        agents=AgentsConfig(**{"outage_ms": 0, **agents}),
        # Nor is an automation late.
        automations=AutomationsConfig(
            timeout_ms=60_000, budget_ms=60_000, decision_budget_ms=60_000, worker_budget_ms=60_000
        ),
    )


def app_on(home: Home, server: ModelServer, wire: str = "anthropic", **agents: Any) -> App:
    """The parts of a home, to be used as `async with`."""
    return App(with_engine(home), settings(server, wire, **agents))


def granted(home: Home, server: ModelServer, *directories: str) -> App:
    """The parts of a home whose tools may reach some directories."""
    return App(with_engine(home), replace(settings(server), tools=ToolsConfig(directories=directories)))


def send(op: str, **arguments: Any) -> ToolCall:
    """A call of `agent_send`."""
    return ToolCall("agent_send", {"op": op, **arguments})


def heard(request: ModelRequest) -> Turn:
    """Says what the run was told of its workers so far, by calls that waited and by messages."""
    said = str(request.json["messages"])
    return Turn("\n".join(re.findall(r"<worker_result.*?</worker_result>", said)))


def dispatching(*tasks: str, then: Step) -> list[Step]:
    """A manager that gives each task to a worker, waits for all, and then says something."""
    return [
        Turn("", [send("dispatch", text=task) for task in tasks]),
        Turn("", [send("wait")]),
        then,
    ]


def give_up(home: Home, run: str) -> None:
    """As the engine leaves a run after its last crash."""
    statement = "UPDATE workflow_status SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' WHERE workflow_uuid = ?"
    with closing(sqlite3.connect(home.engine_file)) as engine, engine:
        engine.execute(statement, (run,))
