"""Each failure, as the official clients see it, in both wire formats."""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import Message
from openai import AsyncOpenAI

from nexus import clock
from nexus.testing import (
    BrokenEvent,
    Cut,
    Drip,
    ErrorEvent,
    Hold,
    HttpError,
    ModelServer,
    Pace,
    RetryAfter,
    Silence,
    Stall,
    ToolCall,
    Turn,
    Usage,
    failures,
)

TEXT = "A text that is long enough to be sent in several pieces, each with some words."


async def ask_claude(client: AsyncAnthropic) -> str:
    message = await client.messages.create(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
    )
    return "".join(block.text for block in message.content if block.type == "text")


async def stream_claude(client: AsyncAnthropic) -> str:
    async with client.messages.stream(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
    ) as stream:
        return "".join([text async for text in stream.text_stream])


async def ask_gpt(client: AsyncOpenAI) -> str:
    answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    return answer.choices[0].message.content or ""


async def stream_gpt(client: AsyncOpenAI) -> str:
    stream = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
    )
    return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])


@pytest.mark.parametrize("ask", [ask_claude, stream_claude])
@pytest.mark.parametrize(
    ("failure", "error", "status", "kind"),
    [
        (failures.rate_limited(), anthropic.RateLimitError, 429, "rate_limit_error"),
        (failures.overloaded(), anthropic.InternalServerError, 529, "overloaded_error"),
        (failures.server_error(), anthropic.InternalServerError, 500, "api_error"),
        (failures.unauthorized(), anthropic.AuthenticationError, 401, "authentication_error"),
        (failures.out_of_quota(), anthropic.APIStatusError, 402, "billing_error"),
        (failures.context_exceeded(), anthropic.BadRequestError, 400, "invalid_request_error"),
        (HttpError("permission"), anthropic.PermissionDeniedError, 403, "permission_error"),
        (HttpError("too_large"), anthropic.APIStatusError, 413, "request_too_large"),
        (HttpError("timeout"), anthropic.InternalServerError, 504, "timeout_error"),
    ],
)
async def test_an_error_status_in_the_anthropic_format(
    server: ModelServer,
    claude: AsyncAnthropic,
    ask: Callable[[AsyncAnthropic], Any],
    failure: HttpError,
    error: type[anthropic.APIStatusError],
    status: int,
    kind: str,
) -> None:
    server.script(failure)
    with pytest.raises(error) as seen:
        await ask(claude)
    assert (seen.value.status_code, seen.value.type) == (status, kind)
    answer = server.exchanges[0].answer
    assert (answer.outcome, answer.status, answer.usage) == ("error", status, Usage())


@pytest.mark.parametrize("ask", [ask_gpt, stream_gpt])
@pytest.mark.parametrize(
    ("failure", "error", "status", "code"),
    [
        (failures.rate_limited(), openai.RateLimitError, 429, "rate_limit_exceeded"),
        (failures.overloaded(), openai.InternalServerError, 503, None),
        (failures.server_error(), openai.InternalServerError, 500, None),
        (failures.unauthorized(), openai.AuthenticationError, 401, "invalid_api_key"),
        (failures.out_of_quota(), openai.RateLimitError, 429, "insufficient_quota"),
        (failures.context_exceeded(), openai.BadRequestError, 400, None),
        (HttpError("permission"), openai.PermissionDeniedError, 403, "permission_denied"),
    ],
)
async def test_an_error_status_in_the_openai_format(
    server: ModelServer,
    gpt: AsyncOpenAI,
    ask: Callable[[AsyncOpenAI], Any],
    failure: HttpError,
    error: type[openai.APIStatusError],
    status: int,
    code: str | None,
) -> None:
    server.script(failure)
    with pytest.raises(error) as seen:
        await ask(gpt)
    assert (seen.value.status_code, seen.value.code) == (status, code)
    assert server.exchanges[0].answer.usage == Usage()


