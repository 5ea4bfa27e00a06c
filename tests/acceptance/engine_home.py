"""A home in which agents have worked: runs that ended, failed and wait, in its ledgers and its engine."""

import asyncio
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from new_homes import new_home
from nexus.broker.queue import ActiveRun, SessionQueue
from nexus.config import LedgersConfig
from nexus.engine import Engine, Settings
from nexus.engine.errors import WorkFailedError
from nexus.home import Home
from nexus.ledgers import Ledgers, attach

SECRET = "zebrafinch"


async def _recalled() -> str:
    return f"the {SECRET} is in the cage"


async def _talk(turn: ActiveRun) -> dict[str, Any]:
    said = await turn.steps.run("recall", _recalled)
    if [each.input for each in (turn.execution, *turn.collected)] == ["fail"]:
        raise ValueError(said)
    return {"said": said}


async def _lived(home: Home) -> dict[str, str]:
    """One run that ended, one that failed and one that waits about a thread, and one about another."""
    async with Ledgers(home, LedgersConfig()) as opened:
        await opened.events.write(
            lambda c: c.execute("INSERT INTO threads (id, channel) VALUES ('thr_1', 'cli'), ('thr_2', 'cli')")
        )
        await opened.runtime.write(
            lambda c: c.execute(
                """INSERT INTO requests (id, root_request_id, thread_id)
                VALUES ('req_1', 'req_1', 'thr_1'), ('req_2', 'req_2', 'thr_2')"""
            )
        )
        engine = Engine(Settings(database=home.engine_file, stop_grace_ms=100))
        queue = SessionQueue(engine, opened)
        queue.register("talk", _talk)

        async def say(input_: str, request: str) -> str:
            handle = await queue.start_execution("talk", input_, session_label=request, request_id=request)
            return handle.id

        async with engine:
            ids = {"done": await say("x", "req_1"), "failed": await say("fail", "req_1")}
            ids["other"] = await say("y", "req_2")
            await queue.run(ids["done"]).result()
            await queue.run(ids["other"]).result()
            with pytest.raises(WorkFailedError):
                await queue.run(ids["failed"]).result()
        await engine.open(serve=False)
        ids["waiting"] = await say("z", "req_1")
        ids["other waiting"] = await say("z", "req_2")
        await engine.close()
    return ids


@cache
def _example(folder: Path) -> tuple[Home, dict[str, str]]:
    """Made once for each run of the tests; each test gets a copy."""
    home = new_home(folder / "home")
    return home, asyncio.run(_lived(home))


def lived(home: Home, folder: Path) -> dict[str, str]:
    """Let a home be one that has lived; the ids of its runs by what became of them."""
    example, ids = _example(folder)
    shutil.rmtree(home.data)
    shutil.copytree(example.data, home.data)
    attach.ensure(home)
    return ids
