"""Settings changed in the browser: written where they belong, checked as at a start, never a secret."""

import json
import re
import tomllib
from contextlib import AsyncExitStack
from dataclasses import replace

import httpx
import pytest

from hosts import write_settings
from nexus import config, config_file, secrets
from nexus.app import App
from nexus.config import BudgetsConfig
from nexus.gateway.dependencies import Served
from nexus.gateway.guard import Keys
from nexus.gateway.server import build
from nexus.home import Home
from nexus.testing import ModelServer, Turn, failures
from unit.gateway.dashboard.conftest import URL


async def _seen(client: httpx.AsyncClient) -> str:
    page = (await client.get("/settings")).text
    return re.findall(r'name="seen" value="(\w+)"', page)[0]


async def test_a_setting_is_written_in_its_place_with_its_line(
    client: httpx.AsyncClient, app: App, home: Home
) -> None:
    before = config.template()
    home.config_file.write_text(before)
    given = {"seen": await _seen(client), "day_usd": "5", "request_usd": "10"}
    done = await client.post("/settings/budgets", data=given)
    assert done.headers["location"] == "/settings?saved=1#budgets"
    after = home.config_file.read_text()
    assert after == before.replace("# day_usd = 0.0\n", "day_usd = 5.0\n")
    line = config_file.line_of(after, "budgets", "day_usd")
    page = (await client.get("/settings")).text
    assert f"line {line}" in page
    assert "[budgets] day_usd = 5.0" in page
    assert "This home, a day, in US dollars" in page
    assert "Restart Nexus to apply" in page
    assert "runs: 0" in page
    seconds = {"seen": await _seen(client), "timeout_ms": "2.5", "missed": "skip"}
    await client.post("/settings/automations", data=seconds)
    assert config.load(home.config_file).automations.timeout_ms == 2_500


@pytest.mark.parametrize(
    ("section", "given", "said"),
    [
        ("budgets", {"day_usd": "much"}, "must be a number"),
        ("budgets", {"day_usd": "-1"}, "must be at least 0"),
        ("automations", {"zone": "Mars/Base"}, "is not a time zone"),
        ("automations", {"missed": "never"}, "must be one of"),
        ("models", {"manager": "small"}, "is not a model of a known provider"),
    ],
)
async def test_what_no_start_would_take_is_refused_and_stays_in_the_form(
    client: httpx.AsyncClient, home: Home, section: str, given: dict[str, str], said: str
) -> None:
    home.config_file.write_text("[budgets]\nday_usd = 2.0 # mine\n")
    refused = await client.post(f"/settings/{section}", data={"seen": await _seen(client), **given})
    assert refused.status_code >= 400
    assert said in refused.text
    assert home.config_file.read_text() == "[budgets]\nday_usd = 2.0 # mine\n"


async def test_a_comment_stays_and_a_change_meanwhile_is_not_overwritten(
    client: httpx.AsyncClient, home: Home
) -> None:
    home.config_file.write_text("[budgets]\nday_usd = 2.0 # mine\n")
    seen = await _seen(client)
    await client.post("/settings/budgets", data={"seen": seen, "day_usd": "3"})
    assert home.config_file.read_text() == "[budgets]\nday_usd = 3.0 # mine\n"
    late = await client.post("/settings/budgets", data={"seen": seen, "day_usd": "9"})
    assert "changed meanwhile" in late.text
    assert tomllib.loads(home.config_file.read_text())["budgets"]["day_usd"] == 3.0


async def test_nothing_else_can_be_changed_and_no_secret_is_shown(
    client: httpx.AsyncClient, home: Home
) -> None:
    home.config_file.write_text(
        '[channels."desk"]\nkind = "webhook"\nsecret = "env:DESK_SECRET"\n\n[tools]\n'
    )
    page = (await client.get("/settings")).text
    assert "DESK_SECRET" not in page
    seen = await _seen(client)
    for section, given in (
        ("tools", {"network": "true"}),
        ("gateway", {"port": "1"}),
        ("channels.desk", {"secret": "env:OTHER", "command": "rm", "quiet_hours": "22:00-07:00"}),
    ):
        await client.post(f"/settings/{section}", data={"seen": seen, **given})
    written = tomllib.loads(home.config_file.read_text())
    assert written["channels"]["desk"] == {
        "kind": "webhook",
        "secret": "env:DESK_SECRET",
        "quiet_hours": "22:00-07:00",
    }
    assert written["tools"] == {}
    assert "gateway" not in written


async def test_a_new_home_is_set_up_on_its_first_page(
    app: App, keys: Keys, home: Home, server: ModelServer
) -> None:
    restarts: list[bool] = []
    async with AsyncExitStack() as stack:
        served = Served(app, keys, stack, restart=lambda: restarts.append(True))
        transport = httpx.ASGITransport(build(served))
        client = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=URL))
        assert (await client.get("/")).headers["location"] == "/setup"
        assert "Anthropic" in (await client.get("/setup")).text
        page = (await client.get("/setup?provider=anthropic")).text
        assert "$5 in, $25 out per million tokens" in page
        assert "Fast and cheap" in page
        given = {"provider": "compatible", "base_url": server.openai_url, "key": "sk-typed-by-hand"}
        assert 'value="nexus-testing"' in (await client.post("/setup/models", data=given)).text
        given["model"] = "nexus-testing"
        server.always(failures.HttpError("authentication"))
        refused = (await client.post("/setup/test", data=given)).text.splitlines()
        assert "failed" in json.loads(refused[-1])
        server.reset()
        server.always(Turn("one, two, three"))
        lines = [
            json.loads(line) for line in (await client.post("/setup/test", data=given)).text.splitlines()
        ]
        assert "one, two, three" in "".join(line.get("text", "") for line in lines)
        assert lines[-1] == {"ready": True}
        assert not config.load(home.config_file).models.manager
        done = await client.post("/setup", data={**given, "tested": "yes"})
        assert (done.headers["location"], restarts) == ("/setup?done=1", [True])
        assert "server/nexus-testing" in (await client.get("/setup?done=1")).text
    settings = config.load(home.config_file)
    assert settings.models.manager == settings.models.writer == ("server/nexus-testing",)
    assert "sk-typed-by-hand" not in home.config_file.read_text()
    assert secrets.read(settings.providers["server"].api_key) == "sk-typed-by-hand"


async def test_only_models_of_the_settings_are_tested(client: httpx.AsyncClient) -> None:
    refused = await client.post("/settings/test", data={"name": "anthropic/any"})
    assert "No role uses" in refused.text


async def test_testing_models_is_billed_and_stops_at_the_budget(
    client: httpx.AsyncClient, app: App, home: Home, server: ModelServer
) -> None:
    server.always(Turn("one, two"))
    write_settings(home.root, server).rename(home.config_file)
    app.config = replace(app.config, budgets=BudgetsConfig(day_tokens=1))
    for _ in range(3):
        tested = await client.post("/settings/test", data={"name": "test/large"})
        assert "is used up" in tested.text
    assert len(server.requests) == 1
    assert (await client.get("/api/usage")).json()["total"]["calls"] == 1
    assert (await client.get("/usage")).status_code == 200