async def test_the_time_to_come_back_has_three_forms(server: ModelServer, claude: AsyncAnthropic) -> None:
    server.script(
        failures.rate_limited(1500),
        failures.rate_limited(1500, "milliseconds"),
        failures.rate_limited(60_000, "date"),
    )
    headers: list[Any] = []
    before = clock.now()
    for _ in range(3):
        with pytest.raises(anthropic.RateLimitError) as seen:
            await ask_claude(claude)
        headers.append(seen.value.response.headers)
    assert headers[0]["retry-after"] == "1.5"
    assert headers[1]["retry-after-ms"] == "1500"
    wait = parsedate_to_datetime(headers[2]["retry-after"]) - before
    assert timedelta(seconds=60) <= wait < timedelta(seconds=90)


@pytest.mark.parametrize("form", ["seconds", "milliseconds"])
async def test_both_clients_wait_as_told_and_then_succeed(server: ModelServer, form: Any) -> None:
    failing = [failures.rate_limited(300, form), HttpError("overloaded", retry_after=RetryAfter(ms=300))]
    server.script(*failing, "done", *failing, "done")
    for client, ask in (
        (AsyncAnthropic(base_url=server.url, api_key="k", max_retries=2), ask_claude),
        (AsyncOpenAI(base_url=server.openai_url, api_key="k", max_retries=2), stream_gpt),
    ):
        started = time.monotonic()
        async with client:
            assert await ask(client) == "done"  # pyright: ignore[reportArgumentType]
        assert time.monotonic() - started >= 0.6
    assert [exchange.answer.outcome for exchange in server.exchanges] == ["error", "error", "complete"] * 2
    server.assert_exhausted()


