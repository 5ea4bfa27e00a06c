"""Pydantic AI agents with tools against the model server, in both wire formats, streaming and not."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, ModelHTTPError, ModelRetry, NativeOutput, ToolOutput, UnexpectedModelBehavior
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RunUsage

from nexus.testing import BrokenEvent, Cut, ErrorEvent, ModelServer, Step, ToolCall, Turn, Usage, failures

QUESTION = "Where does Sarah live, and what is the weather there?"


@pytest.fixture(params=["anthropic", "openai"])
async def model(
    request: pytest.FixtureRequest, claude: AsyncAnthropic, gpt: AsyncOpenAI
) -> AsyncIterator[Model[Any]]:
    if request.param == "anthropic":
        yield AnthropicModel("claude-opus-5", provider=AnthropicProvider(anthropic_client=claude))
    else:
        yield OpenAIChatModel("gpt-4.1", provider=OpenAIProvider(openai_client=gpt))


@pytest.fixture
def agent(model: Model[Any]) -> Agent[None, str]:
    agent = Agent(model, system_prompt="You know people and the weather.")

    @agent.tool_plain
    def city_of(person: str) -> str:  # pyright: ignore[reportUnusedFunction]
        """The city that a person lives in."""
        return {"Sarah": "Bern"}[person]

    @agent.tool_plain
    def weather(city: str, days: int = 1) -> str:  # pyright: ignore[reportUnusedFunction]
        """The weather in a city."""
        if city == "Atlantis":
            raise ModelRetry("There is no such city.")
        return f"{city}: snow for {days} days"

    return agent


CONVERSATION: list[Step] = [
    Turn(tool_calls=[ToolCall("city_of", {"person": "Sarah"})]),
    Turn("Now the weather.", [ToolCall("weather", {"city": "Bern", "days": 2})]),
    lambda request: Turn(f"Sarah lives in Bern. {request.tool_results[0]}."),
]
ANSWER = "Sarah lives in Bern. Bern: snow for 2 days."


def _billed(usage: RunUsage) -> Usage:
    """An agent's usage in the server's terms: Pydantic AI's input tokens include the cached ones."""
    return Usage(
        input_tokens=usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
        thinking_tokens=usage.output_reasoning_tokens,
    )


async def _streamed(agent: Agent[None, str], question: str) -> tuple[str, RunUsage]:
    async with agent.run_stream(question) as result:
        return await result.get_output(), result.usage


async def _ran(agent: Agent[None, str], question: str) -> tuple[str, RunUsage]:
    result = await agent.run(question)
    return result.output, result.usage


@pytest.mark.parametrize("ask", [_ran, _streamed])
async def test_an_agent_uses_its_tools_and_its_bill_equals_the_servers(
    server: ModelServer, agent: Agent[None, str], ask: Any
) -> None:
    # A streamed run ends at the first text, so the second turn has none.
    middle = Turn(tool_calls=[ToolCall("weather", {"city": "Bern", "days": 2})])
    server.script(CONVERSATION[0], middle if ask is _streamed else CONVERSATION[1], CONVERSATION[2])
    output, usage = await ask(agent, QUESTION)
    assert output == ANSWER
    assert usage.requests == 3
    assert _billed(usage) == server.totals().usage
    assert [request.last_user for request in server.requests] == [QUESTION] * 3
    assert server.requests[1].tool_results == ("Bern",)
    assert server.requests[0].tool_names == ("city_of", "weather")
    server.assert_exhausted()


async def test_calls_in_parallel_are_answered_in_one_request(
    server: ModelServer, agent: Agent[None, str]
) -> None:
    calls = [ToolCall("weather", {"city": city}) for city in ("Bern", "Oslo", "Rome")]
    server.script(Turn(tool_calls=calls), "Snow everywhere.")
    assert (await agent.run(QUESTION)).output == "Snow everywhere."
    assert server.requests[1].tool_results == tuple(f"{c}: snow for 1 days" for c in ("Bern", "Oslo", "Rome"))


@pytest.mark.parametrize(
    "wrong",
    [
        ToolCall("weather", {"city": 5, "days": "many"}),
        ToolCall("no_such_tool", {}),
        ToolCall("weather", {"city": "Atlantis"}),
        ToolCall("weather", '{"city": "Ber'),
    ],
    ids=["wrong types", "unknown tool", "refused by the tool", "invalid JSON"],
)
@pytest.mark.parametrize("ask", [_ran, _streamed])
async def test_a_wrong_call_is_told_to_the_model_which_then_does_better(
    server: ModelServer, agent: Agent[None, str], wrong: ToolCall, ask: Any
) -> None:
    server.script(Turn(tool_calls=[wrong]), Turn(tool_calls=[ToolCall("weather", {"city": "Bern"})]), "Snow.")
    output, usage = await ask(agent, QUESTION)
    assert output == "Snow."
    assert usage.requests == 3
    assert server.requests[2].tool_results == ("Bern: snow for 1 days",)
    assert server.requests[1].tool_results != ("Bern: snow for 1 days",)


