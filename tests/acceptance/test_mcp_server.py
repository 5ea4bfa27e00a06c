"""A real MCP client uses the memory of a home, over standard input and over HTTP."""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Implementation, TextContent, TextResourceContents

from acceptance.agents import environment
from acceptance.program import NEXUS, nexus
from acceptance.running import serving
from nexus.home import Home
from nexus.testing import ModelServer, ToolCall, Turn

_TOOLS = {"recall", "remember", "reflect", "entity_timeline", "recent_episodes"}
_INFO = Implementation(name="shelf-agent", version="3.1")


@asynccontextmanager
async def _stdio(home: Path, mode: str = "auto", env: dict[str, str] | None = None) -> AsyncGenerator[Client]:
    server = StdioServerParameters(command=str(NEXUS), args=["--home", str(home), "mcp", "serve"], env=env)
    async with Client(stdio_client(server), client_info=_INFO, mode=mode) as client:
        yield client


@asynccontextmanager
async def _http(url: str, token: str, mode: str = "auto") -> AsyncGenerator[Client]:
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, client_info=_INFO, mode=mode) as client:
            yield client


async def test_every_tool_and_resource_over_standard_input(demo_home: Path) -> None:
    async with _stdio(demo_home) as client:
        await _use_everything(client, demo_home)


async def test_every_tool_and_resource_over_http(demo_home: Path) -> None:
    with serving(Home(demo_home)) as served:
        async with _http(served.told["url"], Home(demo_home).token()) as client:
            await _use_everything(client, demo_home)
        # A client of the older protocol, which begins with a handshake.
        async with _http(served.told["url"], Home(demo_home).token(), mode="legacy") as client:
            await _recalled(client, "hazelnuts", query="what must Tomas not eat?")
        # The same memory for a program that starts its own server, beside the one that serves.
        async with _stdio(demo_home, mode="legacy") as client:
            told = _json(await client.call_tool("entity_timeline", {"entity": "Bo Larsen"}))
            assert told["observations"][0]["said_by"] == "shelf-agent"
        for token in ("", "wrong"):
            with pytest.raises((MCPError, ExceptionGroup, httpx2.HTTPError)):
                async with _http(served.told["url"], token) as client:
                    await client.list_tools()


async def test_reflect_asks_a_model_that_searches_the_memory(demo_home: Path) -> None:
    with ModelServer() as server:
        server.script(
            Turn("", [ToolCall("search_facts", {"query": "Where does Clara live?"})]),
            lambda request: f"In Rotterdam [{re.findall(r'- .(fact_[A-Z0-9]+)', str(request.json))[0]}].",
        )
        async with _stdio(demo_home, env=environment(server)) as client:
            told = _json(await client.call_tool("reflect", {"question": "Where does Clara live?"}))
    assert told["answer"].startswith("In Rotterdam [fact_")
    assert "Clara" in told["sources"][0]["text"]
    traced = nexus(demo_home, "trace", told["request_id"]).stdout
    assert "Where does Clara live?" in traced
    assert "search_facts" in traced


async def _use_everything(client: Client, home: Path) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == _TOOLS
    for tool in tools.values():
        assert tool.description
        assert tool.output_schema
    await _use_tools(client)
    await _use_resources(client)
    _check_provenance(home)


async def _use_tools(client: Client) -> None:
    found = await _recalled(client, "Rotterdam", query="where does Clara live now?", scope=["facts"])
    assert all(memory["source_event_id"] for memory in found)
    fact = {
        "fact": "Bo Larsen repairs lighthouse lenses in Esbjerg",
        "about": "Bo Larsen",
        "about_type": "Person",
        "relation": "LIVES_IN",
        "target": "Esbjerg",
        "target_type": "Place",
        "as_of": "2026-05-01",
        "confidence": 0.8,
    }
    written = _json(await client.call_tool("remember", fact))
    assert written["new_entities"] == ["Bo Larsen", "Esbjerg"]
    # The message and the fact say the same: one of them stands for both.
    await _recalled(client, str(fact["fact"]), query="who repairs lighthouse lenses?")
    timeline = _json(await client.call_tool("entity_timeline", {"entity": "Bo Larsen"}))
    assert [each["fact"] for each in timeline["observations"]] == [fact["fact"]]
    refused = await client.call_tool("reflect", {"question": "What changed this month?"})
    assert refused.is_error
    assert "No model is set" in _text(refused)
    episodes = _json(await client.call_tool("recent_episodes", {"entity": "Leo Holm", "limit": 3}))
    assert len(episodes["episodes"]) == 3
    unknown = await client.call_tool("entity_timeline", {"entity": "Nobody At All"})
    assert unknown.is_error
    assert "No entity is called" in _text(unknown)
    wrong = await client.call_tool("recall", {"query": "Clara", "after": "the day before"})
    assert wrong.is_error
    assert "2026-05-01" in _text(wrong)


async def _recalled(client: Client, wanted: str, **question: Any) -> list[dict[str, Any]]:
    """What is found, once it holds the wanted text: on a busy machine a way of searching may be left out."""
    found: dict[str, Any] = {}
    for _ in range(10):
        found = _json(await client.call_tool("recall", question))
        if any(wanted in memory["text"] for memory in found["memories"]):
            return found["memories"]
        await asyncio.sleep(1)
    raise AssertionError(f"{wanted!r} is not in {found}")


async def _use_resources(client: Client) -> None:
    listed = {str(resource.uri) for resource in (await client.list_resources()).resources}
    assert listed == {"nexus://schema", "nexus://entities", "nexus://episodes/recent"}
    templates = (await client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == ["nexus://entities/{entity_id}"]
    assert "CREATE TABLE facts" in await _read(client, "nexus://schema")
    assert "Clara has moved" in await _read(client, "nexus://episodes/recent")
    entities = await _read(client, "nexus://entities")
    id_ = entities.partition("[Clara Holm](nexus://entities/")[2].partition(")")[0]
    assert "lives in Rotterdam now" in await _read(client, f"nexus://entities/{id_}")
    with pytest.raises(MCPError):
        await _read(client, "nexus://entities/ent_0")


def _check_provenance(home: Path) -> None:
    """Who wrote is in the record of what was said, which the fact points at."""
    with sqlite3.connect(home / "data" / "memory.db") as memory:
        (event_id,) = memory.execute(
            "SELECT source_event_id FROM facts WHERE fact LIKE 'Bo Larsen%'"
        ).fetchone()
    memory.close()
    with sqlite3.connect(home / "data" / "events.db") as events:
        said = events.execute("SELECT channel, sender FROM events WHERE id = ?", (event_id,)).fetchone()
    events.close()
    assert said == ("mcp", "shelf-agent")


async def _read(client: Client, uri: str) -> str:
    content = (await client.read_resource(uri)).contents[0]
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "text/markdown"
    return content.text


def _text(result: CallToolResult) -> str:
    content = result.content[0]
    assert isinstance(content, TextContent)
    return content.text


def _json(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, _text(result)
    assert result.structured_content == json.loads(_text(result))
    return result.structured_content
