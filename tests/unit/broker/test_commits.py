"""What a turn costs: commits, each a wait for the disk, reads, and the functions on its way to the model."""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import apsw
import pytest
import sqlalchemy as sa
from sqlalchemy import event
from turn_profile import Trace

from apps import app_on
from memory_writers import quiet, rows
from nexus.broker.agent.loop import RecordedModel
from nexus.broker.queue import SessionQueue
from nexus.engine import WorkContext, dbos_runtime
from nexus.engine.errors import WorkFailedError
from nexus.home import Home
from nexus.ledgers.database import Database
from nexus.testing import HttpError, ModelServer

_MOST: Final = {
    "commits events": 2,
    "commits runtime": 8,
    "commits agents": 3,
    "commits identity": 0,
    "commits memory": 0,
    "commits engine": 4,
    "statements engine": 25,
}
"""From when a message is sent until its result is there, with a little room for a slow machine."""
_MOST_STOPS: Final = 31
_MOST_FUNCTIONS: Final = 780
"""Of ours that run until the provider is called."""


async def test_a_model_call_is_recorded_with_four_commits(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: Counter[str] = Counter()
    calls = 0
    write, step = Database.write, dbos_runtime.step
    call = RecordedModel._ask_or_replay  # pyright: ignore[reportPrivateUsage]

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
    monkeypatch.setattr(RecordedModel, "_ask_or_replay", calling)
    monkeypatch.setattr(dbos_runtime, "step", recorded)
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
    run = SessionQueue._execute  # pyright: ignore[reportPrivateUsage]

    def counted(read: Any, kind: str) -> Any:
        async def count(self: Database, work: Any, *arguments: Any, **named: Any) -> Any:
            if is_turn.get():
                reads[f"{kind} {self.ledger}: {getattr(work, '__qualname__', work)}"] += 1
            return await read(self, work, *arguments, **named)

        return count

    async def running(self: SessionQueue, context: WorkContext, payload: Any) -> None:
        is_turn.set(context.lane == "chat")
        await run(self, context, payload)

    for kind in ("read", "read_now"):
        monkeypatch.setattr(Database, kind, counted(getattr(Database, kind), kind))
    monkeypatch.setattr(SessionQueue, "_execute", running)
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


@pytest.fixture
def no_profile() -> Iterator[None]:
    """Let no later test be traced."""
    yield
    threading.setprofile(None)
    sys.setprofile(None)


@pytest.mark.usefixtures("no_profile")
async def test_a_turn_makes_one_model_call_and_few_statements_commits_and_stops(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts, not times: whoever adds weight to every turn finds it here."""
    counts: Counter[str] = Counter()

    def watch(connection: apsw.Connection) -> None:
        name = Path(connection.filename).stem

        def commit() -> bool:
            counts[f"commits {name}"] += 1
            return False

        connection.set_commit_hook(commit)

    def execute(connection: sa.Connection, cursor: object, statement: str, *_: object) -> None:
        counts["statements engine"] += 1
        if statement.lstrip()[:6].upper() in {"INSERT", "UPDATE", "DELETE"}:
            connection.info["wrote"] = True

    def commit(connection: sa.Connection) -> None:
        counts["commits engine"] += connection.info.pop("wrote", False)

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, watch])
    event.listen(sa.Engine, "before_cursor_execute", execute)
    event.listen(sa.Engine, "commit", commit)
    turns: list[Counter[str]] = []
    try:
        with ModelServer() as server:
            server.always("Yes.")
            trace = Trace(server.url)
            trace.follow(asyncio.get_running_loop())
            async with app_on(home, server) as app:
                for day in ("now", "today", "tomorrow", "on Sunday"):
                    await quiet(app)
                    asked = len(server.exchanges)
                    counts.clear()
                    await (await app.send(f"Is it so {day}?")).result()
                    turns.append(counts.copy())
                    assert len(server.exchanges) - asked == 1
                await quiet(app)
                with trace.watching():
                    await (await app.send("Is it so on Monday?")).result()
    finally:
        event.remove(sa.Engine, "before_cursor_execute", execute)
        event.remove(sa.Engine, "commit", commit)
    # Not what the home does beside a turn, on its own clock: more of that comes on a slow machine.
    fewest = {name: min(turn[name] for turn in turns[1:]) for name in _MOST}
    assert fewest["statements engine"] > fewest["commits engine"] > 0
    assert all(fewest[name] <= most for name, most in _MOST.items()), fewest
    # As `bench/turn_profile.py` counts them, which adds those of HTTP.
    assert 20 < len(trace.way()) <= _MOST_STOPS, [code.co_qualname for code in trace.way()]
    assert 100 < len(trace.before) <= _MOST_FUNCTIONS
