"""A home in which agents have worked: runs that ended, failed and wait, in its ledgers and its engine."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest

from nexus.broker.queue import SessionQueue, Turn
from nexus.config import LedgersConfig
from nexus.engine import Engine, Settings
from nexus.engine.errors import WorkFailedError
from nexus.home import Home
from nexus.ledgers import Ledgers

SECRET = "zebrafinch"


async def _recalled() -> str:
    return f"the {SECRET} is in the cage"


async def _talk(turn: Turn) -> dict[str, Any]:
    said = await turn.step("recall", _recalled)
    if turn.inputs == ["fail"]:
        raise ValueError(said)
    return {"said": said}


async def _lived(home: Home) -> dict[str, str]:
    """One run that ended, one that failed and one that waits about a thread, and one about another."""
    async with Ledgers(home, LedgersConfig()) as ledgers:
        await ledgers.events.write(
            lambda c: c.execute("INSERT INTO threads (id, channel) VALUES ('thr_1', 'cli'), ('thr_2', 'cli')")
        )
        await ledgers.runtime.write(
            lambda c: c.execute(
                """INSERT INTO requests (id, root_request_id, thread_id)
                VALUES ('req_1', 'req_1', 'thr_1'), ('req_2', 'req_2', 'thr_2')"""
            )
        )
        engine = Engine(Settings(database=home.engine_file, stop_grace_ms=100))
        queue = SessionQueue(engine, lambda _: nullcontext(ledgers))
        queue.register("talk", _talk)

        async def say(input_: str, request: str) -> str:
            handle = await queue.start_execution("talk", input_, session_label=request, request_id=request)
            return handle.id

        async with engine:
            ids = {"done": await say("x", "req_1"), "failed": await say("fail", "req_1")}
            ids["other"] = await say("y", "req_2")
            await queue.handle(ids["done"]).result()
            await queue.handle(ids["other"]).result()
            with pytest.raises(WorkFailedError):
                await queue.handle(ids["failed"]).result()
        await engine.open(serve=False)
        ids["waiting"] = await say("z", "req_1")
        ids["other waiting"] = await say("z", "req_2")
        await engine.close()
    return ids


def lived(home: Home) -> dict[str, str]:
    """The ids of the runs by what became of them."""
    return asyncio.run(_lived(home))
