"""What a request costs grows little with the conversation before it."""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters

from agent_runs import Run, past_turn
from nexus import ids
from nexus.broker.agent import message_json
from nexus.broker.agent.answering import Asked
from nexus.broker.agent.clients import Opening, connect_anthropic, connect_openai
from nexus.broker.agent.model_requests import Conversation, build_request
from nexus.broker.agent.models import Candidate, Models
from nexus.broker.agent.records import Limits
from nexus.ledgers.agents.history import Turn
from nexus.ledgers.runtime.models import Capabilities
from nexus.testing import ModelServer

# Mapping a message and writing it down takes some 20; going through it by its annotations took hundreds.
_MOST_CALLS = 60
_MOST_CALLS_TO_PREPARE = 8


def conversation(exchanges: int) -> list[ModelMessage]:
    said = [
        text
        for number in range(exchanges)
        for text in (
            message_json.dump_question(f"On day {number} I bought apples."),
            message_json.dump_note(f"Noted {number}."),
        )
    ]
    now = ModelRequest(parts=[UserPromptPart("How many?")])
    return [*map(message_json.load_message, said), now]


async def count_calls(model: "Model[object]", exchanges: int) -> int:
    """How many functions of Python a request calls."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    said = conversation(exchanges)
    sys.setprofile(count)
    try:
        async with model.request_stream(said, None, ModelRequestParameters()) as answer:
            async for _ in answer:
                pass
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_request_does_little_for_each_message_before_it(wire: str, server: ModelServer) -> None:
    server.always("Plenty.")
    connect, url = (
        (connect_openai, server.openai_url) if wire == "openai" else (connect_anthropic, server.url)
    )
    client = connect(Opening(base_url=url, api_key="k", auth_token=None, headers={}))
    model = client.model("large")
    await count_calls(model, 1)
    short, long = await count_calls(model, 10), await count_calls(model, 110)
    await client.close()

    assert (long - short) / 200 < _MOST_CALLS
    assert len(server.requests[-1].json["messages"]) == 221


def _past(exchanges: int) -> list[Turn]:
    """Turns that name a few facts again and again, as the memory's do."""
    facts = [ids.new("fact") for _ in range(5)]
    return [
        past_turn(
            [
                message_json.dump_question(f"On day {number} I bought apples ({facts[number % 5]})."),
                message_json.dump_note(f"Noted {number}."),
            ]
        )
        for number in range(exchanges)
    ]


async def _ask(candidate: Candidate, past: list[Turn]) -> tuple[Asked, int]:
    """A request after some turns, and how many functions of Python were called to make it."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    now = ModelRequest(parts=[UserPromptPart("How many?")])
    sys.setprofile(count)
    try:
        conversation = Conversation(
            blocks=message_json.join(past, [now]), own=1, parameters=ModelRequestParameters()
        )
        made = build_request(candidate, Capabilities(), conversation, None, Limits())
    finally:
        sys.setprofile(None)
    return made, calls


async def test_what_was_said_before_is_prepared_once(made: Callable[..., Run]) -> None:
    run = made()
    async with Models(run.config, {"KEY": "k"}) as models:
        (candidate,) = await models.candidates((run.name,))
        short, long = _past(10), _past(110)
        for past in (short, long):
            await _ask(candidate, past)
        _, few = await _ask(candidate, short)
        asked_long, many = await _ask(candidate, long)
        again, _ = await _ask(candidate, [replace(turn) for turn in long])

    assert (many - few) / 200 < _MOST_CALLS_TO_PREPARE
    assert asked_long.messages[:-1] == again.messages[:-1], "and it is the same as if it were prepared now"
    assert asked_long.length_bytes == again.length_bytes
    assert "On day 6 I bought apples (fact_2)." in str(asked_long.messages[12])


def test_a_turn_without_an_answer_is_joined_with_the_next_one() -> None:
    past = [
        past_turn([message_json.dump_question("Hello?")]),
        past_turn([message_json.dump_question("Yes?"), message_json.dump_note("Here.")]),
    ]
    [block] = message_json.join(past, [ModelRequest(parts=[UserPromptPart("Good.")])])
    assert [len(message.parts) for message in block.messages] == [2, 1, 1]
