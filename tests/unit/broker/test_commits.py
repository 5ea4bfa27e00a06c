"""What a turn costs: commits, each a wait for the disk, and reads, each a way to a thread and back."""

from collections import Counter
from contextvars import ContextVar
from typing import Any

import pytest

from apps import app_on
from memory_writers import quiet, rows
from nexus.broker.agent.recorded import RecordedModel
from nexus.broker.queue import SessionQueue
from nexus.engine import Context as EngineContext
from nexus.engine import interior
from nexus.engine.errors import WorkFailedError
from nexus.home import Home
from nexus.ledgers.database import Database
from nexus.testing import HttpError, ModelServer


async def test_a_model_call_is_recorded_with_four_commits(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: Counter[str] = Counter()
    calls = 0
    write, step = Database.write, interior.step
    call = RecordedModel._step  # pyright: ignore[reportPrivateUsage]

    async def counted(self: Database, *arguments: Any, **named: Any) -> Any:
        if calls == 1:
            commits[self.ledger] += 1
        return await write(self, *arguments, **named)

    async def calling(self: RecordedModel, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        await call(self, *arguments)
        calls += 1

    async def recorded(name: str, *arguments: Any) -> Any:
        commits["engine"] += name == "model"
        return await step(name, *arguments)

    monkeypatch.setattr(Database, "write", counted)
    monkeypatch.setattr(RecordedModel, "_step", calling)
    monkeypatch.setattr(interior, "step", recorded)
    with ModelServer() as server:
        server.script("Yes.")
        async with app_on(home, server) as app:
            await (await app.send("Is it so?")).result()
            # The trace of the request may be written meanwhile, behind the model's back.
            assert commits["engine"] == 1
            assert commits["agents"] == 1
            assert commits["runtime"] <= 3
            assert await rows(app, "runtime", "SELECT count(*) FROM steps") == [(0,)]


async def test_a_question_that_nobody_answered_is_kept(home: Home) -> None:
    with ModelServer() as server:
        server.always(HttpError("invalid_request"))
        async with app_on(home, server) as app:
            run = await app.send("Is it so?")
            with pytest.raises(WorkFailedError, match="No model answered"):
                await run.result()
            kept = await rows(app, "agents", "SELECT role, position FROM agent_messages")
    assert kept == [("user", 0)]


async def test_a_turn_reads_its_ledgers_at_most_22_times(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not what the home does beside a turn, on its own clock: more of that comes on a slow machine.
    is_turn: ContextVar[bool] = ContextVar("is_turn", default=False)
    reads: Counter[str] = Counter()
    run = SessionQueue._run  # pyright: ignore[reportPrivateUsage]

    def counted(read: Any, kind: str) -> Any:
        async def count(self: Database, work: Any, *arguments: Any, **named: Any) -> Any:
            if is_turn.get():
                reads[f"{kind} {self.ledger}: {getattr(work, '__qualname__', work)}"] += 1
            return await read(self, work, *arguments, **named)

        return count

    async def running(self: SessionQueue, context: EngineContext, payload: Any) -> None:
        is_turn.set(context.lane == "chat")
        await run(self, context, payload)

    for kind in ("read", "read_now"):
        monkeypatch.setattr(Database, kind, counted(getattr(Database, kind), kind))
    monkeypatch.setattr(SessionQueue, "_run", running)
    turns: list[Counter[str]] = []
    with ModelServer() as server:
        server.always("Yes.")
        async with app_on(home, server) as app:
            await (await app.send("Is it so?")).result()
            for day in ("today", "tomorrow", "on Sunday"):
                await quiet(app)
                reads.clear()
                is_turn.set(True)
                await (await app.send(f"And is it so {day}?")).result()
                is_turn.set(False)
                turns.append(reads.copy())
    fewest = min(turns, key=lambda turn: turn.total())
    assert 10 < fewest.total() <= 22, fewest
    threaded = sum(count for name, count in fewest.items() if name.startswith("read "))
    assert threaded <= 5, fewest
