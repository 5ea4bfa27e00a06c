"""The loop over HTTP, in both wire formats."""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

import pydantic_ai
import pytest

from agent_runs import KEY, Run
from nexus.broker.agent import message_json
from nexus.broker.agent.loop import Job
from nexus.broker.agent.records import Limits
from nexus.broker.tools import Tool
from nexus.errors import BudgetError, LimitError
from nexus.testing import ModelServer, Stall, Step, ToolCall, Turn

CONVERSATION: list[Step] = [
    Turn("Let me see.", [ToolCall("weather", {"city": "Bern"})], thinking="Bern, then."),
    lambda request: f"It says: {request.tool_results[0]}.",
]


async def test_a_run_uses_its_tools_and_its_bill_equals_the_servers(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script(*CONVERSATION)
    run = made()
    outcome = await run()
    assert outcome.text == "It says: Bern: snow."
    assert outcome.requests == 2
    assert run.journal.bill == run.server_bill
    assert [attempt.cost_microusd for attempt in run.journal.attempts] == [0, 0], "a local server is free"
    assert run.steps.names == ["model", "tool:weather", "model"]
    assert {request.key for request in server.requests} == {KEY}
    server.assert_exhausted()


async def test_what_is_streamed_is_what_was_said(made: Callable[..., Run], server: ModelServer) -> None:
    server.script(*CONVERSATION)
    run = made()
    await run()
    deltas = await run.deltas()
    assert "".join(d.text for d in deltas if d.kind == "text") == "Let me see.It says: Bern: snow."
    assert "".join(d.text for d in deltas if d.kind == "thinking") == "Bern, then."
    kinds = [delta.kind for delta in deltas if delta.kind not in {"text", "thinking"}]
    assert kinds == ["begin", "status", "tool_call", "done", "tool_result", "begin", "status", "done"]
    assert re.fullmatch(r"reading [\d,]+ tokens", next(d.doing for d in deltas if d.kind == "status"))
    result = next(delta for delta in deltas if delta.kind == "tool_result")
    assert (result.tool, result.text, result.failed) == ("weather", "Bern: snow", False)


async def test_the_next_run_reloads_the_conversation_exactly(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script(*CONVERSATION, "You are welcome.")
    first = made()
    await first()
    second = made(history=first.stored())
    await second("Thank you.")
    earlier, later = server.requests[1], server.requests[2]
    assert later.prompt.data.startswith(earlier.prompt.data)
    assert [
        message_json.dump_message(message_json.load_message(text)).parts_json for text in first.stored()
    ] == first.stored()
    assert [message.role for message in first.journal.messages.values()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert "You know the weather." not in "".join(first.stored())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (ToolCall("weather", {"city": 5}), "`city` must be of type string"),
        (ToolCall("weather", {}), "`city` is missing"),
        (ToolCall("no_such_tool", {}), "no_such_tool"),
        (ToolCall("weather", {"city": "Atlantis"}), "There is no such city"),
        (ToolCall("weather", '{"city": "Ber'), ""),
    ],
    ids=["wrong types", "missing", "unknown tool", "refused by the tool", "invalid JSON"],
)
async def test_a_wrong_call_is_told_to_the_model_which_then_does_better(
    made: Callable[..., Run], server: ModelServer, wrong: ToolCall, said: str
) -> None:
    server.script(Turn(tool_calls=[wrong]), Turn(tool_calls=[ToolCall("weather", {"city": "Bern"})]), "Snow.")
    run = made()
    assert (await run()).text == "Snow."
    assert said in server.requests[1].tool_results[0]
    assert server.requests[2].tool_results == ("Bern: snow",)


async def test_calls_in_parallel_are_recorded_in_the_order_of_the_answer(
    made: Callable[..., Run], server: ModelServer
) -> None:
    cities = ["Bern", "Oslo", "Rome", "Riga"]

    async def slowest_first(tool: Tool, arguments: Mapping[str, Any], call_id: str) -> str:
        await asyncio.sleep(0.05 * (4 - cities.index(arguments["city"])))
        return f"{arguments['city']}: snow"

    calls = [ToolCall(("weather", "look")[n % 2], {"city": city}) for n, city in enumerate(cities)]
    server.script(Turn(tool_calls=calls), "Snow everywhere.")
    run = made(call=slowest_first)
    await run()
    assert run.steps.names == ["model", "tool:weather", "tool:look", "tool:weather", "tool:look", "model"]
    assert server.requests[1].tool_results == tuple(f"{city}: snow" for city in cities)


async def test_what_is_said_meanwhile_reaches_the_next_request(
    made: Callable[..., Run], server: ModelServer
) -> None:
    said = [["And in Oslo?"]]

    async def steered(recorded: int | None) -> list[str]:
        return said.pop() if said else []

    server.script(CONVERSATION[0], "Snow in both.")
    run = made(steered=steered)
    await run()
    assert "And in Oslo?" not in server.requests[0].last_user
    assert "And in Oslo?" in server.requests[1].last_user
    assert "And in Oslo?" in run.journal.messages[2].content


async def test_an_empty_answer_is_asked_for_again(made: Callable[..., Run], server: ModelServer) -> None:
    server.script(Turn(), "Something.")
    run = made()
    assert (await run()).text == "Something."


async def test_a_run_ends_at_its_turns(made: Callable[..., Run], server: ModelServer) -> None:
    server.always(Turn(tool_calls=[ToolCall("weather", {"city": "Bern"})]))
    run = made(limits=Limits(max_turns=3))
    with pytest.raises(LimitError, match="made 3 model calls") as caught:
        await run()
    assert "max_turns" in caught.value.hint
    assert len(server.requests) == 3


async def test_a_run_ends_at_its_time_and_its_requests_are_let_go(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script(Turn("Ready."), Turn("A long story, told slowly.", faults=[Stall(ms=60_000)]))
    await made()()  # imports the provider's client
    # Long enough for a busy machine to have asked the model by then.
    run = made(limits=Limits(timeout_ms=15_000))
    with pytest.raises(LimitError, match="exceeded 15000 ms") as caught:
        await run()
    assert "timeout_ms" in caught.value.hint
    await server.until(lambda: [each.answer.outcome for each in server.exchanges][1:] == ["hung_up"])


async def test_a_lineage_that_has_used_up_its_limit_asks_no_more(
    made: Callable[..., Run], server: ModelServer
) -> None:
    run = made(limits=Limits(max_requests=1))
    run.journal.asked_before = 1
    with pytest.raises(LimitError) as caught:
        await run()
    assert "max_requests" in caught.value.hint
    assert server.requests == []


async def test_a_run_that_cannot_be_afforded_asks_nobody(
    made: Callable[..., Run], server: ModelServer
) -> None:
    run = made()
    run.journal.broke = BudgetError("The budget is used up")
    with pytest.raises(BudgetError):
        await run()
    assert server.requests == []


async def test_the_limit_is_held_between_two_requests_of_a_run(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.always(Turn(tool_calls=[ToolCall("weather", {"city": "Bern"})]))
    run = made(limits=Limits(max_requests=2))
    with pytest.raises(LimitError, match="limit 2"):
        await run()
    assert len(server.requests) == 2


async def test_a_cancelled_run_stops_and_lets_go(made: Callable[..., Run], server: ModelServer) -> None:
    server.script(Turn("A long story, told slowly.", faults=[Stall(ms=60_000, after_deltas=1)]))
    task = asyncio.ensure_future(made()())
    await server.until(lambda: server.exchanges and server.exchanges[0].answer.sent)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.until(lambda: server.exchanges[0].answer.outcome == "hung_up")


async def test_what_is_reserved_for_a_request_is_what_it_uses_or_more(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script("Snow.")
    run = made()
    await run("How is the weather in Bern? " * 50)
    (estimate,) = run.journal.estimates
    bill = run.journal.bill
    used = bill.input_tokens + bill.cache_read_tokens + bill.cache_write_tokens + bill.output_tokens
    assert used <= estimate.input_tokens + estimate.output_tokens < used + 5_000


def test_the_library_prints_no_banner_into_the_chat() -> None:
    assert Job.__module__ == "nexus.broker.agent.loop"  # importing it is what turns it off
    assert pydantic_ai.BANNER_ENABLED is False
