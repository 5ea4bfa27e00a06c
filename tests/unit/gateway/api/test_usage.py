"""What the API and its client tell about money: what was spent, what may be, and what was refused."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from gateways import app_for_gateway, gateway_on
from nexus.app import App
from nexus.cli.usage import usage
from nexus.client import Client
from nexus.config import BudgetsConfig
from nexus.errors import NexusError
from nexus.home import Home
from nexus.testing import ModelServer


async def test_budgets_and_what_they_refused_are_told(home: Home) -> None:
    async with ModelServer() as server:
        server.script("Yes", "Never said")
        config = replace(
            app_for_gateway(home, server).config, budgets=BudgetsConfig(day_tokens=10, month_usd=5)
        )
        async with (
            App(home, config) as app,
            gateway_on(app) as http,
            Client(str(http.base_url), home.token()) as client,
        ):
            asked = await client.receive("Is it day?")
            await asked.run.result()
            refused = await client.receive("Still?", session_label="another")
            with pytest.raises(NexusError, match="per day is used up"):
                await refused.run.result()
            told = await client.usage(days=2, messages=1)
    day, month = told.budgets
    assert (day.setting, day.unit, day.most, day.is_used_up) == ("day_tokens", "tokens", 10, True)
    assert (month.setting, month.used, month.is_used_up) == ("month_usd", 0, False)
    (hit,) = told.hits
    assert (hit.budget, hit.request_id) == ("day", refused.request_id)
    assert hit.used == day.used > 10
    assert [(each.request_id, each.asked) for each in told.messages] == [(asked.request_id, "Is it day?")]
    assert told.unlimited_models == ()  # a local model is free
    assert (len(told.days), told.total.calls) == (2, 1)


def test_the_command_tells_the_same_to_a_program(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_BUDGETS_DAY_TOKENS", "9")
    told = json.loads(CliRunner().invoke(usage, ["--json"], obj=str(home.root)).stdout)
    assert [each["setting"] for each in told["budgets"]] == ["day_tokens"]
    assert (told["hits"], told["messages"], told["unlimited_models"]) == ([], [], [])
