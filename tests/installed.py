"""An example, installed in a home with the commands of its own README, and a clock that the test sets."""

import asyncio
import re
import shlex
from contextlib import chdir
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from apps import settings
from nexus.app import App
from nexus.cli import program
from nexus.engine import Schedules
from nexus.home import Home
from nexus.ledgers.memory import NewFact, append_facts
from nexus.ledgers.runtime import invocations
from nexus.ledgers.runtime.invocations import FINAL, Invocation
from nexus.testing import ModelServer

EXAMPLES = Path(__file__).parents[1] / "examples"
_PATIENCE_S = 60
_SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Clock:
    """Shows what it is set to."""

    at: datetime

    def __call__(self) -> datetime:
        return self.at

    def forward(self, **time: float) -> None:
        self.at += timedelta(**time)


def install(example: str, *more: str) -> None:
    """Type what the README says, in the example's folder, and then what is given."""
    with chdir(EXAMPLES / example):
        for block in _SESSION.findall(Path("README.md").read_text(encoding="utf-8")):
            for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, shown = step.partition("\n")
                assert typed(command) == shown
        for command in more:
            typed(command)


def typed(command: str) -> str:
    """What a command of `nexus` prints."""
    result = CliRunner().invoke(program, shlex.split(command)[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def opened(home: Home, server: ModelServer, clock: Clock) -> App:
    return App(home, settings(server), now=clock)


async def tick(app: App, automation: str, clock: Clock) -> Invocation:
    """Let the engine start what is due by the clock; returns what came of it."""
    before = await runs(app, automation)
    schedules = Schedules(app.engine.database, app.engine.settings.version)
    await asyncio.to_thread(schedules.start_due, round(clock().timestamp() * 1000))
    return await ended(app, automation, len(before) + 1)


async def ended(app: App, automation: str, count: int) -> Invocation:
    """The newest invocation, when there are that many and all have ended."""
    async with asyncio.timeout(_PATIENCE_S):
        while len(found := await runs(app, automation)) < count or any(r.status not in FINAL for r in found):
            await asyncio.sleep(0.05)
    assert len(found) == count
    return found[0]


async def runs(app: App, automation: str) -> list[Invocation]:
    """Its invocations, the newest first."""
    await app.automations.runner.wait_until_settled()
    return await app.ledgers.runtime.read(invocations.of_automation, name=automation, limit=1_000)


async def messages(app: App) -> list[str]:
    """What was sent to the owner, or to whoever wrote, in order."""
    query = "SELECT content FROM events WHERE direction = 'outbound' ORDER BY seq"
    rows: list[Any] = await app.ledgers.events.read(lambda c: c.execute(query).fetchall())
    return [str(row[0]) for row in rows]


async def remember(app: App, at: datetime, *facts: str) -> None:
    """Write facts into the memory, as of a moment."""
    new = [NewFact(fact=fact, valid_at=at) for fact in facts]
    await app.ledgers.memory.write(append_facts, facts=new)
    app.embedding.wake()
    async with asyncio.timeout(_PATIENCE_S):
        while (await app.embedding.backlog()).depth:
            await asyncio.sleep(0.05)
