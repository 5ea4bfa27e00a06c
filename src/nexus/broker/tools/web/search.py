"""The `web_search` tool: a search API of the owner's choice that speaks SearXNG's JSON."""

import json
from typing import Any, Final, cast
from urllib.parse import urlencode

from nexus.broker.tools.tool import Arguments, Context, Tool, parameters
from nexus.broker.tools.web.addresses import any_network
from nexus.broker.tools.web.download import Download, Downloader, Limits
from nexus.context.wrapping import wrapped
from nexus.errors import ToolError

WEB_SEARCH: Final = "web_search"
"""The name of the tool, and of the right to search: a provider's own search is subject to it too."""
_MOST_RESULTS: Final = 8
_SHOWN_CHARACTERS: Final = 300


def web_search(url: str, *, provider: bool) -> Tool:
    """The tool over the search API at a URL, such as `http://localhost:8888/search`.

    With `provider`, models that have a search tool of their provider's use that; the URL may be empty then.
    """
    # The owner chose that address, so it may be on this machine; the model chooses the words alone.
    downloader = Downloader(network=any_network(), limits=Limits(redirects=0))

    async def run(arguments: Arguments, context: Context) -> str:
        query = urlencode({"q": arguments["query"], "format": "json"})
        got = await downloader.get(f"{url}{'&' if '?' in url else '?'}{query}")
        return wrapped("web_results", "\n".join(_lines(got)) or "(no results)")

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


def _lines(got: Download) -> list[str]:
    try:
        results = cast("list[dict[str, Any]]", json.loads(got.body)["results"])
        return [_line(result) for result in results[:_MOST_RESULTS]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ToolError(
            "The search API did not answer with results",
            hint="Check `search_url` in [web] of config.toml; SearXNG must allow the format `json`.",
        ) from None


def _line(result: dict[str, Any]) -> str:
    title, about = (" ".join(str(result.get(key) or "").split()) for key in ("title", "content"))
    return f"- {title[:_SHOWN_CHARACTERS]} <{result['url']}>\n  {about[:_SHOWN_CHARACTERS]}".rstrip()
