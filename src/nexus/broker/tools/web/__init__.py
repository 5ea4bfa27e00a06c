"""The web: read a public page, search. What comes back was written by strangers."""

from nexus.broker.tools.tool import Tool
from nexus.broker.tools.web.fetch import Given, web_fetch
from nexus.broker.tools.web.search import web_search
from nexus.config import WebConfig

__all__ = ["NAMES", "web_fetch", "web_search", "web_tools"]


NAMES = ("web_fetch", "web_search")


def web_tools(config: WebConfig, given: Given) -> list[Tool]:
    """The web tools that the settings enable."""
    tools: list[Tool] = []
    if config.fetch != "off":
        tools.append(web_fetch(given=given if config.fetch == "given" else None))
    if config.search_url or config.provider_search:
        tools.append(web_search(config.search_url, provider=config.provider_search))
    return tools
