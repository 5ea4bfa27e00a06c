"""A process that was frozen wakes up and goes on for a moment with what another one has done meanwhile."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from nexus.broker.queue import ActiveRun, SessionQueue
from nexus.engine import Engine, Settings
from nexus.ledgers import Ledgers
from nexus.ledgers.agents import messages, turns
from nexus.ledgers.agents.messages import NewMessage
from nexus.ledgers.memory import processing
from nexus.ledgers.memory.processing import Mark
from nexus.ledgers.runtime import approvals, executions, requests
from nexus.ledgers.runtime.executions import NewExecution
from nexus.request import Agent, Event, Request


def _run(id_: str, mode: executions.Mode = "followup") -> NewExecution:
    return NewExecution(
        id=id_, request_id="req_1", session_label="main", lane="chat", work="agent", mode=mode, input=id_
    )


def _ask(connection: apsw.Connection) -> None:
    request = Request(request_id="req_1", event=Event(content="Hi"), agent=Agent(session_label="main"))
    requests.create(connection, request)


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_run_that_has_ended_takes_no_more_messages(opened: Ledgers, is_over: bool) -> None:
    def taken(connection: apsw.Connection) -> list[Any]:
        _ask(connection)
        run = executions.enqueue(connection, _run("exe_1"))
        executions.begin(connection, "exe_1")
        if is_over:
            executions.end(connection, "exe_1", "done", result="B's answer")
        executions.enqueue(connection, _run("exe_2", "steer"))
        return executions.take(connection, run, "steer")

    assert await opened.runtime.write(taken) == ([] if is_over else ["exe_2"])


@pytest.mark.parametrize(
    ("context", "joins"),
    [
        ({"model": ""}, True),
        ({"model": "openai/gpt-4.1"}, True),
        ({"model": "openai/other"}, False),
        ({"has_tools": False}, False),
        ({"replaces": "exe_0"}, False),
    ],
)
@pytest.mark.parametrize("mode", ["steer", "collect"])
async def test_what_asks_for_another_answer_has_a_run_of_its_own(
    opened: Ledgers, mode: executions.Mode, context: dict[str, Any], joins: bool
) -> None:
    def taken(connection: apsw.Connection) -> list[Any]:
        _ask(connection)
        first = replace(_run("exe_1"), input={"context": {"model": "openai/gpt-4.1", "has_tools": True}})
        run = executions.enqueue(connection, first)
        executions.begin(connection, "exe_1")
        executions.enqueue(connection, replace(_run("exe_2", mode), input={"context": context}))
        return executions.take(connection, run, mode)

    assert await opened.runtime.write(taken) == (["exe_2"] if joins else [])


async def test_the_first_answer_of_a_model_stands(opened: Ledgers) -> None:
    def said(role: messages.Role, text: str, model: str | None = None) -> NewMessage:
        return NewMessage(role=role, content=text, parts_json=f'["{text}"]', model=model)

    def twice(connection: apsw.Connection) -> str | None:
        turn = turns.begin(
            connection, session_label="main", execution_id="exe_1", request_id="req_1", role="manager"
        )
        messages.append(connection, turn, 0, [said("user", "Tea?")])
        messages.append(connection, turn, 0, [said("user", "Tea?"), said("assistant", "Green.", "large")])
        messages.append(connection, turn, 0, [said("user", "Tea?"), said("assistant", "Black.", "large")])
        return messages.parts_at(connection, turn, 1)

    assert await opened.agents.write(twice) == '["Green."]'


async def test_what_was_learned_from_stays_so(opened: Ledgers) -> None:
    def mark(connection: apsw.Connection, status: processing.Status) -> list[Any]:
        processing.mark(
            connection, "memory-writer", [Mark(target_type="turn", target_id="trn_1", status=status)]
        )
        return connection.execute("SELECT status FROM processing_log").fetchall()

    assert await opened.memory.write(mark, status="failed") == [("failed",)]
    assert await opened.memory.write(mark, status="done") == [("done",)]
    assert await opened.memory.write(mark, status="failed") == [("done",)]


async def test_an_approved_call_is_begun_once(opened: Ledgers) -> None:
    def begin(connection: apsw.Connection) -> list[bool]:
        _ask(connection)
        executions.enqueue(connection, _run("exe_1"))
        asked = approvals.ask(
            connection, request_id="req_1", execution_id="exe_1", call_key="0:c", tool="bash", arguments={}
        )
        approvals.decide(connection, asked.id, scope="once")
        return [approvals.start(connection, asked.id) for _ in range(2)]

    assert await opened.runtime.write(begin) == [True, False]


async def test_who_lost_a_run_takes_no_messages_into_it(opened: Ledgers, tmp_path: Path) -> None:
    fenced = asyncio.Event()

    async def body(turn: ActiveRun) -> None:
        await queue.start_execution("work", None, session_label="s", request_id="req_1", mode="steer")
        before = replace(turn.context, executor_id="exr_before")
        try:
            await replace(turn, context=before).load_steered()
        except asyncio.CancelledError:
            fenced.set()
            raise

    await opened.runtime.write(_ask)
    engine = Engine(Settings(database=tmp_path / "engine.db", stop_grace_ms=50))
    queue = SessionQueue(engine, opened)
    queue.register("work", body)
    async with engine:
        await queue.start_execution("work", None, session_label="s", request_id="req_1", execution_id="exe_1")
        async with asyncio.timeout(60):
            await fenced.wait()
    taken = await opened.runtime.read(lambda c: c.execute("SELECT taken_by FROM executions").fetchall())
    assert taken == [(None,), (None,)]
