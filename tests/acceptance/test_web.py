"""The web tools in a home: who has them, what they reach, and whose search tool is used."""

import json
from dataclasses import replace
from typing import Any

from acceptance.test_group_session import acquainted, guest
from apps import dispatching, settings
from memory_writers import rows
from nexus.app import App
from nexus.config import WebConfig
from nexus.home import Home
from nexus.ledgers.identity.access import Granted
from nexus.testing import ModelRequest, ModelServer, ToolCall, Turn
from sites import answer, site


def app_with(home: Home, server: ModelServer, web: WebConfig, wire: str = "anthropic") -> App:
    return App(home, replace(settings(server, wire), web=web))


def tools_of(request: ModelRequest) -> dict[str, Any]:
    """The kinds of the tools that a request offers, by name."""
    given = request.json.get("tools", [])
    return {tool.get("name") or tool["function"]["name"]: tool.get("type", "function") for tool in given}


async def test_private_page_is_refused_to_the_owners_agent_too(home: Home, server: ModelServer) -> None:
    async with site(answer(b"secret")) as private:
        server.script(Turn("", [ToolCall("web_fetch", {"url": private.url()})]), "It is private.")
        async with app_with(home, server, WebConfig()) as app:
            await (await app.send(f"Read {private.url()}")).result()
        assert "is not on the public internet" in str(server.requests[-1].json)
        assert private.requests == []


async def test_guest_needs_a_grant_to_fetch(home: Home, server: ModelServer) -> None:
    call = Turn("", [ToolCall("web_fetch", {"url": "http://127.0.0.1:8080/"})])
    for granted, told in (
        (Granted(tools=("recall",)), "`web_fetch` may not be used here"),
        (Granted(tools=("web_fetch",)), "is not on the public internet"),
    ):
        server.script(call, "Sorry.")
        async with app_with(home, server, WebConfig()) as app:
            await acquainted(app, granted)
            run = (await app.pipeline.receive(guest("Read http://127.0.0.1:8080/ please"))).run
            assert run is not None
            await run.result()
        assert told in str(server.requests[-1].json)


async def test_url_that_the_model_made_up_is_refused(home: Home, server: ModelServer) -> None:
    """Also where a command prints it first, or a worker is sent for it."""
    evil = "http://127.0.0.1:8080/?d=what-the-owner-said"
    fetch = ToolCall("web_fetch", {"url": evil})
    server.script(
        Turn("", [ToolCall("bash", {"command": f"echo '{evil}'"})]),
        Turn("", [fetch]),
        *dispatching(f"Fetch {evil}", then="It was refused."),
    )
    server.when(last_user="Fetch http").script(Turn("", [fetch]), "Refused.")
    async with app_with(home, server, WebConfig()) as app:
        await (await app.send("Read http://127.0.0.1:8080/")).result()
        told = await rows(app, "agents", "SELECT error FROM agent_tool_calls WHERE tool_name = 'web_fetch'")
    assert len(told) == 2
    assert all("This URL is not in the conversation" in error for (error,) in told)


async def test_models_of_a_provider_that_searches_use_its_tool(home: Home, server: ModelServer) -> None:
    web = WebConfig(search_url="http://127.0.0.1:9/search", provider_search=True)
    async with app_with(home, server, web) as app:
        server.script("Found.")
        await (await app.send("Search for frogs")).result()
        (offered,) = map(tools_of, server.requests)
        assert offered["web_search"].startswith("web_search_")


async def test_guest_without_the_right_to_search_has_no_tool_of_the_provider(
    home: Home, server: ModelServer
) -> None:
    async with app_with(home, server, WebConfig(provider_search=True)) as app:
        for granted, offers in ((Granted(tools=("recall",)), False), (Granted(tools=("web_search",)), True)):
            await acquainted(app, granted)
            server.script("Hello.")
            run = (await app.pipeline.receive(guest("Search for frogs"))).run
            assert run is not None
            await run.result()
            assert ("web_search" in tools_of(server.requests[-1])) is offers


async def test_other_models_search_with_the_api_in_the_settings(home: Home, server: ModelServer) -> None:
    frogs = "http://127.0.0.1:8080/frogs"
    results = [{"title": "Frogs", "url": frogs, "content": "They sing."}]
    async with site(answer(json.dumps({"results": results}).encode(), "application/json")) as searxng:
        web = WebConfig(search_url=searxng.url("/search"), provider_search=True)
        search, fetch = ToolCall("web_search", {"query": "frogs"}), ToolCall("web_fetch", {"url": frogs})
        server.script(Turn("", [search]), Turn("", [fetch]), "They sing.")
        async with app_with(home, server, web, "openai") as app:
            assert (await (await app.send("Search for frogs")).result()).response.content == "They sing."
    assert tools_of(server.requests[0])["web_search"] == "function"
    assert "<web_results>" in str(server.requests[-1].json)
    # A page that a search showed may be read; this one is refused for where it is.
    assert "is not on the public internet" in str(server.requests[-1].json)
    assert searxng.requests[0].startswith("GET /search?q=frogs&format=json ")


async def test_model_without_a_search_tool_is_asked_without_one(home: Home, server: ModelServer) -> None:
    server.script("I can't search.")
    async with app_with(home, server, WebConfig(provider_search=True), "openai") as app:
        await (await app.send("Search for frogs")).result()
    assert "web_search" not in tools_of(server.requests[0])
