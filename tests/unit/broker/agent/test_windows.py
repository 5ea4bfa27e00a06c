"""A model's window is known or learned, and no conversation is stuck because of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError

from agent_runs import Run
from nexus.broker.agent import fitting, knowledge
from nexus.broker.agent.clients import Opening
from nexus.broker.agent.errors import find_overflow, is_loading, refuses_tools
from nexus.broker.agent.message_json import dump_note, dump_question, load_message
from nexus.broker.agent.records import Limits
from nexus.errors import ModelRefusedError
from nexus.ledgers.runtime.models import Capabilities
from nexus.testing import HttpError, ModelRequest, ModelServer, ToolCall, Turn

OVERFLOWS = {
    "llama.cpp": (
        400,
        {
            "error": {
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 5210,
                "n_ctx": 4096,
            }
        },
        (4096, 5210),
    ),
    "vllm": (
        400,
        {
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5300 "
            "tokens (4276 in the messages, 1024 in the completion)."
        },
        (4096, 4276),
    ),
    "openai": (
        400,
        {
            "code": "context_length_exceeded",
            "message": "This model's maximum context length is 128000 tokens. However, your messages "
            "resulted in 131072 tokens.",
        },
        (128_000, 131_072),
    ),
    "anthropic": (
        400,
        {"error": {"message": "prompt is too long: 210233 tokens > 200000 maximum"}},
        (200_000, 210_233),
    ),
    "lm_studio": (
        400,
        "Trying to keep the first 5012 tokens when context the overflows. However, the model is loaded with "
        "context length of only 4096 tokens, which is not enough.",
        (4096, 5012),
    ),
    "gemini": (
        400,
        {
            "message": "The input token count (1200000) exceeds the maximum number of tokens allowed "
            "(1048576)."
        },
        (1_048_576, 1_200_000),
    ),
    "wordless": (400, {"message": "prompt is too long"}, (None, None)),
}


@pytest.mark.parametrize(("status", "body", "told"), OVERFLOWS.values(), ids=OVERFLOWS)
def test_an_overflow_tells_the_window_in_each_servers_words(
    status: int, body: object, told: tuple[int | None, int | None]
) -> None:
    found = find_overflow(ModelHTTPError(status, "m", body))
    assert found is not None
    assert (found.context_tokens, found.prompt_tokens) == told


@pytest.mark.parametrize("message", ["invalid image", "unknown parameter: context", "Bad Request"])
def test_other_refusals_are_no_overflow(message: str) -> None:
    assert find_overflow(ModelHTTPError(400, "m", {"message": message})) is None


def test_loading_and_missing_tools_are_told_apart() -> None:
    loading = ModelHTTPError(503, "m", {"error": {"message": "Loading model", "code": 503}})
    no_tools = ModelHTTPError(400, "m", {"error": {"message": "gemma:2b does not support tools"}})
    assert (is_loading(loading), refuses_tools(loading)) == (True, False)
    assert (is_loading(no_tools), refuses_tools(no_tools)) == (False, True)


def test_a_prompt_is_shortened_from_its_oldest_part_on() -> None:
    past = [
        text
        for number in range(8)
        for text in (dump_question(f"Question {number}"), dump_note("Answer. " * 100))
    ]
    messages = [load_message(text) for text in (*past, dump_question("And now?"))]
    short = fitting.fit_messages(messages, 1, 3_000)
    assert fitting.length_bytes(short) <= 3_000
    said = str(short)
    assert "- Question 0" in said, "what is left out is named"
    assert "And now?" in said
    assert fitting.fit_messages(messages, 1, 10**6) is messages


@pytest.fixture
def made(server: ModelServer, tmp_path: Path) -> Callable[..., Run]:
    def make(**changes: Any) -> Run:
        return Run(server, tmp_path / "streams", wire="openai", **changes)

    return make


@pytest.fixture
def server() -> Any:
    with ModelServer() as server:
        yield server


def _small(request: ModelRequest) -> Turn | HttpError:
    if request.prompt.tokens <= 1_000:
        return Turn("It fits.")
    message = (
        f"This model's maximum context length is 1000 tokens, and the messages resulted in "
        f"{request.prompt.tokens} tokens."
    )
    return HttpError("invalid_request", message=message)


async def test_an_overflow_is_learned_from_and_the_call_repeated_once(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.always(_small)
    past = [
        text
        for number in range(8)
        for text in (dump_question(f"Question {number}"), dump_note("word " * 200))
    ]
    run = made(history=past, limits=Limits(output_tokens=64))
    assert (await run()).text == "It fits."
    assert len(server.requests) == 2
    assert server.requests[1].json["max_tokens"] == 64


async def test_what_cannot_be_shortened_is_refused_with_a_hint_at_the_setting(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.always(_small)
    with pytest.raises(ModelRefusedError, match="context_tokens"):
        await made(limits=Limits(output_tokens=64))("word " * 2_000)
    assert len(server.requests) <= 2


async def test_the_length_of_an_answer_is_limited(made: Callable[..., Run], server: ModelServer) -> None:
    server.script("Short.")
    await made(limits=Limits(output_tokens=512))()
    assert server.requests[0].json["max_tokens"] == 512


@pytest.mark.parametrize(
    ("wire", "name", "asked_for"),
    [
        ("anthropic", "anthropic/claude-opus-5", {"max_tokens": 300, "thinking": {"type": "disabled"}}),
        ("openai", "openai/gpt-5.1", {"max_tokens": 300, "reasoning_effort": "none"}),
        ("openai", "openai/gpt-4.1", {"max_tokens": 300}),
    ],
)
async def test_a_brief_answer_is_asked_for_without_thinking(
    server: ModelServer, tmp_path: Path, wire: str, name: str, asked_for: dict[str, Any]
) -> None:
    server.script("2, 5")
    await Run(server, tmp_path, wire=wire, names=(name,), limits=Limits(output_tokens=300, thinks=False))()
    sent = server.requests[0].json
    settings = {"max_tokens", "thinking", "reasoning_effort"}
    assert {key: value for key, value in sent.items() if key in settings} == asked_for


def test_a_model_that_may_not_think_gets_no_room_for_it() -> None:
    known = Capabilities(reasoning=True)
    assert fitting.room(known, 300, thinks=False).output_tokens == 300
    assert fitting.room(known, 300).output_tokens == 1_200


async def test_an_answer_that_repeats_itself_is_cut_off_and_marked(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script(Turn("It begins well. " + "And then again. " * 1_000))
    run = made()
    text = (await run()).text
    assert text.startswith("It begins well. And then again")
    assert text.endswith("[Cut off: the model began to repeat itself.]")
    assert len(text) < 200
    assert run.journal.attempts[0].estimated
    deltas = await run.deltas()
    withdrawn = next(n for n, delta in enumerate(deltas) if delta.kind == "restart")
    assert deltas[withdrawn].text == "the model began to repeat itself"
    assert any(delta.kind == "text" for delta in deltas[:withdrawn]), "it was streamed until then"
    assert "".join(delta.text for delta in deltas[withdrawn + 1 :] if delta.kind == "text") == text


async def test_repeated_thinking_takes_nothing_from_the_answer(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script(Turn("Here it is.", thinking="Let me see. " * 1_000))
    run = made()
    assert (await run()).text.strip() == "[Cut off: the model began to repeat itself.]"
    deltas = await run.deltas()
    withdrawn = next(n for n, delta in enumerate(deltas) if delta.kind == "restart")
    thought = "".join(delta.text for delta in deltas[withdrawn:] if delta.kind == "thinking")
    assert thought.startswith("Let me see.")
    assert len(thought) < 100


async def test_a_server_that_loads_its_model_is_waited_for(
    made: Callable[..., Run], server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexus.broker.agent.asking._LOADING_PAUSE_S", 0.01)
    loading = HttpError("overloaded", message="Loading model")
    server.script(*[loading] * 6, "Here I am.")
    assert (await made(provider={"max_retries": 0})()).text == "Here I am."


async def test_a_server_without_tools_gets_them_in_words(
    made: Callable[..., Run], server: ModelServer
) -> None:
    def answer(request: ModelRequest) -> Turn | HttpError:
        if request.tool_names:
            return HttpError("invalid_request", message="gemma:2b does not support tools")
        if "Bern: snow" in str(request.json["messages"]):
            return Turn("It snows in Bern.")
        assert "weather(city, days?)" in request.system
        return Turn('{"name": "weather", "arguments": {"city": "Bern"}}')

    server.always(answer)
    run = made()
    assert (await run()).text == "It snows in Bern."
    assert len(server.requests) == 3, "it is refused once, and not again"


async def test_a_call_written_as_text_is_made_and_not_shown(
    made: Callable[..., Run], server: ModelServer
) -> None:
    server.script(
        'I will look.\n```json\n{"name": "weather", "arguments": {"city": "Bern", "days": null}}\n```',
        "It snows.",
    )
    run = made()
    assert (await run()).text == "It snows."
    deltas = await run.deltas()
    shown = "".join(delta.text for delta in deltas if delta.kind == "text")
    assert "weather" not in shown
    assert shown.startswith("I will look.")
    assert [delta.tool for delta in deltas if delta.kind == "tool_call"] == ["weather"]
    assert [call.tool for call, *_ in run.journal.calls.values()] == ["weather"]


async def test_json_that_is_no_call_is_an_answer(made: Callable[..., Run], server: ModelServer) -> None:
    text = '{"name": "Bern", "arguments": "none"}'
    server.script(text)
    run = made()
    assert (await run()).text == text
    assert "".join(delta.text for delta in await run.deltas() if delta.kind == "text") == text


async def test_native_calls_stay_as_they_are(made: Callable[..., Run], server: ModelServer) -> None:
    server.script(Turn("Looking.", [ToolCall("weather", {"city": "Bern"})]), "It snows.")
    assert (await made()()).text == "It snows."


async def test_a_server_is_asked_about_its_model(server: ModelServer) -> None:
    told = await knowledge.probe(
        Opening(base_url=server.openai_url, api_key=None, auth_token=None, headers={}), "small"
    )
    assert told == Capabilities(), "it says nothing about windows"
    gone = Opening(base_url="http://127.0.0.1:9/v1", api_key=None, auth_token=None, headers={})
    assert await knowledge.probe(gone, "small") is None
