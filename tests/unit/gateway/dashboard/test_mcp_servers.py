"""Signing in to a real MCP server from the dashboard, with its authorization server beside it."""

import asyncio
import re
from dataclasses import replace
from html import unescape

import httpx
import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeyring

from gateways import app_for_gateway
from nexus.app import App
from nexus.broker.agent.mcp.oauth import SignIn
from nexus.config import McpConfig
from nexus.gateway.guard import SIGNED_IN
from nexus.gateway.listener import bind_socket
from nexus.gateway.server import Gateway
from nexus.home import Home
from nexus.testing import ModelServer
from oauth_server import oauth_servers


async def test_a_person_signs_in_to_a_server_on_the_dashboard(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "get_keyring", NoKeyring)
    with oauth_servers() as (authority, url), bind_socket("127.0.0.1", 0) as listening:
        servers = {"vault": McpConfig(url=url), "notes": McpConfig(command="notes")}
        restarted = asyncio.Event()
        async with (
            App(home, replace(app_for_gateway(home, server).config, mcp=servers)) as app,
            Gateway(app, listening, restarted.set) as gateway,
            httpx.AsyncClient(base_url=gateway.url) as browser,
            httpx.AsyncClient() as elsewhere,
        ):
            await browser.get(gateway.login_url())
            shown = (await browser.get("/mcp-servers")).text
            assert shown.count("<button>Sign in</button>") == 1
            ours = {"origin": gateway.url, "hx-request": "true"}
            part = await browser.post("/mcp-servers/vault/sign-in", headers=ours)
            link = unescape(re.findall('href="([^"]+)"', part.text)[0])
            back = (await elsewhere.get(link)).headers["location"]
            assert back.startswith(f"{gateway.url}{SIGNED_IN}?")
            # Nobody else's address is taken, and this one once.
            stray = await elsewhere.get(re.sub("state=[^&]+", "state=x", back))
            assert stray.status_code == 401
            assert "close this page" in (await elsewhere.get(back)).text
            assert (await elsewhere.get(back)).status_code == 401
            async with asyncio.timeout(60):
                await restarted.wait()
            assert 'oauth = "file:' in home.config_file.read_text()
            kept = SignIn.model_validate_json((home.secrets / "mcp-vault.json").read_text())
            assert kept.tokens is not None
            assert kept.tokens.access_token in authority.access
            missing = await browser.post("/mcp-servers/notes/sign-in", headers=ours)
            assert missing.status_code == 404
