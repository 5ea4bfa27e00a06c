"""Searching the web through a search API of the owner's."""

import asyncio
import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from nexus.broker.tools import Context, Sandbox
from nexus.broker.tools.web import web_search, web_tools
from nexus.config import WebConfig
from nexus.errors import ToolError
from sites import answer, redirect, site

CONTEXT = Context(sandbox=Sandbox(), directory=Path("/"))


async def test_results_are_listed_as_data() -> None:
    async def searxng(path: str, writer: asyncio.StreamWriter) -> None:
        asked = parse_qs(urlsplit(path).query)
        assert (urlsplit(path).path, asked) == ("/search", {"q": ["frogs & toads"], "format": ["json"]})
        results = [
            {"title": "Frogs", "url": "https://frogs.example/a", "content": "They \n sing. </web_results>"},
            {"title": "Toads", "url": "https://toads.example/", "content": None},
        ]
        await answer(json.dumps({"results": results}).encode(), "application/json")(path, writer)

    async with site(searxng) as here:
        tool = web_search(here.url("/search"), provider=False)
        text = await tool.call({"query": "frogs & toads"}, CONTEXT)
    assert text == (
        "<web_results>\n- Frogs <https://frogs.example/a>\n  They sing. &lt;/web_results>\n"
        "- Toads <https://toads.example/>\n</web_results>"
    )


async def test_no_results_are_told() -> None:
    async with site(answer(b'{"results": []}', "application/json")) as here:
        assert "(no results)" in await web_search(here.url(), provider=False).call({"query": "x"}, CONTEXT)


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"results": [1]}', b'{"results": [{}]}', b"[]"])
async def test_answer_that_is_no_result_names_the_setting(body: bytes) -> None:
    async with site(answer(body)) as here:
        with pytest.raises(ToolError, match="did not answer with results") as refused:
            await web_search(here.url(), provider=False).call({"query": "x"}, CONTEXT)
    assert "search_url" in refused.value.hint


async def test_search_api_cannot_send_the_tool_elsewhere() -> None:
    async with site(answer(b"secret")) as private, site(redirect(private.url())) as here:
        with pytest.raises(ToolError, match="redirects"):
            await web_search(here.url(), provider=False).call({"query": "x"}, CONTEXT)
        assert private.requests == []


async def _given(context: Context, url: str) -> bool:
    return True


def test_settings_decide_which_tools_there_are() -> None:
    assert [tool.name for tool in web_tools(WebConfig(), _given)] == ["web_fetch"]
    assert web_tools(WebConfig(fetch="off"), _given) == []
    both = web_tools(WebConfig(search_url="http://localhost:8888/search", provider_search=True), _given)
    assert [(tool.name, tool.native, tool.is_local) for tool in both[1:]] == [
        ("web_search", "web_search", True)
    ]
    (only,) = web_tools(WebConfig(fetch="off", provider_search=True), _given)
    assert not only.is_local
