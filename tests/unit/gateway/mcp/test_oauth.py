"""MCP clients from elsewhere sign in with OAuth, by the SDK's own client, and the owner lets them in."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from gateways import app_for_gateway, client_of
from nexus.app import App
from nexus.broker.agent.mcp import oauth
from nexus.config import McpConfig
from nexus.errors import ConfigError, ToolError
from nexus.gateway.guard import public_address
from nexus.gateway.listener import bind_socket
from nexus.gateway.mcp import Grants, RemoteClients
from nexus.gateway.server import Gateway
from nexus.home import Home
from nexus.testing import ModelServer

RETURN = "http://127.0.0.1:1/callback"
ACCEPT = {"accept": "application/json, text/event-stream"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@dataclass
class Owner:
    """The owner's browser, which is logged in, and a client that signs in."""

    app: App
    url: str
    http: httpx.AsyncClient
    """The browser: it has no token."""
    decision: str = "allow"
    address: str = ""
    page: str = ""
    login: dict[str, str] = field(default_factory=dict[str, str])

    async def show(self, link: str) -> None:
        asked = await self.http.get(link)
        entered = await self.http.get(asked.headers["location"])
        assert "Let" not in entered.text, "another site's page led here, which sends no strict cookie"
        self.page = (await self.http.get(_next(entered), headers=self.login)).text
        ticket = re.findall('name="ticket" value="([^"]+)"', self.page)[0]
        self.address = _next(await self.decide(ticket))

    async def decide(self, ticket: str, **headers: str) -> httpx.Response:
        form = {"ticket": ticket, "decision": self.decision}
        given = {"origin": self.url, **self.login, **headers}
        return await self.http.post("/oauth/consent", data=form, headers=given)

    async def wait(self) -> str:
        return self.address

    async def sign_in(self) -> oauth.SignIn:
        config = McpConfig(url=f"{self.url}/mcp")
        found, tools = await oauth.sign_in("home", config, RETURN, self.show, self.wait)
        assert tools == 5
        return oauth.SignIn.model_validate_json(found)

    async def ask(self, token: str, path: str = "/mcp") -> int:
        headers = {"authorization": f"Bearer {token}", **ACCEPT}
        return (await self.http.post(path, json=PING, headers=headers)).status_code

    async def exchange(self, found: oauth.SignIn, **given: str) -> httpx.Response:
        assert found.client is not None
        proof = {"client_id": found.client.client_id, "client_secret": found.client.client_secret}
        return await self.http.post("/token", data={**proof, **given})


def _next(answer: httpx.Response) -> str:
    return re.findall('url=([^"]+)"', answer.text)[0].replace("&amp;", "&")


