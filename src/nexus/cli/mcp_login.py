"""Signing in to MCP servers: a link to open, and the address that the browser comes back to."""

import asyncio
import os
import re
import sys
import webbrowser
from contextlib import suppress
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs, urlsplit

import click

from nexus import config_file, secrets
from nexus.config import Config, McpConfig
from nexus.config_file import Change
from nexus.errors import MissingError, UsageError
from nexus.home import Home
from nexus.text import pluralize

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_REQUEST_BYTES: Final = 16 * 1024
_PAGE: Final = (
    "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n"
    "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}"
)


def add_server(home: Home, settings: Config, url: str, name: str, *, opens_browser: bool) -> None:
    """Add a server to the settings, and sign in if it wants that."""
    _check_url(url)
    name = name or _choose_name(url)
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} can't be a server's name", hint="Use up to 32 of: a-z, 0-9, _ and -.")
    if name in settings.mcp:
        raise UsageError(
            f"[mcp.{name}] is in config.toml already",
            hint=f"Choose another --name, or sign in again with `nexus mcp login {name}`.",
        )
    config = McpConfig(url=url)
    found, tools = asyncio.run(_Browser(opens=opens_browser).sign_in(name, config))
    changes = [Change(section=f"mcp.{name}", key="url", value=url)]
    if found:
        source = secrets.keep(found, f"mcp-{name}.json", home.secrets)
        changes.append(Change(section=f"mcp.{name}", key="oauth", value=source))
    config_file.save(home.config_file, changes)
    click.echo(f"Added {name}: {pluralize(tools, 'tool')}. Restart `nexus up` to use it.")


def login(settings: Config, name: str, *, opens_browser: bool) -> None:
    """Sign in to a server again."""
    source = _find(settings, name)
    found, tools = asyncio.run(_Browser(opens=opens_browser).sign_in(name, settings.mcp[name]))
    if not found:
        click.echo(f"{name} doesn't ask for a sign-in: {pluralize(tools, 'tool')}.")
        return
    secrets.replace(source, found)
    click.echo(f"Signed in to {name}: {pluralize(tools, 'tool')}.")


def logout(settings: Config, name: str) -> None:
    """Revoke the tokens of a server, and remove them."""
    source = _find(settings, name)
    from nexus.broker.agent.mcp import oauth

    if asyncio.run(oauth.revoke(source)):
        click.echo(f"Signed out of {name}. Its tokens are revoked.")
    else:
        click.echo(f"Signed out of {name}. It didn't confirm that its tokens are revoked: do it on its site.")


def _find(settings: Config, name: str) -> str:
    """The source of the sign-in of a server."""
    if name not in settings.mcp:
        known = ", ".join(settings.mcp) or "none"
        raise MissingError(f"No MCP server {name}", hint=f"In config.toml: {known}.")
    if not settings.mcp[name].oauth:
        raise UsageError(
            f"[mcp.{name}] has no sign-in", hint="Servers that were added with `nexus mcp add URL` have one."
        )
    return settings.mcp[name].oauth


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    if parts.scheme not in {"http", "https"} or not host:
        raise UsageError(f"{url} is not the address of a server", hint="It begins with https://.")
    if parts.scheme == "http" and host not in _LOCAL:
        raise UsageError("Tokens would be sent unencrypted", hint="Use the server's https:// address.")
    if secrets.in_url(url):
        raise UsageError("The address contains a secret", hint="Name it in config.toml as `env:NAME`.")


def _choose_name(url: str) -> str:
    """What to call a server, by its host: `mcp.linear.app` is `linear`."""
    labels = [each for each in (urlsplit(url).hostname or "").split(".") if each not in {"mcp", "api", "www"}]
    found = labels[-2] if len(labels) > 1 and not labels[-1].isdigit() else labels[0] if labels else ""
    return found if _NAME.fullmatch(found) and not found.isdigit() else "server"


class _Browser:
    """The browser in which a person signs in, here or on another machine."""

    def __init__(self, *, opens: bool) -> None:
        self._opens = opens
        self._state = ""
        self._arrived: asyncio.Future[str] | None = None

    async def sign_in(self, name: str, config: McpConfig) -> tuple[str, int]:
        """What to keep of the sign-in, and how many tools the server has."""
        from nexus.broker.agent.mcp import oauth

        self._arrived = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, limit=_REQUEST_BYTES)
        async with server:
            port = server.sockets[0].getsockname()[1]
            uri = f"http://127.0.0.1:{port}/callback"
            return await oauth.sign_in(name, replace(config, oauth=""), uri, self._show, self._wait)

    async def _show(self, url: str) -> None:
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        click.echo(f"Open this link to sign in:\n\n  {url}\n")
        click.echo(
            "If the browser is on another machine, paste the address of the page at which it ends here."
        )
        # Without a display, a browser of the terminal would take its place.
        if self._opens and (
            sys.platform == "darwin" or os.environ.get("DISPLAY") or "WAYLAND_DISPLAY" in os.environ
        ):
            await asyncio.to_thread(webbrowser.open, url)

    async def _wait(self) -> str:
        """Wait for the address that the browser was sent to, there or typed in."""
        assert self._arrived is not None  # noqa: S101 - `sign_in` made it
        loop = asyncio.get_running_loop()
        with suppress(OSError, ValueError):  # a file or nothing at all, from which nothing comes
            loop.add_reader(sys.stdin.fileno(), self._read_line)
        try:
            return await self._arrived
        finally:
            with suppress(OSError, ValueError):
                loop.remove_reader(sys.stdin.fileno())

    def _read_line(self) -> None:
        line = sys.stdin.readline()
        if not line:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        elif line.strip() and not self._accept(line.strip()):
            click.echo("That is not the address that this sign-in leads to.", err=True)

    def _accept(self, address: str) -> bool:
        """Take an address, unless it belongs to another sign-in."""
        assert self._arrived is not None  # noqa: S101 - `sign_in` made it
        try:
            given = parse_qs(urlsplit(address).query)
        except ValueError:
            return False
        belongs = bool(self._state) and secrets.digest(given.get("state", [""])[0]) == secrets.digest(
            self._state
        )
        if belongs and not self._arrived.done():
            self._arrived.set_result(address)
        return belongs

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode(errors="replace")
            method, target, *_ = [*head.split(" ", 2), "", ""]
            is_ours = method == "GET" and target.startswith("/callback?") and self._accept(target)
            text = "You can close this page and return to the terminal." if is_ours else "Not found."
            page = _PAGE.format(status="200 OK" if is_ours else "404 Not Found", length=len(text), text=text)
            writer.write(page.encode())
            await writer.drain()
        writer.close()
