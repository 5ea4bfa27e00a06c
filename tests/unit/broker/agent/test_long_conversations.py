"""What a request costs grows little with the conversation before it."""

import sys
from types import FrameType

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters

from nexus.broker.agent import messages
from nexus.broker.agent.clients import anthropic, openai
from nexus.broker.agent.clients.client import Opening
from nexus.testing import ModelServer

# Mapping a message and writing it down takes some 20; going through it by its annotations took hundreds.
_MOST_CALLS = 60


def conversation(exchanges: int) -> list[ModelMessage]:
    said = [
        text
        for number in range(exchanges)
        for text in (messages.asked(f"On day {number} I bought apples."), messages.noted(f"Noted {number}."))
    ]
    now = ModelRequest(parts=[UserPromptPart("How many?")])
    return [*map(messages.loaded, said), now]


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
    module, url = (openai, server.openai_url) if wire == "openai" else (anthropic, server.url)
    client = module.connect(Opening(base_url=url, api_key="k", auth_token=None, headers={}))
    model = client.model("large")
    await count_calls(model, 1)
    short, long = await count_calls(model, 10), await count_calls(model, 110)
    await client.close()

    assert (long - short) / 200 < _MOST_CALLS
    assert len(server.requests[-1].json["messages"]) == 221


def test_a_stored_message_is_parsed_once_and_not_kept_for_good() -> None:
    text = messages.asked("I bought apples.")
    first = messages.loaded(text)
    assert messages.loaded("".join([text])) is first
    for number in range(2_000):
        messages.loaded(messages.noted(f"{number} " + "apples " * 200))
    assert messages.loaded(text) is not first
    assert messages.loaded(text) == first
