"""Signing in to a real MCP server with OAuth, and what becomes of the tokens."""

import asyncio
import logging
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeyring

from acceptance.program import NEXUS
from apps import settings as app_settings
from nexus import config, secrets
from nexus.app import App
from nexus.broker.agent.mcp import Servers, oauth
from nexus.broker.tools import Context, Sandbox
from nexus.cli import mcp_login
from nexus.config import McpConfig, ToolsConfig
from nexus.errors import ToolError, UsageError
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, ToolCall, Turn
from oauth_server import Authority, oauth_servers

_REDIRECT = "http://127.0.0.1:1/callback"


@pytest.fixture(autouse=True)
def no_keyring() -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(NoKeyring())
    yield
    keyring.set_keyring(before)


@pytest.fixture
def vault() -> Iterator[tuple[Authority, str]]:
    with oauth_servers() as made:
        yield made


class _Person:
    """Opens the link, and comes back with where the server sent the browser."""

    def __init__(self) -> None:
        self.address = ""

    async def show(self, url: str) -> None:
        async with httpx.AsyncClient() as http:
            self.address = (await http.get(url)).headers["location"]

    async def wait(self) -> str:
        return self.address


async def _sign_in(url: str, home: Home) -> tuple[McpConfig, _Person]:
    person = _Person()
    found, tools = await oauth.sign_in("vault", McpConfig(url=url), _REDIRECT, person.show, person.wait)
    assert tools == 1
    return McpConfig(url=url, oauth=secrets.keep(found, "mcp-vault.json", home.secrets)), person


async def _open(servers: Servers, words: str) -> str:
    (tool,) = await servers.tools()
    return await tool.call({"words": words}, Context(sandbox=Sandbox(grants=()), directory=Path("/")))


