"""Chains of models: who is asked when one fails, in one run and when it is resumed, and who is billed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_runs import Run
from nexus.config import Config, ProviderConfig
from nexus.errors import ModelRefusedError
from nexus.testing import Hold, HttpError, ModelServer, ToolCall, Turn


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@dataclass
class ChainRun(Run):
    """A run whose first model speaks Anthropic's format, the second OpenAI's, the third Google's."""

    names: tuple[str, ...] = ("claude/first", "gpt/second", "gemini/gemini-third")

    @property
    def config(self) -> Config:
        common: dict[str, Any] = {"api_key": "env:KEY", "max_retries": 0}
        return Config(
            providers={
                "claude": ProviderConfig(kind="anthropic", base_url=self.server.url, **common),
                "gpt": ProviderConfig(kind="openai", base_url=self.server.openai_url, **common),
                "gemini": ProviderConfig(kind="google", base_url=self.server.url, **common),
            }
        )


pytestmark = pytest.mark.filterwarnings("ignore:invalid escape sequence")
CALL = Turn("", [ToolCall("look", {"city": "Bern"})])


@pytest.mark.parametrize("failure", ["overloaded", "authentication", "not_found", "quota", "server"])
async def test_next_model_answers_and_the_reason_is_kept(
    server: ModelServer, tmp_path: Path, failure: Any
) -> None:
    server.when(model="first").always(HttpError(failure))
    server.when(model="second").script("It snows.")
    run = ChainRun(server, tmp_path)
    outcome = await run()
    assert (outcome.text, outcome.model) == ("It snows.", "second")
    failed, answered = run.journal.attempts
    assert (failed.provider, failed.model, failed.output_tokens) == ("claude", "first", 0)
    assert failed.error
    assert (answered.provider, answered.model, answered.error) == ("gpt", "second", None)
    assert answered.input_tokens > 0


async def test_run_stays_with_the_model_that_answered(server: ModelServer, tmp_path: Path) -> None:
    server.when(model="first").always(HttpError("overloaded"))
    server.when(model="second").script(CALL, CALL, "It snows.")
    await ChainRun(server, tmp_path)()
    assert [request.model for request in server.requests] == ["first", "second", "second", "second"]


async def test_failure_of_the_second_goes_back_to_the_first(server: ModelServer, tmp_path: Path) -> None:
    server.when(model="first").script(HttpError("overloaded"), "It snows.")
    server.when(model="second").script(CALL, HttpError("overloaded"))
    outcome = await ChainRun(server, tmp_path)()
    assert outcome.model == "first"
    assert [request.model for request in server.requests] == ["first", "second", "second", "first"]


async def test_resumed_run_goes_on_with_the_model_that_answered(server: ModelServer, tmp_path: Path) -> None:
    server.when(model="first").always(HttpError("overloaded"))
    server.when(model="second").script(CALL, Turn("It", faults=[Hold(gate="crash")]), "It snows.")
    run = ChainRun(server, tmp_path)
    crashing = asyncio.ensure_future(run())
    await server.until(lambda: server.gate("crash").waiting)
    crashing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await crashing
    before = len(server.requests)
    outcome = await run()
    assert outcome.text == "It snows."
    assert [request.model for request in server.requests[before:]] == ["second"]


async def test_history_of_one_provider_is_understood_by_the_next(server: ModelServer, tmp_path: Path) -> None:
    server.when(model="first").script(CALL, HttpError("server"))
    server.when(model="second").always(HttpError("server"))
    server.when(model="gemini-third").script(CALL, "It snows.")
    outcome = await ChainRun(server, tmp_path)("How is Bern?")
    assert outcome.text == "It snows."
    assert "Bern: snow" in server.requests[-1].tool_results[0]


async def test_chain_that_refuses_as_a_whole_says_each_reason(server: ModelServer, tmp_path: Path) -> None:
    server.always(HttpError("invalid_request", message="bad request"))
    with pytest.raises(ModelRefusedError) as refused:
        await ChainRun(server, tmp_path)()
    for name in ("claude/first", "gpt/second", "gemini/gemini-third"):
        assert f"- {name}: 400 bad request" in str(refused.value)
