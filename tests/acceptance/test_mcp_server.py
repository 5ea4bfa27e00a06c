"""A real MCP client uses the memory of a home, over standard input and over HTTP."""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncGenerator, Iterator
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

_QUESTION = "Where does Clara live?"
_ABOUT_ROTTERDAM = re.compile(r"- .(fact_\w+)(?:(?!- .fact_).)*?Rotterdam")
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


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model that searches the facts, and then answers from the first that names the place."""
    with ModelServer() as server:
        server.script(
            Turn("", [ToolCall("search_facts", {"query": _QUESTION})]),
            lambda request: f"In Rotterdam [{_ABOUT_ROTTERDAM.findall(str(request.json))[0]}].",
        )
        yield server


class _Session:
    """What a client does, and which tools and resources it has used."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.called: set[str] = set()
        self.read_uris: set[str] = set()

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers, in both of its forms."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, _text(result)
        assert result.structured_content == json.loads(_text(result))
        self.called.add(tool)
        return result.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        """What a tool says that cannot answer."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error
        return _text(result)

    async def read(self, uri: str) -> str:
        """The page of a resource."""
        content = (await self.client.read_resource(uri)).contents[0]
        assert isinstance(content, TextResourceContents)
        assert content.mime_type == "text/markdown"
        self.read_uris.add(uri)
        return content.text

    async def recalled(self, wanted: str, **question: Any) -> list[dict[str, Any]]:
        """What is found, once it holds the wanted text: on a busy machine a way of searching may be late."""
        found: dict[str, Any] = {}
        for _ in range(10):
            found = await self.call("recall", **question)
            if any(wanted in memory["text"] for memory in found["memories"]):
                return found["memories"]
            await asyncio.sleep(1)
        raise AssertionError(f"{wanted!r} is not in {found}")


async def test_every_tool_and_resource_over_standard_input(demo_home: Path, model: ModelServer) -> None:
    async with _stdio(demo_home, env=environment(model)) as client:
        await _use_everything(_Session(client), demo_home)


async def test_every_tool_and_resource_over_http(demo_home: Path, model: ModelServer) -> None:
    token = Home(demo_home).token()
    with serving(Home(demo_home), environment(model)) as served:
        async with _http(served.url, token) as client:
            await _use_everything(_Session(client), demo_home)
        # A client of the older protocol, which begins with a handshake.
        async with _http(served.url, token, mode="legacy") as client:
            await _Session(client).recalled("hazelnuts", query="what must Tomas not eat?")
        # The same memory for a program that starts its own server, beside the one that serves.
        async with _stdio(demo_home, mode="legacy") as client:
            beside = _Session(client)
            told = await beside.call("entity_timeline", entity="Bo Larsen")
            assert told["observations"][0]["said_by"] == "shelf-agent"
            await beside.recalled("hazelnuts", query="what must Tomas not eat?")
            assert "No model configured" in await beside.refused("reflect", question="What changed?")
        for wrong in ("", "wrong"):
            with pytest.raises((MCPError, ExceptionGroup, httpx2.HTTPError)):
                async with _http(served.url, wrong) as client:
                    await client.list_tools()


async def _use_everything(session: _Session, home: Path) -> None:
    tools = (await session.client.list_tools()).tools
    assert all(tool.description and tool.output_schema for tool in tools)
    await _search(session)
    await _remember(session, home)
    await _reflect(session, home)
    assert session.called == {tool.name for tool in tools}
    assert session.called == {"recall", "remember", "reflect", "entity_timeline", "recent_episodes"}
    await _read_resources(session)


async def _search(session: _Session) -> None:
    found = await session.recalled("Rotterdam", query="where does Clara live now?", scope=["facts"])
    assert all(memory["source_event_id"] for memory in found)
    episodes = await session.call("recent_episodes", entity="Leo Holm", limit=3)
    assert len(episodes["episodes"]) == 3
    assert "No entity is called" in await session.refused("entity_timeline", entity="Nobody At All")
    assert "2026-05-01" in await session.refused("recall", query="Clara", after="the day before")


async def _remember(session: _Session, home: Path) -> None:
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
    written = await session.call("remember", **fact)
    assert written["new_entities"] == ["Bo Larsen", "Esbjerg"]
    # The message and the fact say the same: one of them stands for both.
    await session.recalled(str(fact["fact"]), query="who repairs lighthouse lenses?")
    timeline = await session.call("entity_timeline", entity="Bo Larsen")
    assert [each["fact"] for each in timeline["observations"]] == [fact["fact"]]
    _check_provenance(home)


async def _reflect(session: _Session, home: Path) -> None:
    """A model searches the memory, and its answer names what it rests on."""
    told = await session.call("reflect", question=_QUESTION, save_as="Clara's home")
    assert told["answer"].startswith("In Rotterdam [fact_")
    assert "Clara" in told["sources"][0]["text"]
    assert told["mental_model_id"]
    traced = nexus(home, "trace", told["request_id"]).stdout
    assert _QUESTION in traced
    assert "search_facts" in traced


async def _read_resources(session: _Session) -> None:
    listed = {str(resource.uri) for resource in (await session.client.list_resources()).resources}
    templates = (await session.client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == ["nexus://entities/{entity_id}"]
    assert "CREATE TABLE facts" in await session.read("nexus://schema")
    # Which are the latest depends on how far the home's upkeep has come.
    assert re.search(
        r"- 2026-05-\d\d \d\d:\d\d .+ \(\w+, epi_", await session.read("nexus://episodes/recent")
    )
    entities = await session.read("nexus://entities")
    assert session.read_uris == listed
    id_ = entities.partition("[Clara Holm](nexus://entities/")[2].partition(")")[0]
    assert "lives in Rotterdam now" in await session.read(f"nexus://entities/{id_}")
    with pytest.raises(MCPError):
        await session.read("nexus://entities/ent_0")


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


def _text(result: CallToolResult) -> str:
    content = result.content[0]
    assert isinstance(content, TextContent)
    return content.text
