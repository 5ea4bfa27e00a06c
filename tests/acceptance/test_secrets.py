"""A key or token is used, and is found nowhere in the home afterwards, whatever a provider or a tool says."""

import logging
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import mcp_server
from apps import settings
from nexus.app import App
from nexus.config import Config, McpConfig
from nexus.engine.errors import EndedError
from nexus.home import Home
from nexus.testing import HttpError, ModelServer, ToolCall, Turn

KEY = "sk-key-0123456789abcdef"
TOKEN = "tok-0123456789abcdef"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(keys=[KEY]) as server:
        yield server


def _configured(server: ModelServer, wire: str, key_file: Path, shelf: Path) -> Config:
    config = settings(server, wire)
    provider = replace(config.providers["test"], api_key=f"file:{key_file}")
    tools = McpConfig(
        command=sys.executable,
        args=(mcp_server.__file__,),
        env={"SHELF": str(shelf), "TOKEN": f"file:{key_file.with_name('token')}"},
        start_timeout_ms=120_000,
    )
    return replace(config, providers={"test": provider}, mcp={"shelf": tools})


def _holding(home: Home, secret: str) -> list[str]:
    return [
        str(file) for file in home.root.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()
    ]


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_no_secret_is_left_in_the_home_or_the_log(
    home: Home, server: ModelServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, wire: str
) -> None:
    caplog.set_level(logging.DEBUG)
    key_file = tmp_path / "key"
    key_file.write_text(KEY, encoding="utf-8")
    key_file.with_name("token").write_text(TOKEN, encoding="utf-8")
    server.script(
        Turn("I try.", [ToolCall("shelf__tell_token", {})]),
        "It would not tell.",
        HttpError("authentication", message=f"the key {KEY} was revoked"),
    )
    async with App(home, _configured(server, wire, key_file, tmp_path / "shelf")) as app:
        run = await app.send("Tell me the token.")
        assert (await run.result()).response.content == "It would not tell."
        failing = await app.send("And now?")
        with pytest.raises(EndedError) as caught:
            await failing.result()
        held = {secret: _holding(home, secret) for secret in (KEY, TOKEN)}
    assert server.requests[0].key == KEY
    assert "[secret]" in server.requests[1].tool_results[0]
    assert "[secret]" in str(caught.value)
    assert held == {KEY: [], TOKEN: []}
    assert KEY not in caplog.text + str(caught.value)
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_credentials_of_a_url_are_used_and_left_nowhere(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, wire: str
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("URL_PASSWORD", KEY)
    monkeypatch.setenv("URL_TOKEN", TOKEN)
    basic = b64encode(f"me:{KEY}".encode()).decode()
    with ModelServer() as server:
        server.script(
            "Snow.", HttpError("authentication", message=f"{KEY}, {TOKEN} and {basic} were revoked")
        )
        config = settings(server, wire)
        provider = config.providers["test"]
        url = provider.base_url.replace("http://", "http://me:env:URL_PASSWORD@") + "?token=env:URL_TOKEN"
        named = replace(
            config, providers={"test": replace(provider, base_url=url, api_key="", auth_token="")}
        )
        async with App(home, named) as app:
            assert (await (await app.send("Weather?")).result()).response.content == "Snow."
            with pytest.raises(EndedError) as caught:
                await (await app.send("And now?")).result()
            held = {secret: _holding(home, secret) for secret in (KEY, TOKEN, basic)}
            # The HTTP library logs addresses; what `nexus up` writes to its log is masked like this.
            logged = app.models.redact(caplog.text)
    assert server.requests[0].headers["authorization"] == f"Basic {basic}"
    assert held == {KEY: [], TOKEN: [], basic: []}
    for secret in (KEY, TOKEN, basic):
        assert secret not in logged + str(caught.value)
