"""Tools of real MCP servers, started as processes and reached over HTTP."""

import asyncio
import logging
import re
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import mcp_server
from agent_runs import Run
from nexus.broker.agent.mcp import Servers
from nexus.broker.agent.mcp.servers import Offer
from nexus.broker.tools import Context, Sandbox, Tool
from nexus.config import McpConfig
from nexus.errors import ToolError
from nexus.testing import ModelServer, ToolCall, Turn

PROGRAM = mcp_server.__file__
TOKEN = "tok-0123456789"
NAMES = [f"shelf__{name}" for name in ("die", "fail", "look", "put", "sleep", "tell_token")]


def _config(tmp_path: Path, *args: str, **changes: Any) -> McpConfig:
    env = {"SHELF": str(tmp_path / "shelf"), "TOKEN": "env:MCP_TOKEN"}
    settings: dict[str, Any] = {"command": sys.executable, "args": (PROGRAM, *args), "env": env}
    settings |= {"start_timeout_ms": 120_000, **changes}
    return McpConfig(**settings)


# A server takes a while to start, so the tests that do it no harm share one.
shared = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(state: Path) -> AsyncIterator[Servers]:
    async with Servers({"shelf": _config(state)}, state, {"MCP_TOKEN": TOKEN}) as servers:
        yield servers


def _context() -> Context:
    return Context(sandbox=Sandbox(grants=()), directory=Path("/"))


async def _called(servers: Servers, name: str, **arguments: Any) -> str:
    tools = {tool.name: tool for tool in await servers.tools()}
    return await tools[f"shelf__{name}"].call(arguments, _context())


@shared
async def test_tools_have_their_servers_name_in_front_and_a_stable_order(servers: Servers) -> None:
    assert not logging.getLogger("mcp.server").isEnabledFor(logging.INFO)  # it would log arguments
    tools = await servers.tools()
    assert [tool.name for tool in tools] == NAMES
    put = next(tool for tool in tools if tool.name == "shelf__put")
    assert put.description == "Put something on the shelf."
    assert put.parameters["properties"]["count"]["type"] == "integer"
    assert {tool.name for tool in tools if tool.repeatable} == {"shelf__look"}


@shared
async def test_a_call_reaches_the_server_and_its_answer_comes_back(servers: Servers) -> None:
    assert await _called(servers, "put", thing="cup", count=2) == "2 x cup"
    assert "cup\ncup\n" in await _called(servers, "look")


@shared
async def test_what_goes_wrong_in_a_tool_is_told(servers: Servers) -> None:
    with pytest.raises(ToolError, match="out of cups"):
        await _called(servers, "fail", reason="out of cups")
    with pytest.raises(ToolError, match="thing"):
        await _called(servers, "put", thing=5)


@shared
async def test_a_secret_in_a_servers_words_is_masked(servers: Servers) -> None:
    with pytest.raises(ToolError) as caught:
        await _called(servers, "tell_token")
    assert TOKEN not in str(caught.value)
    assert "[secret]" in str(caught.value)


@shared
async def test_a_server_that_dies_is_an_error_and_is_started_again(servers: Servers) -> None:
    with pytest.raises(ToolError, match="Connection closed"):
        await _called(servers, "die")
    assert await _called(servers, "put", thing="cup") == "1 x cup"


async def test_a_server_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    config = _config(tmp_path, timeout_ms=3_000)
    async with Servers({"shelf": config}, tmp_path, {"MCP_TOKEN": TOKEN}) as hasty:
        with pytest.raises(ToolError, match="did not answer within 3000 ms"):
            await _called(hasty, "sleep")
        assert await _called(hasty, "put", thing="cup") == "1 x cup"


@shared
async def test_what_was_offered_is_known_without_starting_the_server(servers: Servers, state: Path) -> None:
    offered = await servers.tools()
    async with Servers({"shelf": _config(state)}, state, {}) as locked:
        assert _definitions(await locked.tools()) == _definitions(offered)
        with pytest.raises(ToolError, match="No secret found at env:MCP_TOKEN"):
            await _called(locked, "look")


