"""The OpenAI chat completions format, as the official client reads it."""

import json
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionToolParam

from nexus.testing import ModelServer, Pace, TokenLogprob, ToolCall, Turn, Usage, tokens_in

MODEL = "gpt-test"
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
FULL = Turn(
    "It rains, as it often does in November.",
    [ToolCall("weather", {"city": "Zürich"}), ToolCall("weather", {"city": "Oslo"}, id="call_own")],
    thinking="The user wants the weather, so I ask the tool.",
)


async def _said(client: AsyncOpenAI, text: str = "Hello", **more: Any) -> ChatCompletion:
    create: Any = client.chat.completions.create
    return await create(model=MODEL, messages=[{"role": "user", "content": text}], **more)


async def _chunks(client: AsyncOpenAI, text: str = "Hello", **more: Any) -> list[ChatCompletionChunk]:
    stream = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": text}], stream=True, **more
    )
    return [chunk async for chunk in stream]


async def test_thinking_text_and_calls_arrive(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script(FULL)
    choice = (await _said(gpt, tools=[WEATHER])).choices[0]
    assert choice.message.content == FULL.text
    assert choice.message.model_dump()["reasoning_content"] == FULL.thinking
    calls = choice.message.tool_calls or []
    assert [call.model_dump()["function"] for call in calls] == [
        {"name": "weather", "arguments": '{"city": "Zürich"}'},
        {"name": "weather", "arguments": '{"city": "Oslo"}'},
    ]
    assert calls[1].id == "call_own"
    assert choice.finish_reason == "tool_calls"


async def test_a_stream_adds_up_to_the_answer(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script(FULL)
    deltas = [c.choices[0].delta for c in await _chunks(gpt, tools=[WEATHER]) if c.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == FULL.text
    arguments: dict[int, str] = {}
    names: dict[int, str] = {}
    for part in [part for delta in deltas for part in delta.tool_calls or []]:
        assert part.function is not None
        names.setdefault(part.index, part.function.name or "")
        arguments[part.index] = arguments.get(part.index, "") + (part.function.arguments or "")
    assert names == {0: "weather", 1: "weather"}
    assert [json.loads(arguments[i]) for i in range(2)] == [{"city": "Zürich"}, {"city": "Oslo"}]


async def test_usage_comes_with_a_stream_only_when_asked(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script(FULL, FULL, FULL)
    plain = await _chunks(gpt)
    assert all(chunk.usage is None and chunk.choices for chunk in plain)
    counted = await _chunks(gpt, stream_options={"include_usage": True})
    assert [chunk.usage for chunk in counted[:-1]] == [None] * (len(counted) - 1)
    assert counted[-1].choices == []
    assert counted[-1].usage == (await _said(gpt)).usage
    assert counted[-1].usage is not None
    assert counted[-1].usage.completion_tokens == tokens_in(FULL.output_bytes)
    assert counted[-1].usage.prompt_tokens == server.requests[0].prompt.tokens
    assert counted[-1].choices == []


async def test_the_finish_reason_follows_the_stop_reason(server: ModelServer, gpt: AsyncOpenAI) -> None:
    reasons = {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "refusal": "content_filter",
        "tool_use": "tool_calls",
    }
    for reason, finish in reasons.items():
        server.script(Turn("…", stop_reason=reason), Turn("…", stop_reason=reason))  # pyright: ignore[reportArgumentType]
        assert (await _said(gpt)).choices[0].finish_reason == finish
        assert (await _chunks(gpt))[-1].choices[0].finish_reason == finish


async def test_a_result_of_a_tool_is_seen_by_the_script(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script(
        Turn(tool_calls=[ToolCall("weather", {"city": "Bern"}, id="call_1")]),
        lambda request: f"The tool said: {request.tool_results[0]}",
    )
    first = await _said(gpt, "What is the weather?", tools=[WEATHER])
    second = await gpt.chat.completions.create(
        model=MODEL,
        tools=[WEATHER],
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "What is the weather?"}]},
            first.choices[0].message.model_dump(exclude_none=True),  # pyright: ignore[reportArgumentType]
            {"role": "tool", "tool_call_id": "call_1", "content": "snow"},
        ],
    )
    assert second.choices[0].message.content == "The tool said: snow"
    seen = server.requests[1]
    assert (seen.system, seen.last_user, seen.tool_names) == (
        "Be brief.",
        "What is the weather?",
        ("weather",),
    )


async def test_scripted_logprobs_are_sent_when_asked(server: ModelServer, gpt: AsyncOpenAI) -> None:
    turn = Turn(logprobs=[TokenLogprob("Yes", -0.1, [("Yes", -0.1), ("No", -2.4)]), TokenLogprob(".", -0.01)])
    server.script(turn, turn, turn)
    choice = (await _said(gpt, logprobs=True, top_logprobs=2)).choices[0]
    assert choice.message.content == "Yes."
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert [entry.logprob for entry in choice.logprobs.content] == [-0.1, -0.01]
    assert [top.token for top in choice.logprobs.content[0].top_logprobs] == ["Yes", "No"]
    chunks = [c.choices[0] for c in await _chunks(gpt, logprobs=True, top_logprobs=2) if c.choices]
    streamed = [c.logprobs.content[0].token for c in chunks if c.logprobs and c.logprobs.content]
    assert streamed == ["Yes", "."]
    assert (await _said(gpt)).choices[0].logprobs is None


async def test_a_schema_for_the_answer_is_accepted_and_kept(server: ModelServer, gpt: AsyncOpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "pick", "schema": {"type": "object"}}}
    server.script('{"numbers": [1]}')
    answer = await _said(gpt, response_format=form)
    assert json.loads(answer.choices[0].message.content or "") == {"numbers": [1]}
    assert server.requests[0].json["response_format"] == form


