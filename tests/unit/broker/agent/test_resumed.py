"""A run that is stopped anywhere and resumed: recorded steps are not repeated."""

import asyncio
import gc
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agent_runs import MemoryJournal, Run
from nexus.broker.agent.records import Message
from nexus.broker.tools import Tool
from nexus.errors import FencedError
from nexus.testing import Hold, ModelServer, ToolCall, Turn

LONG = "A text of more than one piece, so that it can be interrupted in its middle."
CALL = Turn("Looking.", [ToolCall("weather", {"city": "Bern"})])


class Counting:
    """A tool whose effects are counted, and that can be stopped behind its effect."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.hold_after: asyncio.Event | None = asyncio.Event()
        self.reached = asyncio.Event()

    async def __call__(self, tool: Tool, arguments: Mapping[str, Any], call_id: str) -> str:
        self.effects.append(arguments["city"])
        self.reached.set()
        if self.hold_after is not None:
            await self.hold_after.wait()
        return f"{arguments['city']}: snow"


class Said:
    """What is said into a run, as the queue gives it: each message once for each attempt, in order."""

    def __init__(self, *said: str) -> None:
        self.all = list(said)
        self._so_far = 0

    def resume(self) -> None:
        self._so_far = 0

    async def __call__(self, recorded: int | None) -> list[str]:
        end = len(self.all) if recorded is None else self._so_far + recorded
        new = self.all[self._so_far : end]
        self._so_far += len(new)
        return new


class Fenced(MemoryJournal):
    """A journal of a home whose lease ends while something is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.is_keeping, self.lease_ends = asyncio.Event(), asyncio.Event()
        self.has_refused = False

    async def append(self, offset: int, *messages: Message) -> None:
        self.is_keeping.set()
        await self.lease_ends.wait()
        self.has_refused = True
        raise FencedError("This host's lease on the home has ended")


