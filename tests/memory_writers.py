"""A home whose memory is written by a model that a test scripts; everything else is real."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from apps import MODEL, settings
from nexus.app import App
from nexus.config import Config, WriterSetting
from nexus.home import Home
from nexus.ledgers.runtime import executions
from nexus.ledgers.runtime.invocations import FINAL
from nexus.testing import ModelRequest, ModelServer, ToolCall, Turn

PATIENCE_MS = 60_000
TASK = "Write to the memory what"
SCRIPT = "skills/memory/memory-write.sh"


def with_writer(
    server: ModelServer, wire: str = "anthropic", mode: WriterSetting = "code", **agents: Any
) -> Config:
    """The settings of a home that has a model for the writer."""
    config = settings(server, wire, **agents)
    # A run of the writer that went wrong is reflected on; rules of the test are asked first.
    server.when(is_reflection).always("Nothing learned")
    return replace(
        config,
        models=replace(config.models, writer=(MODEL,)),
        memory=replace(config.memory, writer=mode),
    )


def extracting(home: Home, server: ModelServer, wire: str = "openai", **agents: Any) -> App:
    """The parts of a home whose memory is written in structured mode."""
    return App(home, with_writer(server, wire, mode="structured", **agents))


def is_extractor(request: ModelRequest) -> bool:
    """Whether the memory writer asks in structured mode."""
    return "Answer with the JSON object." in request.last_user


def extracted(*facts: tuple[str, str] | tuple[str, str, int], people: Mapping[str, str] | None = None) -> str:
    """An answer of the writer's model: facts by whom they are about, of the first message or another."""
    return json.dumps(
        {
            "people": [{"name": name, "also_called": also} for name, also in (people or {}).items()],
            "facts": [
                {"message": each[2] if len(each) == 3 else 1, "about": each[0], "fact": each[1]}
                for each in facts
            ],
        }
    )


def writing(home: Home, server: ModelServer, wire: str = "anthropic", **agents: Any) -> App:
    """The parts of such a home, to be used as `async with`."""
    return App(home, with_writer(server, wire, **agents))


def is_writer(request: ModelRequest) -> bool:
    """Whether the memory writer asks."""
    return TASK in str(request.json["messages"])


def is_reflection(request: ModelRequest) -> bool:
    return "look back at it" in request.last_user


def batch(*operations: Mapping[str, Any]) -> Turn:
    """The writer writes several things at once."""
    lines = "\n".join(json.dumps(operation) for operation in operations)
    return Turn("", [bash(f"{SCRIPT} batch <<'END'\n{lines}\nEND")])


def bash(command: str) -> ToolCall:
    return ToolCall("bash", {"command": command})


async def quiet(app: App, patience_ms: int = PATIENCE_MS) -> None:
    """Wait until no automation and no agent has work left."""
    ended = ", ".join(f"'{status}'" for status in sorted(FINAL | executions.FINAL))
    query = f"""SELECT (SELECT count(*) FROM invocations WHERE status NOT IN ({ended}))
        + (SELECT count(*) FROM executions WHERE status NOT IN ({ended}))"""
    for _ in range(patience_ms // 50):
        await app.automations.runner.wait_until_settled()
        await app.automations.queue.wait_until_settled()
        if (await rows(app, "runtime", query))[0][0] == 0:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("automations are still at work")


async def rows(app: App, ledger: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Ask a ledger of a home that is open."""
    database = app.ledgers[ledger]
    return await database.read(lambda c: cast("list[tuple[Any, ...]]", c.execute(query, values).fetchall()))


async def invocations(app: App, name: str = "memory-writer") -> list[dict[str, Any]]:
    """What came of each time that an automation ran, the first one first."""
    query = """SELECT i.status, i.result_json, i.error FROM invocations AS i
               JOIN automations AS a ON a.id = i.automation_id WHERE a.name = ? ORDER BY i.created_at, i.id"""
    found: list[dict[str, Any]] = []
    for status, result, error in await rows(app, "runtime", query, name):
        returned: dict[str, Any] = json.loads(result) if result else {}
        found.append({"status": status, "error": error, **(returned.get("log") or {})})
    return found


async def facts(app: App) -> list[str]:
    return [str(row[0]) for row in await rows(app, "memory", "SELECT fact FROM facts ORDER BY seq")]
