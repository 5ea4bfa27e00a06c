"""The Anthropic Messages format, as the official client reads it."""

import json
from typing import Any

import httpx
import pytest
from anthropic import AsyncAnthropic, BadRequestError
from anthropic.types import Message, ToolParam

from nexus.testing import ModelServer, Pace, ToolCall, Turn, Usage, tokens_in

MODEL = "claude-test"
WEATHER: ToolParam = {
    "name": "weather",
    "description": "The weather in a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
FULL = Turn(
    "It rains, as it often does in November.",
    [ToolCall("weather", {"city": "Zürich"}), ToolCall("weather", {"city": "Oslo"}, id="toolu_own")],
    thinking="The user wants the weather, so I ask the tool.",
)


async def _said(client: AsyncAnthropic, text: str = "Hello", **more: Any) -> Message:
    create: Any = client.messages.create
    return await create(model=MODEL, max_tokens=100, messages=[{"role": "user", "content": text}], **more)


async def _streamed(client: AsyncAnthropic, text: str = "Hello", **more: Any) -> Message:
    async with client.messages.stream(
        model=MODEL, max_tokens=100, messages=[{"role": "user", "content": text}], **more
    ) as stream:
        return await stream.get_final_message()


def _content(message: Message) -> list[tuple[str, object]]:
    """The blocks without what is made up for each answer."""
    found: list[tuple[str, object]] = []
    for block in message.content:
        if block.type == "text":
            found.append(("text", block.text))
        elif block.type == "thinking":
            assert block.signature
            found.append(("thinking", block.thinking))
        elif block.type == "tool_use":
            found.append((block.name, block.input))
    return found


@pytest.mark.parametrize("ask", [_said, _streamed])
async def test_thinking_text_and_calls_arrive_in_order(
    server: ModelServer, claude: AsyncAnthropic, ask: Any
) -> None:
    server.script(FULL)
    message = await ask(claude, tools=[WEATHER])
    assert _content(message) == [
        ("thinking", FULL.thinking),
        ("text", FULL.text),
        ("weather", {"city": "Zürich"}),
        ("weather", {"city": "Oslo"}),
    ]
    assert message.stop_reason == "tool_use"
    assert message.content[-1].id == "toolu_own"
    assert message.model == MODEL


async def test_the_answer_and_its_stream_report_the_same_usage(
    server: ModelServer, claude: AsyncAnthropic
) -> None:
    server.script(FULL, FULL)
    whole, streamed = await _said(claude), await _streamed(claude)
    assert whole.usage == streamed.usage
    assert whole.usage.output_tokens == tokens_in(FULL.output_bytes)
    assert whole.usage.input_tokens == server.requests[0].prompt.tokens
    first, second = server.exchanges
    assert first.answer.usage == second.answer.usage
    assert first.answer.usage.output_tokens == whole.usage.output_tokens
    assert first.answer.outcome == second.answer.outcome == "complete"


async def test_a_stream_has_the_events_in_the_documented_order(server: ModelServer) -> None:
    server.script(Turn("Hello there", [ToolCall("weather", {})], pace=Pace(chunk_chars=6)))
    async with httpx.AsyncClient() as client:
        answer = await client.post(
            f"{server.url}/v1/messages",
            headers={"x-api-key": "k", "anthropic-version": "2023-06-01"},
            json={
                "model": MODEL,
                "max_tokens": 9,
                "stream": True,
                "messages": [{"role": "user", "content": "Hi"}],
            },
        )
    names = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert names == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["request-id"].startswith("req_")


async def test_a_result_of_a_tool_is_seen_by_the_script(server: ModelServer, claude: AsyncAnthropic) -> None:
    server.script(
        Turn(tool_calls=[ToolCall("weather", {"city": "Bern"}, id="toolu_1")]),
        lambda request: f"The tool said: {request.tool_results[0]}",
    )
    first = await _said(claude, "What is the weather?", tools=[WEATHER])
    second = await claude.messages.create(
        model=MODEL,
        max_tokens=100,
        tools=[WEATHER],
        messages=[
            {"role": "user", "content": "What is the weather?"},
            {"role": "assistant", "content": [block.model_dump() for block in first.content]},  # pyright: ignore[reportArgumentType]
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "snow"}],
            },
        ],
    )
    assert _content(second) == [("text", "The tool said: snow")]
    assert server.requests[1].last_user == "What is the weather?"
    assert server.requests[1].tool_names == ("weather",)


async def test_system_is_read_as_a_string_and_as_blocks(server: ModelServer, claude: AsyncAnthropic) -> None:
    server.script("one", "two")
    await _said(claude, system="Be brief.")
    await _said(claude, system=[{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}])
    assert [request.system for request in server.requests] == ["Be brief.", "Be\nbrief."]


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "pause_turn", "model_context_window_exceeded"])
async def test_the_scripted_stop_reason_is_sent(
    server: ModelServer, claude: AsyncAnthropic, reason: Any
) -> None:
    server.script(Turn("…", stop_reason=reason), Turn("…", stop_reason=reason))
    assert (await _said(claude)).stop_reason == reason
    assert (await _streamed(claude)).stop_reason == reason


async def test_a_scripted_usage_replaces_the_computed_one(
    server: ModelServer, claude: AsyncAnthropic
) -> None:
    usage = Usage(input_tokens=5, cache_read_tokens=7, cache_write_tokens=11, output_tokens=13)
    server.script(Turn("Hi", usage=usage))
    seen = (await _streamed(claude)).usage
    assert (seen.input_tokens, seen.cache_read_input_tokens, seen.output_tokens) == (5, 7, 13)
    assert seen.cache_creation_input_tokens == 11
    assert server.totals().usage == usage


