"""Which answer a request gets."""

from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from nexus.errors import UsageError
from nexus.testing import (
    Cut,
    HttpError,
    ModelRequest,
    ModelServer,
    Pace,
    RetryAfter,
    Silence,
    ToolCall,
    Turn,
    Usage,
    echo,
    failures,
)
from nexus.testing.model_server.script import Script, load, step


async def _ask(client: AsyncOpenAI, text: str = "Hi", *, model: str = "m", **more: Any) -> str:
    create: Any = client.chat.completions.create
    answer = await create(
        model=model,
        messages=[{"role": "system", "content": "You are Nexus."}, {"role": "user", "content": text}],
        **more,
    )
    return answer.choices[0].message.content or ""


async def test_steps_are_taken_in_order(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script("one", Turn("two")).script(lambda request: "three")
    assert [await _ask(gpt) for _ in range(3)] == ["one", "two", "three"]
    server.assert_exhausted()


async def test_rules_come_before_the_common_queue_and_in_their_order(
    server: ModelServer, gpt: AsyncOpenAI
) -> None:
    server.script("common")
    server.when(model="fast").script("first of fast").always("always fast")
    server.when(model="fast").script("never reached")
    answers = [await _ask(gpt, model="fast"), await _ask(gpt, model="fast"), await _ask(gpt, model="slow")]
    assert answers == ["first of fast", "always fast", "common"]
    with pytest.raises(AssertionError, match="never asked for: 'never reached'"):
        server.assert_exhausted()


async def test_a_rule_matches_on_every_given_point(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.always("no rule")
    server.when(last_user="Tyler", system="Nexus", wire="openai").script("by text")
    server.when(headers={"X-Role": "writer"}).script("by header")
    server.when(tool="recall").script("by tool")
    server.when(lambda request: request.last_user.isupper(), model="m").script("by callable")
    server.when(wire="anthropic").script("by wire")
    tool = {"type": "function", "function": {"name": "recall"}}
    assert await _ask(gpt, "What about Tyler's birthday?") == "by text"
    assert await _ask(gpt, extra_headers={"x-role": "writer"}) == "by header"
    assert await _ask(gpt, tools=[tool]) == "by tool"
    assert await _ask(gpt, "LOUD") == "by callable"
    assert await _ask(gpt, "quiet") == "no rule"


async def test_a_rule_without_steps_left_lets_the_next_one_answer(
    server: ModelServer, gpt: AsyncOpenAI
) -> None:
    server.when(model="m").script("once")
    server.script("then this")
    assert [await _ask(gpt), await _ask(gpt)] == ["once", "then this"]


async def test_echo_says_what_the_user_said(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.always(echo)
    assert await _ask(gpt, "Polly wants a cracker") == "Polly wants a cracker"
    server.assert_exhausted()


async def test_fail_twice_then_answer(server: ModelServer) -> None:
    server.script(*[failures.overloaded(1)] * 2, "third time")
    async with AsyncOpenAI(base_url=server.openai_url, api_key="k", max_retries=2) as client:
        assert await _ask(client) == "third time"
    assert [exchange.answer.status for exchange in server.exchanges] == [503, 503, 200]


async def test_a_step_that_raises_is_told_and_reported(server: ModelServer, gpt: AsyncOpenAI) -> None:
    def broken(request: ModelRequest) -> str:
        raise LookupError("no such page")

    server.script(broken)
    with pytest.raises(openai.APIStatusError, match="no such page"):
        await _ask(gpt)
    with pytest.raises(AssertionError, match="not scripted: request 1"):
        server.assert_exhausted()


async def test_reset_forgets_everything(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.script("one", "two")
    await _ask(gpt)
    server.reset()
    assert server.records == []
    server.assert_exhausted()
    with pytest.raises(openai.APIStatusError, match="Nothing is scripted"):
        await _ask(gpt)


def test_every_kind_of_step_can_be_written_as_json() -> None:
    assert step("Hello") == "Hello"
    assert step({"responder": "echo"}) is echo
    assert step({"silence": {"hold_ms": 5}}) == Silence(5)
    assert step({"error": {"kind": "rate_limit", "retry_after": {"ms": 1500, "form": "date"}}}) == HttpError(
        "rate_limit", retry_after=RetryAfter(ms=1500, form="date")
    )
    assert step(
        {
            "text": "Hi",
            "tool_calls": [{"name": "recall", "arguments": {"query": "Tyler"}}],
            "thinking": "Hm.",
            "stop_reason": "max_tokens",
            "usage": {"input_tokens": 3},
            "pace": {"between_ms": 2},
            "faults": [{"cut": {"after_deltas": 2}}],
        }
    ) == Turn(
        "Hi",
        [ToolCall("recall", {"query": "Tyler"})],
        thinking="Hm.",
        stop_reason="max_tokens",
        usage=Usage(input_tokens=3),
        pace=Pace(between_ms=2),
        faults=[Cut(after_deltas=2)],
    )


async def test_a_whole_script_can_be_written_as_json(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.load_script(
        {
            "steps": ["common"],
            "rules": [{"when": {"model": "fast"}, "steps": ["fast"], "always": "fast again"}],
            "always": {"responder": "echo"},
        }
    )
    answers = [await _ask(gpt, model=model) for model in ("fast", "fast", "m", "m")]
    assert answers == ["fast", "fast again", "common", "Hi"]


UNREADABLE: list[tuple[Any, str]] = [
    ([], "must be a JSON object"),
    ({"turns": []}, "unknown fields: turns"),
    ({"steps": "Hello"}, "steps of the script must be a JSON list"),
    ({"steps": [{"txet": "Hello"}]}, "txet"),
    ({"steps": [{"faults": [{"explode": {}}]}]}, "unknown fields: explode"),
    ({"steps": [{"faults": [{"cut": {}, "drip": {}}]}]}, "a fault has one name"),
    ({"steps": [{"responder": "parrot"}]}, "no responder 'parrot'"),
    ({"rules": [{"when": {"colour": "red"}}]}, "colour"),
]


@pytest.mark.parametrize(("document", "said"), UNREADABLE)
def test_a_script_that_cannot_be_read_says_where_and_adds_nothing(document: Any, said: str) -> None:
    script = Script()
    with pytest.raises(UsageError, match=said):
        load({"steps": ["fine"], **document} if isinstance(document, dict) else document, script)
    assert script.remaining() == []
