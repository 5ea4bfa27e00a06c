"""Prices: the owner's own before the public list, and which models have none."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.usage import RequestUsage

from agent_runs import Run
from nexus.broker.agent import prices
from nexus.config import BudgetsConfig, Config, ModelsConfig, PriceConfig, ProviderConfig
from nexus.testing import ModelServer

_PRICE = PriceConfig(fresh_usd=3, cached_usd=0.3, output_usd=15)


def _config(**changes: Any) -> Config:
    given = Config(
        models=ModelsConfig(manager=("far/large", "openai/gpt-4.1"), fast=("ollama/qwen3",)),
        providers={**Config().providers, "far": ProviderConfig(base_url="https://models.example/v1")},
    )
    return replace(given, **changes)


def test_a_price_of_ones_own_counts_each_kind_of_token() -> None:
    usage = RequestUsage(input_tokens=1_000, cache_read_tokens=700, cache_write_tokens=100, output_tokens=10)
    cost = prices.cost_microusd(usage, model="large", base_url="https://models.example/v1", price=_PRICE)
    assert cost == 300 * 3 + 700 * 0.3 + 10 * 15


def test_a_price_of_ones_own_wins_over_the_public_list() -> None:
    usage = RequestUsage(input_tokens=1_000_000, output_tokens=1_000_000)
    asked: dict[str, Any] = {"model": "claude-opus-5", "base_url": "https://api.anthropic.com"}
    assert prices.cost_microusd(usage, **asked, price=PriceConfig()) == 0
    assert prices.cost_microusd(usage, **asked)


@pytest.mark.parametrize(
    ("changes", "unpriced"),
    [
        ({}, ["far/large"]),
        ({"prices": {"far/large": PriceConfig()}}, []),
        ({"budgets": BudgetsConfig(day_usd=1)}, ["far/large"]),
        ({"budgets": BudgetsConfig(request_usd=0, day_tokens=9)}, []),
        ({"models": ModelsConfig()}, []),
    ],
)
def test_the_models_that_a_budget_in_money_cannot_limit_are_known(
    changes: dict[str, Any], unpriced: list[str]
) -> None:
    assert list(prices.list_unpriced(_config(**changes))) == unpriced


class _Priced(Run):
    """A run of a home that has a price for its model."""

    @property
    def config(self) -> Config:
        return replace(super().config, prices={self.name: _PRICE})


async def test_what_is_reserved_and_billed_goes_by_the_owners_price(tmp_path: Path) -> None:
    with ModelServer() as server:
        server.script("Snow.")
        run = _Priced(server, tmp_path, provider={"api_key": ""})
        await run()
    (attempt,), (estimate,) = run.journal.attempts, run.journal.estimates
    fresh = attempt.input_tokens + attempt.cache_write_tokens
    cost = fresh * 3 + attempt.cache_read_tokens * 0.3 + attempt.output_tokens * 15
    assert attempt.cost_microusd == round(cost)
    assert estimate.cost_microusd is not None
    assert estimate.cost_microusd > cost


def test_an_estimate_leaves_the_agent_library_to_its_own_thread() -> None:
    program = (
        "import sys\n"
        "from nexus.broker.agent.prices import estimate_microusd\n"
        "from nexus.config import Config\n"
        "assert estimate_microusd(Config(), 'openai/gpt-4.1', input_tokens=1_000, output_tokens=10)\n"
        "assert 'pydantic_ai' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