async def test_invalid_arguments_come_through_a_stream_as_they_are(server: ModelServer) -> None:
    server.script(Turn(tool_calls=[ToolCall("weather", '{"city": "Ber')]))
    async with (
        httpx.AsyncClient() as client,
        client.stream(
            "POST",
            f"{server.url}/v1/messages",
            headers={"authorization": "Bearer k", "anthropic-version": "2023-06-01"},
            json={
                "model": MODEL,
                "max_tokens": 9,
                "stream": True,
                "messages": [{"role": "user", "content": "Hi"}],
            },
        ) as answer,
    ):
        lines = [line async for line in answer.aiter_lines() if line.startswith("data: ")]
    deltas = [json.loads(line.removeprefix("data: ")).get("delta", {}) for line in lines]
    assert "".join(delta.get("partial_json", "") for delta in deltas) == '{"city": "Ber'


async def test_invalid_arguments_without_streaming_are_wrapped(
    server: ModelServer, claude: AsyncAnthropic
) -> None:
    server.script(Turn(tool_calls=[ToolCall("weather", '{"city": "Ber')]))
    assert _content(await _said(claude)) == [("weather", {"INVALID_JSON": '{"city": "Ber'})]


async def test_an_empty_turn_has_no_content_and_costs_one_token(
    server: ModelServer, claude: AsyncAnthropic
) -> None:
    server.script(Turn(), Turn())
    for message in (await _said(claude), await _streamed(claude)):
        assert message.content == []
        assert message.stop_reason == "end_turn"
        assert message.usage.output_tokens == 1


async def test_counting_tokens_gives_the_count_that_a_turn_is_billed(
    server: ModelServer, claude: AsyncAnthropic
) -> None:
    server.script("Hi")
    counted = await claude.messages.count_tokens(
        model=MODEL, system="Be brief.", tools=[WEATHER], messages=[{"role": "user", "content": "Hello"}]
    )
    billed = await _said(claude, system="Be brief.", tools=[WEATHER])
    assert counted.input_tokens == billed.usage.input_tokens
    assert len(server.requests) == 1
    assert [record.request.path for record in server.records] == [
        "/v1/messages/count_tokens",
        "/v1/messages",
    ]


async def test_models_are_listed_in_the_clients_format() -> None:
    async with (
        ModelServer(models=["claude-a", "claude-b"]) as server,
        AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0) as client,
    ):
        assert [model.id async for model in client.models.list()] == ["claude-a", "claude-b"]
        assert (await client.models.retrieve("claude-b")).id == "claude-b"


CALL: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "snow"}
POINT = {"type": "ephemeral"}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "at least one message"),
    ({"messages": "Hello"}, "unexpected shape"),
    ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages.0.role"),
    ({"messages": [{"role": "user", "content": 5}]}, "unexpected shape"),
    ({"messages": [{"role": "user", "content": ""}]}, "non-empty"),
    ({"max_tokens": None}, "max_tokens"),
    ({"model": ""}, "model"),
    ({"temperature": 0.5}, "temperature"),
    ({"tools": [WEATHER, WEATHER]}, "unique"),
    (
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [CALL]}]},
        "without `tool_result`",
    ),
    ({"messages": [{"role": "user", "content": [RESULT]}]}, "unexpected `tool_use_id`"),
    (
        {"system": [{"type": "text", "text": str(n), "cache_control": POINT} for n in range(5)]},
        "maximum of 4 blocks with cache_control may be provided. Found 5",
    ),
    (
        {
            "system": [{"type": "text", "text": str(n), "cache_control": POINT} for n in range(4)],
            "cache_control": POINT,
        },
        "Found 5",
    ),
    (
        {
            "system": [{"type": "text", "text": "a", "cache_control": POINT}],
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
        },
        "must not come after",
    ),
]


@pytest.mark.parametrize(("change", "said"), REFUSED)
async def test_a_request_that_breaks_the_rules_is_refused_and_takes_no_step(
    server: ModelServer, claude: AsyncAnthropic, change: dict[str, Any], said: str
) -> None:
    server.script("not for this one")
    body = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], **change}
    with pytest.raises(BadRequestError, match=said) as refused:
        await claude.post("/v1/messages", body=body, cast_to=Message)
    assert refused.value.type == "invalid_request_error"
    assert (refused.value.request_id or "").startswith("req_")
    assert server.exchanges[0].answer.usage == Usage()
    assert (await _said(claude)).content


async def test_results_split_over_neighbouring_messages_belong_together(
    server: ModelServer, claude: AsyncAnthropic
) -> None:
    server.script("Thanks")
    calls = [{**CALL, "id": "a"}, {**CALL, "id": "b"}]
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [{**RESULT, "tool_use_id": "a"}]},
        {"role": "user", "content": [{**RESULT, "tool_use_id": "b"}]},
    ]
    body = {"model": MODEL, "max_tokens": 9, "messages": messages}
    answer = await claude.post("/v1/messages", body=body, cast_to=Message)
    assert _content(answer) == [("text", "Thanks")]


async def test_an_unknown_path_is_told_in_the_clients_format(
    server: ModelServer, claude: AsyncAnthropic
) -> None:
    with pytest.raises(Exception, match="no /v1/nothing") as missing:
        await claude.post("/v1/nothing", body={}, cast_to=Message)
    assert getattr(missing.value, "type", None) == "not_found_error"