async def test_an_empty_turn_has_no_content(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script(Turn(), Turn())
    answer = await _said(gpt)
    assert answer.choices[0].message.content is None
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 1
    assert [c.choices[0].delta.content for c in await _chunks(gpt)] == ["", None]


async def test_models_are_listed(server: ModelServer, gpt: AsyncOpenAI) -> None:
    assert [model.id async for model in await gpt.models.list()] == ["nexus-testing"]
    assert (await gpt.models.retrieve("any/name")).id == "any/name"


async def test_a_piece_is_as_long_as_the_pace_says(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script(Turn("abcdefg", pace=Pace(chunk_chars=3)))
    contents = [c.choices[0].delta.content for c in await _chunks(gpt)]
    assert contents == ["", "abc", "def", "g", None]


CALLING = {
    "role": "assistant",
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
    ],
}
SAID = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"messages": []}, "at least one message"),
        ({"messages": ["Hello"]}, "unexpected shape"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "role"),
        ({"model": None}, "model"),
        ({"n": 2}, "one choice"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "json_schema.name"),
        ({"messages": [SAID, CALLING]}, "Not answered"),
        ({"messages": [SAID, CALLING, SAID]}, "Not answered"),
        ({"messages": [{"role": "tool", "tool_call_id": "x", "content": "snow"}]}, "must answer"),
    ],
)
async def test_a_request_that_breaks_the_rules_is_refused_and_takes_no_step(
    server: ModelServer, gpt: AsyncOpenAI, change: dict[str, Any], said: str
) -> None:
    server.script("not for this one")
    body = {"model": MODEL, "messages": [SAID], **change}
    with pytest.raises(BadRequestError, match=said) as refused:
        await gpt.post("/chat/completions", body=body, cast_to=ChatCompletion)
    assert refused.value.type == "invalid_request_error"
    assert (refused.value.request_id or "").startswith("req_")
    assert server.exchanges[0].answer.usage == Usage()
    assert (await _said(gpt)).choices[0].message.content == "not for this one"
