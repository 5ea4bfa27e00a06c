"""The MCP servers of a home: their tools beside our own, each started when it is first needed."""

import asyncio
import importlib
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from nexus import secrets
from nexus.broker.agent.mcp import offer
from nexus.broker.agent.mcp.offer import Offer
from nexus.broker.tools import Context, Tool
from nexus.broker.tools.clipping import clipped
from nexus.broker.tools.effects import guess_effects
from nexus.broker.tools.sandbox import Sandbox
from nexus.broker.tools.tool import Arguments
from nexus.config import McpConfig
from nexus.errors import ConfigError, NexusError, ToolError

if TYPE_CHECKING:
    from nexus.broker.agent.mcp.connection import Connection

_log = logging.getLogger(__name__)
# As much as `read` shows of a file: a server may send any amount.
_SHOWN_CHARACTERS = 256 * 1024


@dataclass(frozen=True, kw_only=True)
class ServerTool(Tool):
    """A tool of a server, which checks its arguments itself: only unknown ones are refused here."""

    reads_others: bool = True

    def prepare(self, arguments: Arguments) -> Arguments:
        known = offer.argument_names(self.parameters)
        for name in arguments:
            if known is not None and name not in known:
                told = ", ".join(sorted(known)) or "none"
                raise ToolError(f"There is no argument `{name:.80}`", hint=f"Arguments: {told}.")
        return arguments


class Servers:
    """The servers that the settings name."""

    def __init__(
        self,
        configs: Mapping[str, McpConfig],
        state: Path,
        environ: Mapping[str, str] = os.environ,
        sandbox: Sandbox | None = None,
    ) -> None:
        confined = sandbox or Sandbox()
        self._servers = {
            name: _Server(name, config, state / "mcp" / f"{name}.json", environ, confined)
            for name, config in sorted(configs.items())
        }

    async def tools(self) -> list[Tool]:
        """The tools of every server, in a stable order.

        What a server offered last is used; one that was never asked is started now. One that cannot be has no
        tools until it can.
        """
        found = await asyncio.gather(*(server.tools() for server in self._servers.values()))
        return [tool for tools in found for tool in tools]

    async def close(self) -> None:
        """End every connection."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _Server:
    def __init__(
        self, name: str, config: McpConfig, cache: Path, environ: Mapping[str, str], sandbox: Sandbox
    ) -> None:
        self._sandbox = sandbox
        self._name = name
        self._config = config
        self._cache = cache
        self._source = offer.source(config)
        self._environ = environ
        self._starting = asyncio.Lock()
        self._connection: Connection | None = None
        self._secrets: set[str] = set()

    async def tools(self) -> list[Tool]:
        offers = await asyncio.to_thread(offer.read, self._cache, self._source)
        if offers is None:
            try:
                await self._connected()
            except NexusError as error:
                _log.warning("%s", secrets.redact(str(error), self._secrets))
            offers = await asyncio.to_thread(offer.read, self._cache, self._source)
        return [self._tool(one) for one in offers or []]

    async def close(self) -> None:
        async with self._starting:
            if self._connection is not None:
                await self._connection.close()
                self._connection = None

    def _tool(self, one: Offer) -> Tool:
        async def run(arguments: Arguments, context: Context) -> str:
            return await self._call(one.name, arguments)

        return ServerTool(
            name=one.name_in(self._name),
            description=one.description,
            parameters=one.parameters,
            run=run,
            repeatable=one.repeatable,
            effects=guess_effects(one.name, is_read_only=one.is_read_only, is_destructive=one.is_destructive),
        )

    async def _call(self, tool: str, arguments: Arguments) -> str:
        try:
            connection = await self._connected()
            return self._shown(await connection.call(tool, dict(arguments)))
        except NexusError as error:
            raise ToolError(self._shown(error.message), hint=error.hint) from None

    def _shown(self, text: str) -> str:
        return clipped(secrets.redact(text, self._secrets), _SHOWN_CHARACTERS)

    async def _connected(self) -> "Connection":
        async with self._starting:
            if self._connection is None or not self._connection.alive:
                self._connection = None
                connection = await self._made()
                offers = await connection.open()
                await asyncio.to_thread(offer.write, self._cache, self._source, offers)
                self._connection = connection
            return self._connection

    async def _made(self) -> "Connection":
        if bool(self._config.command) == bool(self._config.url):
            raise ConfigError(
                f"[mcp.{self._name}] must have either a `command` or a `url`", hint="Fix config.toml."
            )
        env = {name: await self._value(value) for name, value in self._config.env.items()}
        headers = {name: await self._value(value) for name, value in self._config.headers.items()}
        address = await asyncio.to_thread(secrets.address, self._config.url, self._environ)
        self._secrets.update(address.secrets)
        # The client takes a while to import, so it is when a server is needed, and beside the loop.
        module: Any = await asyncio.to_thread(importlib.import_module, "nexus.broker.agent.mcp.connection")
        make: Callable[..., Connection] = module.Connection
        config = replace(self._config, url=address.url)
        if config.command and config.sandbox:
            confined = replace(self._sandbox, environment=env)
            [command, *args], env = confined.command([config.command, *config.args])
            config = replace(config, command=command, args=tuple(args))
        return make(self._name, config, env, headers)

    async def _value(self, text: str) -> str:
        source = secrets.source_in(text)
        if not source:
            return text
        secret = await asyncio.to_thread(secrets.read, source, self._environ)
        self._secrets.add(secret)
        return text.removesuffix(source) + secret
