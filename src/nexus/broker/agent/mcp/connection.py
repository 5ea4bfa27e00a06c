"""A connection to one MCP server, with the official client."""

import asyncio
import logging
import tempfile
from contextlib import AsyncExitStack
from typing import Any, TextIO, cast

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, CallToolResult, TextContent

from nexus.broker.agent.clients import ssl_context
from nexus.broker.agent.mcp.oauth import Auth
from nexus.broker.agent.mcp.servers import Offer
from nexus.config import McpConfig
from nexus.errors import ToolError

# The SDK logs the arguments of calls, which may be a person's.
logging.getLogger("mcp").setLevel(logging.WARNING)

_LAST_WORDS = 500
# A server that does not end by itself is ended by the client within this time.
_CLOSE_S = 10.0


class Connection:
    """A server that was started or reached. What goes wrong with it is a ToolError, never a wait."""

    def __init__(
        self,
        name: str,
        config: McpConfig,
        env: dict[str, str],
        headers: dict[str, str],
        auth: Auth | None = None,
    ) -> None:
        self._name = name
        self._config = config
        self._env = env
        self._headers = headers
        self._auth = auth
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def open(self) -> list[Offer]:
        """Start or reach it, and ask what it offers."""
        opened: asyncio.Future[list[Offer]] = asyncio.get_running_loop().create_future()
        # The client wants to be left in the task that entered it, and callers come and go.
        self._task = asyncio.create_task(self._keep(opened), name=f"mcp:{self._name}")
        try:
            async with asyncio.timeout(self._config.start_timeout_ms / 1000):
                return await asyncio.shield(opened)
        except TimeoutError:
            await self.close()
            raise ToolError(
                f"The MCP server `{self._name}` did not start within {self._config.start_timeout_ms} ms"
            ) from None

    @property
    def alive(self) -> bool:
        return self._client is not None and self._task is not None and not self._task.done()

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """What a tool of the server answers."""
        assert self._client is not None  # noqa: S101 - an invariant, for the reader and the type checker
        try:
            async with asyncio.timeout(self._config.timeout_ms / 1000):
                result = await self._client.call_tool(tool, arguments)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                await self.close()
            self._tell_problem()
            raise ToolError(f"The MCP server `{self._name}` refused the call: {error.message}") from None
        except TimeoutError:
            await self.close()
            self._tell_problem()
            raise ToolError(
                f"The MCP server `{self._name}` did not answer within {self._config.timeout_ms} ms"
            ) from None
        except Exception as error:  # whatever the transport raises when the server dies
            await self.close()
            self._tell_problem()
            raise ToolError(f"The MCP server `{self._name}` disconnected: {_describe_error(error)}") from None
        if result.is_error:
            raise ToolError(_text(result) or "The tool failed without a message")
        return _text(result)

    def _tell_problem(self) -> None:
        """Raise what keeps this side from signing in, rather than what came of it."""
        if self._auth is not None and self._auth.problem is not None:
            raise self._auth.problem

    async def close(self) -> None:
        """End the connection, and the server if it was started here."""
        task, opened = self._task, self._client is not None
        self._task = self._client = None
        if task is None:
            return
        self._stop.set()
        if opened:
            await asyncio.wait({task}, timeout=_CLOSE_S)
        task.cancel()
        await asyncio.wait({task})

    async def _keep(self, opened: "asyncio.Future[list[Offer]]") -> None:
        # What a server says on standard error is shown only when it cannot be started.
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
            try:
                async with AsyncExitStack() as stack:
                    self._client = await stack.enter_async_context(await self._make_client(stack, errors))
                    offers = await _offers(self._client)
                    if not opened.done():
                        opened.set_result(offers)
                    await self._stop.wait()
            except Exception as error:  # a transport may raise anything, also groups
                if not opened.done():
                    if self._auth is not None and self._auth.problem is not None:
                        opened.set_exception(self._auth.problem)
                        return
                    reason = _last_words(errors) or _describe_error(error)
                    opened.set_exception(
                        ToolError(f"The MCP server `{self._name}` could not be started: {reason}")
                    )
            finally:
                self._client = None

    async def _make_client(self, stack: AsyncExitStack, errors: TextIO) -> Client:
        config = self._config
        if config.url:
            http = httpx2.AsyncClient(
                headers=self._headers,
                verify=ssl_context(),
                timeout=config.timeout_ms / 1000,
                auth=self._auth,
            )
            await stack.enter_async_context(http)
            return Client(streamable_http_client(config.url, http_client=http))
        server = StdioServerParameters(command=config.command, args=list(config.args), env=self._env)
        return Client(stdio_client(server, errlog=errors))


async def _offers(client: Client) -> list[Offer]:
    found: list[Offer] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            hints = tool.annotations
            offer = Offer(
                name=tool.name,
                description=tool.description or "",
                parameters=tool.input_schema,
                repeatable=hints is not None and bool(hints.read_only_hint or hints.idempotent_hint),
                is_read_only=hints is not None and bool(hints.read_only_hint),
                is_destructive=hints is not None and bool(hints.destructive_hint),
            )
            found.append(offer)
        cursor = page.next_cursor
        if cursor is None:
            return sorted(found, key=lambda offer: offer.name)


def _text(result: CallToolResult) -> str:
    parts = [
        block.text if isinstance(block, TextContent) else f"[{block.type}, which is not shown]"
        for block in result.content
    ]
    return "\n".join(parts)


def _last_words(errors: TextIO) -> str:
    errors.seek(0)
    return errors.read()[-_LAST_WORDS:].strip()


def _describe_error(error: BaseException) -> str:
    """The first plain error inside a group, in a line."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return str(error).strip() or type(error).__name__
