"""Every kind of provider, in its own wire format: a tool call, its result and the answer, streamed."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_runs import KEY, Run
from nexus.broker.agent.models import Models
from nexus.config import Config, ModelsConfig, ProviderConfig
from nexus.errors import ConfigError, ModelError
from nexus.testing import HttpError, ModelServer, ToolCall, Turn

# A file of Google's library, when it is compiled.
pytestmark = pytest.mark.filterwarnings("ignore:invalid escape sequence")


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


_NAMES = {"google": "it/gemini-3-pro", "openrouter": "it/meta-llama/llama-3.3-70b"}


@dataclass
class ProviderRun(Run):
    """A run on one provider of a kind."""

    kind: Any = "openai"
    path: str = ""

    @property
    def name(self) -> str:
        return _NAMES.get(self.kind, "it/some-model")

    @property
    def config(self) -> Config:
        provider = ProviderConfig(
            kind=self.kind,
            base_url=f"{self.server.url}{self.path}",
            api_key="env:KEY",
            headers={"x-team": "frogs"},
            max_retries=0,
        )
        return Config(models=ModelsConfig(manager=(self.name,)), providers={"it": provider})


KINDS = {
    "anthropic": "",
    "openai": "/v1",
    "google": "",
    "mistral": "/mistral",
    "groq": "/groq",
    "openrouter": "/v1",
    "azure": "/openai/v1",
}


@pytest.mark.parametrize("kind", KINDS)
async def test_run_with_a_tool_goes_through(server: ModelServer, tmp_path: Path, kind: str) -> None:
    run = ProviderRun(server, tmp_path, kind=kind, path=KINDS[kind])
    server.script(Turn("Let me look.", [ToolCall("weather", {"city": "Bern"})]), "It snows in Bern.")
    outcome = await run()
    assert outcome.text == "It snows in Bern."
    first, second = server.requests
    assert first.key == KEY
    assert first.headers["x-team"] == "frogs"
    assert first.stream
    assert "You know the weather." in first.system
    assert set(first.tool_names) == {"weather", "look"}
    assert "Bern: snow" in second.tool_results[0]
    assert "".join(delta.text for delta in await run.deltas() if delta.kind == "text").endswith(outcome.text)
    assert run.journal.bill == run.server_bill


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("failure", "told"),
    [
        ("authentication", "Put a valid API key in env:KEY"),
        ("not_found", "Fix the name `it/"),
        ("overloaded", "Try again later"),
    ],
)
async def test_failure_says_what_to_do(
    server: ModelServer, tmp_path: Path, kind: str, failure: Any, told: str
) -> None:
    server.always(HttpError(failure))
    with pytest.raises(ModelError) as failed:
        await ProviderRun(server, tmp_path, kind=kind, path=KINDS[kind])()
    assert told in failed.value.hint


async def test_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "groq", None)
    monkeypatch.delitem(__import__("sys").modules, "nexus.broker.agent.clients.groq", raising=False)
    async with Models(Config(), {"GROQ_API_KEY": KEY}) as models:
        with pytest.raises(ConfigError, match="is not installed") as refused:
            await models.candidates(("groq/llama-3.3-70b-versatile",))
    assert refused.value.hint == "Run `pip install 'nexus-runtime[groq]'`."


async def test_azure_without_an_address_says_so() -> None:
    async with Models(Config(), {"AZURE_OPENAI_API_KEY": KEY}) as models:
        with pytest.raises(ConfigError, match="azure_endpoint"):
            await models.candidates(("azure/gpt-5",))


@pytest.mark.parametrize("name", ["ollama", "lmstudio", "llamacpp", "vllm"])
async def test_local_servers_are_known_without_a_section(name: str) -> None:
    async with Models(Config(), {}) as models:
        (candidate,) = await models.candidates((f"{name}/qwen3",))
    assert candidate.config.base_url.startswith("http://localhost:")