async def test_a_sign_in_is_kept_refreshed_in_the_middle_of_a_run_and_ends_when_it_is_revoked(
    home: Home, vault: tuple[Authority, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    authority, url = vault
    settings, _ = await _sign_in(url, home)
    file = home.secrets / "mcp-vault.json"
    assert file.stat().st_mode & 0o777 == 0o600
    async with Servers({"vault": settings}, home.state) as servers:
        assert await _open(servers, "sesame") == "open: sesame"
        assert authority.refreshed == 0

        said = await asyncio.gather(*(_open(servers, str(number)) for number in range(5)))
        assert said == [f"open: {number}" for number in range(5)]

        authority.access.clear()  # the server ended the token early
        said = await asyncio.gather(*(_open(servers, str(number)) for number in range(5)))
        assert said == [f"open: {number}" for number in range(5)]
        assert authority.refreshed == 1, "by the first of them"

        # What a result repeats of a token isn't shown to the model.
        held = oauth.SignIn.model_validate_json(file.read_text())
        assert held.tokens is not None
        assert await _open(servers, f"my {held.tokens.access_token}") == "open: my [secret]"

        kept = held.model_copy(update={"expires_at": 1.0})  # its time is over
        secrets.replace(settings.oauth, kept.model_dump_json())
        assert await _open(servers, "later") == "open: later"
        assert authority.refreshed == 2

        authority.access.clear()
        authority.refresh.clear()
        with pytest.raises(ToolError, match="needs you to sign in") as refused:
            await _open(servers, "revoked")
        assert refused.value.hint == "Run `nexus mcp login vault`."

        again, _ = await _sign_in(url, home)  # as `nexus mcp login` does, beside the process that serves
        assert again == settings
        assert await _open(servers, "back") == "open: back"

        assert await oauth.revoke(settings.oauth)
        assert not authority.access
        assert not authority.refresh
        assert not file.exists()
        with pytest.raises(ToolError, match="needs you to sign in"):
            await _open(servers, "gone")
    assert [each for each in authority.issued if each in caplog.text] == []


async def test_a_token_that_expires_in_the_middle_of_a_run_ends_up_in_no_file_but_its_own(
    home: Home, vault: tuple[Authority, str], server: ModelServer
) -> None:
    authority, url = vault
    settings, _ = await _sign_in(url, home)

    def go_on(_: ModelRequest) -> Turn:
        authority.access.clear()
        return Turn("", [ToolCall("vault__open_vault", {"words": "second"})])

    server.script(Turn("", [ToolCall("vault__open_vault", {"words": "first"})]), go_on, "Both are open.")
    # What the vault says is others' text, after which its next call would wait for the owner.
    config = replace(app_settings(server), mcp={"vault": settings}, tools=ToolsConfig(ask_when_tainted=()))
    async with App(home, config) as app:
        result = await (await app.send("Open the vault twice")).result()
    assert result.response.content == "Both are open."
    assert "open: first" in str(server.requests[1].json["messages"])
    assert "open: second" in str(server.requests[2].json["messages"])
    assert authority.refreshed == 1
    files = [each for each in home.root.rglob("*") if each.is_file() and each.parent != home.secrets]
    for file in files:
        data = file.read_bytes()
        assert [each for each in authority.issued if each.encode() in data] == [], file


async def test_a_code_works_once_and_a_refusal_is_told(home: Home, vault: tuple[Authority, str]) -> None:
    authority, url = vault
    _, person = await _sign_in(url, home)
    used = parse_qs(urlsplit(person.address).query)["code"][0]

    class Replaying(_Person):
        async def wait(self) -> str:
            given = parse_qs(urlsplit(self.address).query)
            return f"{_REDIRECT}?code={used}&state={given['state'][0]}"

    class Mixing(_Person):
        async def wait(self) -> str:
            code = parse_qs(urlsplit(self.address).query)["code"][0]
            return f"{_REDIRECT}?code={code}&state=another"

    for person, why in ((Replaying(), "invalid_grant"), (Mixing(), "State parameter mismatch")):
        with pytest.raises(ToolError, match=why):
            await oauth.sign_in("vault", McpConfig(url=url), _REDIRECT, person.show, person.wait)
    authority.denies = True
    refused = _Person()
    with pytest.raises(ToolError, match="refused the sign-in: access_denied"):
        await oauth.sign_in("vault", McpConfig(url=url), _REDIRECT, refused.show, refused.wait)


@pytest.mark.parametrize(
    ("metadata", "is_refused"),
    [
        ("http://169.254.169.254/latest", True),
        ("https://router.example/metadata", True),
        ("http://login.example/metadata", True),
        ("https://login.example/metadata", False),
        ("https://mcp.example/metadata", False),
    ],
)
async def test_a_server_on_the_internet_sends_nobody_to_private_addresses(
    metadata: str, is_refused: bool
) -> None:
    known = {"router.example": "192.168.0.1", "169.254.169.254": "169.254.169.254"}

    async def resolve(host: str, port: int) -> list[str]:
        return [known.get(host, "93.184.216.34")]

    auth = oauth.Auth("mcp", "https://mcp.example/mcp", oauth.Keeper(), resolve=resolve)
    flow = auth.async_auth_flow(httpx2.Request("POST", "https://mcp.example/mcp"))
    first = await anext(flow)
    about = {"www-authenticate": f'Bearer resource_metadata="{metadata}"'}
    refused = httpx2.Response(401, headers=about, request=first)
    if is_refused:
        with pytest.raises(ToolError, match="no public address with TLS"):
            await flow.asend(refused)
    else:
        assert str((await flow.asend(refused)).url) == metadata
        await flow.aclose()


def test_the_program_signs_in_over_a_link_and_no_backup_holds_the_tokens(
    home: Home, vault: tuple[Authority, str], tmp_path: Path
) -> None:
    authority, url = vault
    command = [str(NEXUS), "--home", str(home.root)]
    env = {**os.environ, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, "mcp", "add", url, "--no-browser"], env=env, stdin=pipe, stdout=pipe, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        link = next(line.strip() for line in program.stdout if "http" in line)
        there = httpx.get(link).headers["location"]
        stray = there.replace("state=", "state=x")
        assert httpx.get(stray).status_code == 404, "another sign-in's address is not taken"
        # As from a browser on another machine, whose address is pasted.
        program.stdin.write(f"{stray}\n{there}\n")
        program.stdin.flush()
        said, _ = program.communicate(timeout=120)
        assert program.returncode == 0
    assert "Added server: 1 tool." in said
    loaded = config.load(home.config_file).mcp["server"]
    assert loaded == McpConfig(url=url, oauth=f"file:{home.secrets / 'mcp-server.json'}")
    assert len(authority.access) == 1

    assert subprocess.run([*command, "backup", str(tmp_path / "backup")], check=True, env=env)
    for place in (tmp_path / "backup", home.logs, home.data, home.config_file):
        for file in [place, *place.rglob("*")]:
            text = file.read_bytes().decode(errors="replace") if file.is_file() else ""
            assert [each for each in authority.issued if each in text] == [], file

    out = subprocess.run([*command, "mcp", "logout", "server"], check=True, env=env, capture_output=True)
    assert b"Its tokens are revoked." in out.stdout
    assert not authority.access


@pytest.mark.parametrize(
    ("url", "name", "why"),
    [
        ("ftp://tools.example", "", "not the address of a server"),
        ("http://tools.example/mcp", "", "sent unencrypted"),
        ("https://tools.example/mcp?token=abcdef", "", "contains a secret"),
        ("https://tools.example/mcp", "A.B", "can't be a server's name"),
        ("https://mcp.tools.example/mcp", "", r"\[mcp\.tools\] is in config\.toml already"),
    ],
)
def test_a_server_that_cannot_be_added_is_refused_before_it_is_reached(
    home: Home, url: str, name: str, why: str
) -> None:
    before = home.config_file.read_bytes()
    known = replace(config.Config(), mcp={"tools": McpConfig(url="https://elsewhere.example")})
    with pytest.raises(UsageError, match=why):
        mcp_login.add_server(home, known, url, name, opens_browser=False)
    assert home.config_file.read_bytes() == before