class Pick(BaseModel):
    numbers: list[int]


async def test_a_structured_answer_by_a_tool(server: ModelServer, model: Model[Any]) -> None:
    agent = Agent(model, output_type=ToolOutput(Pick, name="pick"))
    server.script("Let me think.", Turn(tool_calls=[ToolCall("pick", {"numbers": [2]})]))
    assert (await agent.run("Which ones?")).output == Pick(numbers=[2])
    assert server.requests[0].tool_names == ("pick",)
    server.assert_exhausted()


async def test_a_structured_answer_by_a_schema(server: ModelServer, model: Model[Any]) -> None:
    agent = Agent(model, output_type=NativeOutput(Pick))
    server.script('{"numbers": "all"}', '{"numbers": [2]}')
    assert (await agent.run("Which ones?")).output == Pick(numbers=[2])
    asked = server.requests[0].json
    form = asked["output_config"]["format"] if "output_config" in asked else asked["response_format"]
    assert form["type"] == "json_schema"


@pytest.mark.parametrize("ask", [_ran, _streamed])
async def test_thinking_goes_back_to_the_model_unharmed(
    server: ModelServer, agent: Agent[None, str], ask: Any
) -> None:
    server.script(Turn(tool_calls=[ToolCall("weather", {"city": "Bern"})], thinking="Hmm, Bern."), "Snow.")
    output, usage = await ask(agent, QUESTION)
    assert output == "Snow."
    assert _billed(usage) == server.totals().usage


@pytest.mark.parametrize("ask", [_ran, _streamed])
@pytest.mark.parametrize(
    "failure",
    [
        failures.rate_limited(),
        failures.overloaded(),
        failures.server_error(),
        failures.unauthorized(),
        failures.out_of_quota(),
    ],
    ids=["rate limit", "overloaded", "server", "key", "quota"],
)
async def test_an_error_status_reaches_the_agent_with_its_status(
    server: ModelServer, agent: Agent[None, str], ask: Any, failure: Any
) -> None:
    server.script(failure)
    with pytest.raises(ModelHTTPError) as seen:
        await ask(agent, QUESTION)
    assert seen.value.status_code == server.exchanges[0].answer.status


@pytest.mark.parametrize("fault", [Cut(), BrokenEvent(), ErrorEvent()], ids=["cut", "broken", "error event"])
@pytest.mark.parametrize("ask", [_ran, _streamed])
async def test_a_fault_inside_an_answer_is_an_error_of_the_model(
    server: ModelServer, agent: Agent[None, str], ask: Any, fault: Any
) -> None:
    server.script(Turn("A text of more than one piece, so that it can break.", faults=[fault]))
    with pytest.raises((ModelAPIError, UnexpectedModelBehavior)):
        await ask(agent, QUESTION)


async def test_an_empty_answer_is_asked_for_again(server: ModelServer, agent: Agent[None, str]) -> None:
    server.script(Turn(), "Something.")
    assert (await agent.run(QUESTION)).output == "Something."


async def test_cached_tokens_of_a_conversation_are_those_of_its_repeated_prefix(
    server: ModelServer, claude: AsyncAnthropic
) -> None:
    model = AnthropicModel("claude-opus-5", provider=AnthropicProvider(anthropic_client=claude))
    settings = AnthropicModelSettings(
        anthropic_cache=True, anthropic_cache_instructions=True, anthropic_cache_tool_definitions=True
    )
    agent = Agent(model, instructions="You are a patient assistant. " * 20, model_settings=settings)

    @agent.tool_plain
    def weather(city: str) -> str:  # pyright: ignore[reportUnusedFunction]
        """The weather in a city."""
        return f"{city}: snow"

    server.script(*[f"Answer {turn}, which is long enough to be worth something." for turn in range(5)])
    result = await agent.run("Hello! Shall we talk about something?")
    for turn in range(1, 5):
        result = await agent.run(f"Question {turn}, if I may?", message_history=result.all_messages())
    usages = [exchange.answer.usage for exchange in server.exchanges]
    assert usages[0].cache_read_tokens == 0
    for earlier, later in zip(server.exchanges, server.exchanges[1:], strict=False):
        assert later.request.prompt.data.startswith(earlier.request.prompt.data)
        assert later.answer.usage.cache_read_tokens == earlier.request.prompt.tokens
        assert later.answer.usage.input_tokens == 0
    assert result.usage.cache_read_tokens == usages[-1].cache_read_tokens