@shared
@pytest.mark.parametrize(
    "edited",
    [{"command": "/nowhere/at/all"}, {"args": (PROGRAM, "broken")}, {"command": "", "url": "http://[::1]:9"}],
)
async def test_what_another_server_of_the_same_name_offered_is_not_used(
    servers: Servers, state: Path, edited: dict[str, Any]
) -> None:
    assert await servers.tools()
    async with Servers({"shelf": _config(state, **edited)}, state, {"MCP_TOKEN": TOKEN}) as changed:
        assert await changed.tools() == []
    assert [tool.name for tool in await servers.tools()] == NAMES


def test_tools_whose_names_no_provider_accepts_stay_apart() -> None:
    long = "x" * 80
    names = [_name(name) for name in ("a.b", "a/b", "a_b", f"{long}1", f"{long}2")]
    assert len(set(names)) == len(names)
    assert _name("a_b") == "shelf__a_b"
    assert all(re.fullmatch(r"shelf__[a-zA-Z0-9_-]{1,57}", name) for name in names)
    assert _name("a.b") == _name("a.b")


def _name(tool: str) -> str:
    return Offer(name=tool, description="", parameters={}, repeatable=False).name_in("shelf")


def _definitions(tools: list[Tool]) -> list[Any]:
    return [(tool.name, tool.description, tool.parameters, tool.repeatable) for tool in tools]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"command": "/nowhere/at/all"}, "could not be started"),
        ({"args": (PROGRAM, "broken")}, "no shelf; the token is [secret]"),
        ({"args": (PROGRAM, "stuck"), "start_timeout_ms": 1_000}, "did not start within 1000 ms"),
        ({"url": "http://127.0.0.1:9/mcp", "command": ""}, "could not be started"),
        ({"url": "http://127.0.0.1:9/mcp"}, "either a `command` or a `url`"),
        ({"env": {"TOKEN": "env:NOT_SET"}}, "No secret found at env:NOT_SET"),
    ],
    ids=["no program", "fails at once", "stuck", "nobody listens", "both", "no secret"],
)
async def test_a_server_that_cannot_be_had_has_no_tools_and_says_why_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], said: str
) -> None:
    config = _config(tmp_path, **changes)
    async with Servers({"shelf": config}, tmp_path, {"MCP_TOKEN": TOKEN}) as servers:
        assert await servers.tools() == []
    assert said in caplog.text
    assert TOKEN not in caplog.text


async def test_a_server_over_http(tmp_path: Path) -> None:
    # The server inherits the socket, so that nobody can take its port in between.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            PROGRAM,
            "http",
            str(listening.fileno()),
            env={"SHELF": str(tmp_path / "shelf")},
            pass_fds=[listening.fileno()],
            stderr=asyncio.subprocess.DEVNULL,
        )
        port = listening.getsockname()[1]
    try:
        config = McpConfig(
            url=f"http://127.0.0.1:{port}/mcp", headers={"authorization": "Bearer env:MCP_TOKEN"}
        )
        async with Servers({"shelf": config}, tmp_path, {"MCP_TOKEN": TOKEN}) as servers:
            assert [tool.name for tool in await servers.tools()] == NAMES
            assert await _called(servers, "put", thing="cup") == "1 x cup"
    finally:
        process.kill()
        await process.wait()


@shared
async def test_an_agent_uses_a_servers_tools_as_recorded_steps(servers: Servers, tmp_path: Path) -> None:
    async def call(tool: Tool, arguments: Any, call_id: str) -> str:
        return await tool.call(arguments, _context())

    async with ModelServer() as server:
        server.script(Turn(tool_calls=[ToolCall("shelf__put", {"thing": "cup"})]), "Done.")
        run = Run(server, tmp_path, tools=await servers.tools(), call=call)
        await run()
        assert server.requests[0].tool_names == tuple(NAMES)
        assert server.requests[1].tool_results == ("1 x cup",)
        assert run.steps.names == ["model", "tool:shelf__put", "model"]