async def test_a_page_from_a_proxy_is_sent_as_it_is(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script(HttpError("server", status=502, body="<html>Bad Gateway</html>", headers={"via": "proxy"}))
    with pytest.raises(openai.InternalServerError) as seen:
        await ask_gpt(gpt)
    assert seen.value.status_code == 502
    assert seen.value.response.text == "<html>Bad Gateway</html>"
    assert seen.value.response.headers["via"] == "proxy"


CUT = Turn(TEXT, faults=[Cut(after_deltas=2)])


async def test_a_cut_stream_is_a_broken_connection_for_the_anthropic_client(
    server: ModelServer, claude: AsyncAnthropic
) -> None:
    server.script(CUT)
    with pytest.raises(httpx2.RemoteProtocolError, match="incomplete"):
        await stream_claude(claude)
    await server.until(lambda: server.exchanges[0].answer.outcome == "cut")
    assert not server.exchanges[0].answer.sent.endswith(b"\n\n")


async def test_a_cut_stream_is_a_broken_connection_for_the_openai_client(
    server: ModelServer, gpt: AsyncOpenAI
) -> None:
    server.script(CUT)
    with pytest.raises(openai.APIConnectionError):
        await stream_gpt(gpt)
    await server.until(lambda: server.exchanges[0].answer.outcome == "cut")


async def test_a_cut_answer_is_billed_for_what_was_sent(server: ModelServer, claude: AsyncAnthropic) -> None:
    server.script(CUT, Turn(TEXT))
    with pytest.raises(httpx2.RemoteProtocolError):
        await stream_claude(claude)
    await stream_claude(claude)
    await server.until(lambda: server.exchanges[0].answer.outcome == "cut")
    cut, whole = (exchange.answer.usage for exchange in server.exchanges)
    assert cut.input_tokens == whole.input_tokens
    assert cut.output_tokens == 2 * CUT.pace.chunk_chars // 4
    assert whole.output_tokens > cut.output_tokens
    assert server.totals(lambda exchange: exchange.answer.outcome == "complete").usage == whole


async def test_a_cut_body_is_a_broken_connection(
    server: ModelServer, claude: AsyncAnthropic, gpt: AsyncOpenAI
) -> None:
    server.script(CUT, CUT)
    with pytest.raises(anthropic.APIConnectionError):
        await ask_claude(claude)
    with pytest.raises(openai.APIConnectionError):
        await ask_gpt(gpt)


async def test_silence_is_a_connection_closed_without_an_answer(
    server: ModelServer, claude: AsyncAnthropic, gpt: AsyncOpenAI
) -> None:
    server.script(Silence(), Silence(hold_ms=50), Silence())
    for _ in range(2):
        with pytest.raises(anthropic.APIConnectionError):
            await ask_claude(claude)
    with pytest.raises(openai.APIConnectionError):
        await stream_gpt(gpt)
    await server.until(lambda: all(e.answer.outcome == "silent" for e in server.exchanges))
    assert [exchange.answer.status for exchange in server.exchanges] == [None] * 3


STALLED = {
    "before the headers": Turn(TEXT, pace=Pace(before_ms=60_000)),
    "in the middle": Turn(TEXT, faults=[Stall(ms=60_000, after_deltas=1)]),
}


@pytest.mark.parametrize("turn", STALLED.values(), ids=STALLED.keys())
async def test_a_client_that_gives_up_on_a_stall_is_recorded_as_hung_up(
    server: ModelServer, claude: AsyncAnthropic, gpt: AsyncOpenAI, turn: Turn
) -> None:
    server.script(turn, turn)
    with pytest.raises((anthropic.APITimeoutError, httpx2.ReadTimeout)):
        await stream_claude(claude.with_options(timeout=1.0))
    with pytest.raises(openai.APITimeoutError):
        await ask_gpt(gpt.with_options(timeout=1.0))
    await server.until(lambda: [e.answer.outcome for e in server.exchanges] == ["hung_up", "hung_up"])


async def test_a_stall_that_ends_leaves_the_answer_whole(
    server: ModelServer, claude: AsyncAnthropic, gpt: AsyncOpenAI
) -> None:
    turn = Turn(TEXT, pace=Pace(before_ms=50), faults=[Stall(ms=100, after_deltas=1)])
    server.script(turn, turn, turn, turn)
    started = time.monotonic()
    assert await stream_claude(claude) == TEXT
    assert await ask_claude(claude) == TEXT
    assert await stream_gpt(gpt) == TEXT
    assert await ask_gpt(gpt) == TEXT
    assert time.monotonic() - started >= 4 * 0.15


async def test_a_held_answer_goes_on_when_the_gate_is_opened(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script(Turn(TEXT, faults=[Hold(gate="middle", after_deltas=2)]))
    stream = await gpt.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
    )
    chunks = aiter(stream)
    before = "".join([(await anext(chunks)).choices[0].delta.content or "" for _ in range(3)])
    await server.until(lambda: server.gate("middle").waiting == 1)
    assert before == TEXT[: 2 * 24]
    assert server.exchanges[0].answer.outcome == "pending"
    server.gate("middle").open()
    after = "".join([c.choices[0].delta.content or "" async for c in chunks if c.choices])
    assert before + after == TEXT
    assert server.exchanges[0].answer.outcome == "complete"


async def test_a_broken_event_is_not_json(
    server: ModelServer, claude: AsyncAnthropic, gpt: AsyncOpenAI
) -> None:
    turn = Turn(TEXT, faults=[BrokenEvent()])
    server.script(turn, turn)
    with pytest.raises(json.JSONDecodeError):
        await stream_claude(claude)
    with pytest.raises(json.JSONDecodeError):
        await stream_gpt(gpt)


async def test_a_broken_body_is_not_json(
    server: ModelServer, claude: AsyncAnthropic, gpt: AsyncOpenAI
) -> None:
    turn = Turn(TEXT, faults=[BrokenEvent()])
    server.script(turn, turn)
    with pytest.raises((json.JSONDecodeError, anthropic.APIError)):
        await ask_claude(claude)
    with pytest.raises((json.JSONDecodeError, openai.APIError)):
        await ask_gpt(gpt)
    assert [exchange.answer.outcome for exchange in server.exchanges] == ["broken", "broken"]


async def test_an_error_event_ends_an_anthropic_stream(server: ModelServer, claude: AsyncAnthropic) -> None:
    server.script(Turn(TEXT, faults=[ErrorEvent(after_deltas=2)]))
    received: list[str] = []
    with pytest.raises(anthropic.APIStatusError) as seen:  # noqa: PT012 - what came before counts too
        async with claude.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
        ) as stream:
            async for text in stream.text_stream:
                received.append(text)  # noqa: PERF401 - the error would lose what a comprehension has
    assert seen.value.type == "overloaded_error"
    assert "".join(received) == TEXT[: 2 * 24]