async def _stopped(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_run_that_was_complete_is_gone_through_again_without_a_single_request(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script(CALL, "Snow.")
    run = made()
    first = await run()
    ran = list(run.steps.names)
    again = await run()
    assert again == first
    assert run.steps.names == ran
    assert len(server.requests) == 2
    assert len(run.journal.attempts) == 2


async def test_an_answer_that_was_being_streamed_is_asked_for_again_and_shown_once(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script(CALL, Turn(LONG, faults=[Hold(gate="middle", after_deltas=2)]), "It snows.")
    run = made()
    task = asyncio.ensure_future(run())
    await server.until(
        lambda: len(server.exchanges) == 2 and b"more than one" in server.exchanges[1].answer.sent
    )
    await _stopped(task)
    outcome = await run()
    assert outcome.text == "It snows."
    assert len(server.requests) == 3, "the first answer and the tool's result were recorded"
    assert run.steps.names == ["model", "tool:weather", "model", "model"]
    deltas = await run.deltas()
    restart = [delta.kind for delta in deltas].index("restart")
    assert "".join(d.text for d in deltas[restart:] if d.kind == "text") == "It snows."


async def test_an_answer_in_the_journal_is_used_though_its_step_was_not_recorded(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script("It snows.")
    run = made()
    await run()
    run.steps.recorded.clear()  # as if the crash came right behind the journal's write
    assert (await run()).text == "It snows."
    assert len(server.requests) == 1


async def test_deltas_that_a_crash_swallowed_are_shown_from_the_journal(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script(CALL, "It snows.")
    run = made()
    await run()
    file = run.place / "streams" / f"{run.execution_id}.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:1]) + b'{"kind":"te')  # killed while the first answer was written
    run.steps.recorded.clear()
    await run()
    deltas = await run.deltas()
    assert [d.kind for d in deltas] == [
        *["begin", "restart", "text", "tool_call", "done", "tool_result"],
        *["begin", "text", "done"],
    ]


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
async def test_what_is_said_while_a_run_is_resumed_reaches_the_first_question_that_nobody_answered(
    made: Callable[..., Run], server: ModelServer, is_killed: bool
) -> None:
    look = Turn("Again.", [ToolCall("look", {"city": "Bern"})])
    server.script(CALL, look, Turn(LONG, faults=[Hold(gate="middle", after_deltas=2)]), look, "It snows.")
    said = Said("And in Oslo?")
    run = made(steered=said)
    task = asyncio.ensure_future(run())
    await server.until(lambda: len(server.exchanges) == 3 and bool(server.exchanges[2].answer.sent))
    await _stopped(task)
    if is_killed:
        run.journal.messages.pop(4, None)  # who is killed records no question
    run.steps.recorded.clear()  # as an upgrade may
    said.all.append("And in Rome?")
    said.resume()

    assert (await run()).text == "It snows."

    place = 4 if is_killed else 6
    heard = {
        offset: [name for name in ("Oslo", "Rome") if f"And in {name}?" in message.content]
        for offset, message in run.journal.messages.items()
    }
    assert heard == {offset: [] for offset in heard} | {2: ["Oslo"], place: ["Rome"]}
    shown = [request.last_user for request in server.requests]
    assert ["And in Rome?" in each for each in shown] == [False, False, False, is_killed, True]


async def test_a_tool_between_its_effect_and_its_record_is_not_run_again(
    made: Callable[..., Run], server: ModelServer
) -> None:
    tool = Counting()
    server.script(CALL, lambda request: f"I see: {request.tool_results[0]}")
    run = made(call=tool)
    task = asyncio.ensure_future(run())
    await tool.reached.wait()
    await _stopped(task)
    tool.hold_after = None
    outcome = await run()
    assert tool.effects == ["Bern"]
    assert "may or may not have taken effect" in outcome.text
    assert len(server.requests) == 2


async def test_a_tool_that_only_looks_is_run_again(made: Callable[..., Run], server: ModelServer) -> None:
    tool = Counting()
    server.script(
        Turn(tool_calls=[ToolCall("look", {"city": "Bern"})]),
        lambda request: f"I see: {request.tool_results[0]}",
    )
    run = made(call=tool)
    task = asyncio.ensure_future(run())
    await tool.reached.wait()
    await _stopped(task)
    tool.hold_after = None
    assert (await run()).text == "I see: Bern: snow"
    assert tool.effects == ["Bern", "Bern"]


async def test_a_result_in_the_journal_is_used_though_its_step_was_not_recorded(
    made: Callable[..., Run], server: ModelServer
) -> None:
    tool = Counting()
    tool.hold_after = None
    server.script(CALL, "Snow.")
    run = made(call=tool)
    await run()
    del run.steps.recorded[1:]
    await run()
    assert tool.effects == ["Bern"]
    assert len(server.requests) == 2


async def test_calls_in_parallel_of_which_some_had_ended(
    made: Callable[..., Run], server: ModelServer
) -> None:
    ended: list[str] = []
    reached = asyncio.Event()
    open_ = False

    async def call(tool: Tool, arguments: Mapping[str, Any], call_id: str) -> str:
        if arguments["city"] == "Oslo" and not open_:
            reached.set()
            await asyncio.Event().wait()
        ended.append(arguments["city"])
        return f"{arguments['city']}: snow"

    calls = [ToolCall("look", {"city": city}) for city in ("Bern", "Oslo", "Rome")]
    server.script(Turn(tool_calls=calls), lambda request: " ".join(request.tool_results))
    run = made(call=call)
    task = asyncio.ensure_future(run())
    await reached.wait()
    while len(ended) < 2:
        await asyncio.sleep(0.01)
    await _stopped(task)
    open_ = True
    outcome = await run()
    assert outcome.text == "Bern: snow Oslo: snow Rome: snow"
    assert ended == ["Bern", "Rome", "Oslo"]


async def test_a_run_that_is_stopped_again_while_its_question_is_kept_ends_after_that(
    made: Callable[..., Run], server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(Turn(LONG, faults=[Hold(gate="middle", after_deltas=2)]))
    run = made(journal=(journal := Fenced()))
    task = asyncio.ensure_future(run())
    await server.until(lambda: bool(server.exchanges) and bool(server.exchanges[0].answer.sent))
    task.cancel()
    await journal.is_keeping.wait()
    task.cancel()
    for _ in range(100):
        await asyncio.sleep(0)
    is_early = task.done()
    journal.lease_ends.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    while not journal.has_refused:
        await asyncio.sleep(0)
    del task
    gc.collect()
    assert "never retrieved" not in caplog.text
    assert not is_early
