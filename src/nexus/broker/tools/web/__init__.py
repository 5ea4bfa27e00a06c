"""The web: read a public page, search. What comes back was written by strangers."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast
from urllib.parse import urlencode

from nexus.broker.tools.tool import Arguments, Context, Tool, parameters
from nexus.broker.tools.web.download import Download, Downloader, Limits, any_network
from nexus.broker.tools.web.text import text_of
from nexus.config import WebConfig
from nexus.context.wrapping import wrapped
from nexus.errors import ToolError

__all__ = ["NAMES", "web_fetch", "web_search", "web_tools"]


NAMES = ("web_fetch", "web_search")
WEB_SEARCH: Final = "web_search"
"""The name of the tool, and of the right to search: a provider's own search is subject to it too."""
_MOST_RESULTS: Final = 8
_SHOWN_CHARACTERS: Final = 300
_SHOWN_OF_PAGE = 20_000
Given = Callable[[Context, str], Awaitable[bool]]
"""Whether a person wrote a URL in the conversation, or one of the web tools showed it."""


def web_fetch(downloader: Downloader | None = None, given: Given | None = None) -> Tool:
    """The tool over a downloader; the default one reaches public addresses alone.

    With `given` it reads no page whose URL the model made up: whoever talks a model into one could have it
    put in what it knows.
    """
    downloads = downloader or Downloader()

    async def run(arguments: Arguments, context: Context) -> str:
        if given is not None and not await given(context, _strip_url(arguments["url"])):
            raise ToolError(
                "This URL is not in the conversation, on a fetched page or in search results",
                hint="Ask for the URL. `fetch` in [web] of config.toml can allow any.",
            )
        got = await downloads.get(arguments["url"])
        found = await text_of(
            got.body, got.media_type, got.charset, url=got.url, cgroup=context.sandbox.cgroup
        )
        return _render_page(got.url, found.title, found.text.strip(), arguments.get("offset", 0))

    return Tool(
        name="web_fetch",
        description="Read a web page or PDF as text, by a URL from the conversation, a page or a search.",
        parameters=parameters(
            "url",
            url={"type": "string"},
            offset={"type": "integer", "minimum": 0},
        ),
        run=run,
        repeatable=True,
        reads_others=True,
    )


def _strip_url(url: str) -> str:
    """A URL as people write it down: without its scheme, its fragment and a slash at its end."""
    return url.strip().partition("://")[2].partition("#")[0].rstrip("/")


def _render_page(url: str, title: str, text: str, offset: int) -> str:
    part = text[offset : offset + _SHOWN_OF_PAGE]
    rest = len(text) - offset - len(part)
    head = [f"# {title}"] if title and not offset else []
    page = wrapped("web_page", "\n\n".join([*head, part or "(no text)"]), url=url)
    if rest <= 0:
        return page
    return f"{page}\n{rest:,} more characters: call again with offset={offset + len(part)}."


def web_search(url: str, *, provider: bool) -> Tool:
    """The tool over the search API at a URL, such as `http://localhost:8888/search`.

    With `provider`, models that have a search tool of their provider's use that; the URL may be empty then.
    """
    # The owner chose that address, so it may be on this machine; the model chooses the words alone.
    downloader = Downloader(network=any_network(), limits=Limits(redirects=0))

    async def run(arguments: Arguments, context: Context) -> str:
        query = urlencode({"q": arguments["query"], "format": "json"})
        got = await downloader.get(f"{url}{'&' if '?' in url else '?'}{query}")
        return wrapped("web_results", "\n".join(_render_results(got)) or "(no results)")

    return Tool(
        name=WEB_SEARCH,
        description="Search the web.",
        parameters=parameters("query", query={"type": "string"}),
        run=run,
        repeatable=True,
        reads_others=True,
        native=WEB_SEARCH if provider else "",
        is_local=bool(url),
    )


def _render_results(got: Download) -> list[str]:
    try:
        results = cast("list[dict[str, Any]]", json.loads(got.body)["results"])
        return [_render_result(result) for result in results[:_MOST_RESULTS]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ToolError(
            "The search API did not answer with results",
            hint="Check `search_url` in [web] of config.toml; SearXNG must allow the format `json`.",
        ) from None


def _render_result(result: dict[str, Any]) -> str:
    title, about = (" ".join(str(result.get(key) or "").split()) for key in ("title", "content"))
    return f"- {title[:_SHOWN_CHARACTERS]} <{result['url']}>\n  {about[:_SHOWN_CHARACTERS]}".rstrip()


def web_tools(config: WebConfig, given: Given) -> list[Tool]:
    """The web tools that the settings enable."""
    tools: list[Tool] = []
    if config.fetch != "off":
        tools.append(web_fetch(given=given if config.fetch == "given" else None))
    if config.search_url or config.provider_search:
        tools.append(web_search(config.search_url, provider=config.provider_search))
    return tools