async def test_an_error_event_ends_an_openai_stream(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script(Turn(TEXT, faults=[ErrorEvent(kind="server", message="It broke.")]))
    with pytest.raises(openai.APIError, match=r"It broke\."):
        await stream_gpt(gpt)
    assert server.exchanges[0].answer.outcome == "broken"


async def test_without_streaming_an_error_event_is_an_error_status(
    server: ModelServer, claude: AsyncAnthropic
) -> None:
    server.script(Turn(TEXT, faults=[ErrorEvent()]))
    with pytest.raises(anthropic.InternalServerError, match="Overloaded"):
        await ask_claude(claude)


async def test_a_dripping_answer_arrives_whole(
    server: ModelServer, claude: AsyncAnthropic, gpt: AsyncOpenAI
) -> None:
    text = "Grüße aus Zürich 🏔"
    turn = Turn(text, faults=[Drip(delay_ms=1, piece_bytes=7)])
    server.script(turn, turn, turn, turn)
    assert await stream_claude(claude) == text
    assert await ask_claude(claude) == text
    assert await stream_gpt(gpt) == text
    assert await ask_gpt(gpt) == text


async def test_faults_combine(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script(Turn(TEXT, faults=[Cut(after_deltas=2), Stall(ms=200, after_deltas=1), Drip(delay_ms=1)]))
    started = time.monotonic()
    with pytest.raises(openai.APIConnectionError):
        await stream_gpt(gpt)
    assert time.monotonic() - started >= 0.2


async def test_a_fault_after_the_last_content_still_happens(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script(Turn("short", faults=[Cut(after_deltas=99)]))
    with pytest.raises(openai.APIConnectionError):
        await stream_gpt(gpt)
    assert b"short" in server.exchanges[0].answer.sent


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("weather", '{"city": '),
        ToolCall("weather", {"city": 5}),
        ToolCall("no_such_tool", {"city": "Bern"}),
    ],
    ids=["invalid JSON", "wrong type", "unknown tool"],
)
async def test_wrong_calls_reach_the_openai_client_unchanged(
    server: ModelServer, gpt: AsyncOpenAI, call: ToolCall
) -> None:
    server.script(Turn(tool_calls=[call]))
    answer = await gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    seen = (answer.choices[0].message.tool_calls or [])[0].model_dump()["function"]
    assert seen == {"name": call.name, "arguments": call.arguments_json}


async def test_what_is_not_scripted_is_told_and_not_retried(server: ModelServer) -> None:
    async with (
        AsyncAnthropic(base_url=server.url, api_key="k", max_retries=3) as claude,
        AsyncOpenAI(base_url=server.openai_url, api_key="k", max_retries=3) as gpt,
    ):
        with pytest.raises(anthropic.APIStatusError, match=r"Nothing is scripted for request 1 .*'Hi'"):
            await ask_claude(claude)
        with pytest.raises(openai.APIStatusError, match="Nothing is scripted for request 2"):
            await ask_gpt(gpt)
    assert len(server.requests) == 2
    with pytest.raises(AssertionError, match=r"not scripted: request 1 \(/v1/messages, model 'm'"):
        server.assert_exhausted()


async def test_a_body_that_is_not_json_is_refused(server: ModelServer, claude: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="not valid JSON"):
        await claude.post("/v1/messages", content=b"{", cast_to=Message)
    assert server.requests[0].body == b"{"