@pytest.fixture
async def owner(home: Home, server: ModelServer) -> AsyncIterator[Owner]:
    with bind_socket("127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config = app_for_gateway(home, server).config
        remote = replace(config.gateway, public_url=url, mcp_oauth=True)
        async with (
            App(home, replace(config, gateway=remote)) as app,
            Gateway(app, listening) as gateway,
            httpx.AsyncClient(base_url=url) as http,
        ):
            entered = await http.get(gateway.login_url())
            http.cookies.clear()
            owner = Owner(app, url, http)
            owner.login = {"cookie": "; ".join(f"{name}={value}" for name, value in entered.cookies.items())}
            yield owner


async def test_a_remote_client_is_let_in_by_the_owner_and_reaches_the_memory_alone(owner: Owner) -> None:
    found = await owner.sign_in()
    assert found.tokens is not None
    assert found.tokens.refresh_token
    assert "Let Nexus use your memory?" in owner.page
    assert "127.0.0.1:1" in owner.page
    token = found.tokens.access_token
    assert await owner.ask(token) != 401
    assert await owner.ask(token, "/api/messages") == 401
    assert await owner.ask(token, "/v1/chat/completions") == 401
    # The home's token doesn't open the memory from elsewhere; on this machine it does.
    own = owner.app.home.token()
    assert await owner.ask(own) == 401
    async with client_of(owner.url.replace("127.0.0.1", "localhost"), own) as local:
        assert (await local.post("/mcp", json=PING, headers=ACCEPT)).status_code != 401
    written = (owner.app.home.run / "mcp-clients.json").read_text()
    kept = [token, found.tokens.refresh_token, found.client.client_secret if found.client else ""]
    assert [each for each in kept if each and each in written] == []
    # Ended beside the process that serves.
    with Grants(owner.app.home).change() as grants:
        grants.clear()
    assert await owner.ask(token) == 401
    assert (
        await owner.exchange(found, grant_type="refresh_token", refresh_token=found.tokens.refresh_token)
    ).status_code >= 400


async def test_tokens_are_refreshed_and_a_second_use_of_anything_ends_the_access(owner: Owner) -> None:
    found = await owner.sign_in()
    assert found.tokens is not None
    first: dict[str, Any] = {"grant_type": "refresh_token", "refresh_token": found.tokens.refresh_token}
    fresh = (await owner.exchange(found, **first)).json()
    assert await owner.ask(found.tokens.access_token) == 401
    assert await owner.ask(fresh["access_token"]) != 401
    again = await owner.exchange(found, **first)
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    assert await owner.ask(fresh["access_token"]) == 401

    # The same with a code.
    found = await owner.sign_in()
    assert found.tokens is not None
    code = parse_qs(urlsplit(owner.address).query)["code"][0]
    again = await owner.exchange(
        found, grant_type="authorization_code", code=code, redirect_uri=RETURN, code_verifier="x" * 43
    )
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    assert await owner.ask(found.tokens.access_token) == 401

    # A client can end it itself.
    found = await owner.sign_in()
    assert found.tokens is not None
    assert found.client is not None
    proof = {"client_id": found.client.client_id, "client_secret": found.client.client_secret}
    done = await owner.http.post("/revoke", data={"token": found.tokens.access_token, **proof})
    assert done.status_code == 200
    assert await owner.ask(found.tokens.access_token) == 401


async def test_nobody_but_the_owner_can_let_a_client_in(owner: Owner) -> None:
    refused = await owner.http.post("/mcp", json=PING)
    assert refused.status_code == 401
    where = re.findall('resource_metadata="([^"]+)"', refused.headers["www-authenticate"])[0]
    about = (await owner.http.get(where)).json()
    assert about["resource"] == f"{owner.url}/mcp"
    server = (await owner.http.get("/.well-known/oauth-authorization-server")).json()
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert server["issuer"] == about["authorization_servers"][0]

    refused = Owner(owner.app, owner.url, owner.http, decision="deny")
    refused.login = owner.login
    with pytest.raises(ToolError, match="access_denied"):
        await refused.sign_in()

    registered = (
        await owner.http.post("/register", json={"redirect_uris": [RETURN], "client_name": "<b>\u202eX"})
    ).json()
    asked = {
        "client_id": registered["client_id"], "redirect_uri": RETURN, "response_type": "code",
        "code_challenge": "c" * 43, "code_challenge_method": "S256", "state": "s",
    }  # fmt: skip
    link = (await owner.http.get("/authorize", params=asked)).headers["location"]
    ticket = parse_qs(urlsplit(link).query)["ticket"][0]
    stranger = await owner.http.get(f"{link}&again=1")
    assert (stranger.status_code, "Log in" in stranger.text) == (401, True)
    shown = (await owner.http.get(link, headers=owner.login)).text
    assert "&lt;b&gt; X" in shown
    # Another site's page, and a program that has nothing.
    assert (await owner.decide(ticket, origin="https://evil.example")).status_code == 403
    assert (await owner.http.post("/oauth/consent", data={"ticket": ticket})).status_code == 401
    assert "code=" in _next(await owner.decide(ticket))
    assert (await owner.decide(ticket)).status_code == 404, "it is answered once"

    elsewhere = await owner.http.get("/authorize", params={**asked, "redirect_uri": "https://evil.example/"})
    assert elsewhere.status_code == 400
    wrong = await owner.http.get("/authorize", params={**asked, "resource": "https://evil.example/mcp"})
    assert "invalid_target" in wrong.headers["location"]
    for uri in ("javascript:alert(1)", "http://evil.example/", "data:text/html,x"):
        bad = await owner.http.post("/register", json={"redirect_uris": [uri]})
        assert (bad.status_code, bad.json()["error"]) == (400, "invalid_redirect_uri")


def test_it_needs_an_address_with_tls(home: Home) -> None:
    for url in ("", "http://nexus.example"):
        with pytest.raises(ConfigError, match="begins with https://"):
            RemoteClients(home, public_address(url))
    assert (
        RemoteClients(home, public_address("https://nexus.example")).resource == "https://nexus.example/mcp"
    )
