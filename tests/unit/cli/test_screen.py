"""A terminal shows what an agent says, and is not steered by it."""

import asyncio
import io
from collections.abc import AsyncIterator

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from nexus.cli.message_input import TypeAhead, ask_approval
from nexus.cli.place import printable
from nexus.cli.screen import Screen, cost_line
from nexus.runs import Delta, FinishedRun, Response, Result, Totals


def test_what_would_steer_a_terminal_is_not_printed() -> None:
    assert printable("a\x1b[31mb\x07\r\x9b\u202ec\n\td") == "a[31mbc\n\td"
    assert printable("naïve 你好 👩‍🚀") == "naïve 你好 👩‍🚀"


def test_the_cost_is_told_in_a_line() -> None:
    usage = Totals(
        calls=1, input_tokens=100, cache_read_tokens=900, output_tokens=1_234, cost_microusd=12_300
    )
    assert cost_line(usage) == "1,000 tokens in (90% cached), 1,234 out · $0.0123"
    assert cost_line(Totals(calls=1, input_tokens=5, output_tokens=1)) == "5 tokens in, 1 out"


class _Run(FinishedRun):
    """A run of which somebody else says what happens."""

    def __init__(self) -> None:
        super().__init__(Result(execution_id="exe_1", request_id="req_1", response=Response(content="done")))
        self.happens: asyncio.Queue[Delta] = asyncio.Queue()

    async def deltas(self) -> AsyncIterator[Delta]:
        while (delta := await self.happens.get()).kind != "end":
            yield delta


def _approval(call_id: str) -> Delta:
    return Delta(
        kind="approval", text=f"about {call_id}", call_id=call_id, approval_id=call_id, call_hash=call_id
    )


async def test_calls_that_wait_are_asked_about_one_at_a_time() -> None:
    run, notes = _Run(), io.StringIO()
    begun: asyncio.Queue[str] = asyncio.Queue()
    ended: list[tuple[str, str]] = []
    answers = {name: asyncio.Event() for name in "abc"}

    async def approve(delta: Delta) -> None:
        begun.put_nowait(delta.call_id)
        try:
            await answers[delta.call_id].wait()
            ended.append((delta.call_id, "answered"))
        except asyncio.CancelledError:
            ended.append((delta.call_id, "taken back"))
            raise

    following = asyncio.ensure_future(Screen(io.StringIO(), notes).follow(run, approve))
    async with asyncio.timeout(60):
        for delta in (_approval("a"), _approval("b"), _approval("c"), _approval("a")):
            run.happens.put_nowait(delta)
        assert await begun.get() == "a"
        # What else happens in the run leaves the question as it is.
        for other in (Delta(kind="tool_result", call_id="x"), Delta(kind="waiting", text="busy")):
            run.happens.put_nowait(other)
        while "busy" not in notes.getvalue():
            await asyncio.sleep(0)
        assert (begun.empty(), ended) == (True, [])
        assert "about b" not in notes.getvalue(), "a question is shown when it is asked"
        answers["a"].set()
        assert await begun.get() == "b"
        run.happens.put_nowait(Delta(kind="tool_result", call_id="b"))
        assert await begun.get() == "c"
        run.happens.put_nowait(Delta(kind="end"))
        await following
    assert ended == [("a", "answered"), ("b", "taken back"), ("c", "taken back")]


async def test_what_was_typed_before_a_question_does_not_answer_it() -> None:
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        async with asyncio.timeout(60):
            typed.send_text("n\ry\r")
            ahead = TypeAhead()
            assert await ask_approval("Allow A00001? ", ahead) == "n"
            second = asyncio.ensure_future(ask_approval("Allow A00002? ", ahead))
            await asyncio.sleep(0)
            typed.send_text("a\r")
            assert await second == "a"
