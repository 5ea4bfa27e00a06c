"""Models by name: which are asked in which role, with which key, and what is said where none can be."""

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_runs import KEY, Run
from nexus.broker.agent.models import Models
from nexus.config import Config, ModelsConfig, ProviderConfig
from nexus.errors import ConfigError, SecretError
from nexus.testing import ModelServer


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(keys=[KEY]) as server:
        yield server


@pytest.mark.parametrize(
    ("settings", "role", "wanted"),
    [
        ({"manager": ("a/m",)}, "manager", ("a/m",)),
        ({"manager": ("a/m",)}, "worker", ("a/m",)),
        ({"manager": ("a/m",), "worker": ("a/w",)}, "worker", ("a/w",)),
        ({"manager": ("a/m",), "worker": ("a/w",)}, "fast", ("a/w",)),
        ({"manager": ("a/m",), "worker": ("a/w",)}, "writer", ("a/m",)),
        ({"manager": ("a/m",), "worker": ("a/w",)}, "consolidation", ("a/m",)),
        ({"manager": ("a/m",), "writer": ("a/s", "manager")}, "writer", ("a/s", "a/m")),
        ({"manager": ("a/m",), "writer": ("a/s",)}, "consolidation", ("a/s",)),
        ({"manager": ("a/m",), "writer": ("a/s", "a/t")}, "writer", ("a/s", "a/t")),
        ({"manager": ("a/m",), "worker": ("a/w",)}, "memory-reader", ("a/w",)),
    ],
)
def test_a_role_without_models_of_its_own_uses_anothers(
    settings: dict[str, Any], role: str, wanted: tuple[str, ...]
) -> None:
    assert Models(Config(models=ModelsConfig(**settings))).names(role) == wanted


@pytest.mark.parametrize("role", ["writer", "consolidation"])
@pytest.mark.parametrize("writer", [("none",), ()])
def test_a_memory_that_is_off_uses_no_model(role: str, writer: tuple[str, ...]) -> None:
    models = Models(Config(models=ModelsConfig(manager=("a/m",), worker=("a/w",), writer=writer)))
    with pytest.raises(ConfigError, match="The memory writer is off") as caught:
        models.names(role)
    assert "writer = " in caught.value.hint


def test_without_any_model_it_is_said_what_to_write_where() -> None:
    with pytest.raises(ConfigError) as caught:
        Models(Config()).names("manager")
    assert "[models] in config.toml" in caught.value.hint
    assert "ANTHROPIC_API_KEY" in caught.value.hint


async def test_a_missing_key_is_asked_for_by_its_variable() -> None:
    async with Models(Config(), {}) as models:
        with pytest.raises(SecretError) as caught:
            await models.candidates(("anthropic/claude-opus-5",))
    assert "ANTHROPIC_API_KEY" in str(caught.value)


async def test_a_model_whose_key_is_missing_is_left_out_while_there_is_another_and_the_log_tells_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = ("anthropic/claude-opus-5", "openai/gpt-4.1", "ollama/qwen3")
    async with Models(Config(), {"OPENAI_API_KEY": KEY}) as models:
        found = await models.candidates(names)
        await models.candidates(names)
    assert [candidate.name for candidate in found] == ["openai/gpt-4.1", "ollama/qwen3"]
    told = [(record.message, record.__dict__["model"]) for record in caplog.records]
    assert told == [("a model is left out", "anthropic/claude-opus-5")]


@pytest.mark.parametrize("name", ["claude-opus-5", "anthropic/", "nowhere/model", ""])
async def test_a_name_that_is_none_is_refused_with_what_is_known(name: str) -> None:
    async with Models(Config(), {}) as models:
        with pytest.raises(ConfigError) as caught:
            await models.candidates((name,))
    assert "anthropic, openai, google" in caught.value.hint


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
@pytest.mark.parametrize("setting", ["api_key", "auth_token"])
async def test_a_key_and_a_bearer_token_reach_the_provider(
    server: ModelServer, tmp_path: Path, wire: str, setting: str
) -> None:
    server.script("Hello.")
    headers = {"x-team": "Team env:KEY", "x-plain": "blue"}
    place = {"api_key": "", setting: "env:KEY", "headers": headers}
    run = Run(server, tmp_path, wire, provider=place)
    assert (await run()).text == "Hello."
    sent = server.requests[0].headers
    assert (sent["x-team"], sent["x-plain"]) == (f"Team {KEY}", "blue")
    if setting == "auth_token":
        assert sent["authorization"] == f"Bearer {KEY}"


async def test_a_server_that_needs_no_key(tmp_path: Path) -> None:
    async with ModelServer() as server:
        server.script("Hello.")
        run = Run(server, tmp_path, "openai", provider={"api_key": ""})
        assert (await run()).text == "Hello."


async def test_clients_are_made_once_for_each_provider(server: ModelServer) -> None:
    config = Config(providers={"here": ProviderConfig(base_url=server.openai_url)})
    async with Models(config, {}) as models:
        one, two = await models.candidates(("here/one", "here/two"))
        (again,) = await models.candidates(("here/one",))
    assert one.model.provider is two.model.provider is again.model.provider


def test_what_a_model_cost_goes_by_the_address_and_is_unknown_rather_than_wrong() -> None:
    from pydantic_ai.usage import RequestUsage

    from nexus.broker.agent import prices

    usage = RequestUsage(input_tokens=1_000_000, output_tokens=100_000)
    claude = partial(prices.cost_microusd, model="claude-opus-5")
    known = claude(usage, base_url="https://api.anthropic.com")
    assert known is not None
    assert known > 1_000_000
    cheaper = claude(replace(usage, cache_read_tokens=900_000), base_url="https://api.anthropic.com")
    assert cheaper is not None
    assert cheaper < known
    assert claude(usage, base_url="http://127.0.0.1") is None
    assert prices.cost_microusd(usage, model="qwen3", base_url="https://api.openai.com/v1/") is None


@pytest.mark.parametrize(
    ("provider", "model"),
    [(ProviderConfig(kind="anthropic"), "claude-opus-5"), (ProviderConfig(kind="openai"), "gpt-4.1")],
    ids=["anthropic", "openai"],
)
async def test_a_provider_without_an_address_in_the_settings_has_prices(
    provider: ProviderConfig, model: str
) -> None:
    from pydantic_ai.usage import RequestUsage

    from nexus.broker.agent import prices

    config = Config(providers={"mine": replace(provider, api_key="env:KEY")})
    async with Models(config, {"KEY": "k"}) as models:
        (candidate,) = await models.candidates((f"mine/{model}",))
        address = candidate.model.base_url or ""
    assert prices.cost_microusd(RequestUsage(input_tokens=1_000), model=model, base_url=address)
