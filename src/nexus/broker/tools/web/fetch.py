"""The `web_fetch` tool: read a public page, as data from a stranger."""

from collections.abc import Awaitable, Callable

from nexus.broker.tools.tool import Arguments, Context, Tool, parameters
from nexus.broker.tools.web.download import Downloader
from nexus.broker.tools.web.text import text_of
from nexus.context.wrapping import wrapped
from nexus.errors import ToolError

_SHOWN_CHARACTERS = 20_000


Given = Callable[[Context, str], Awaitable[bool]]
"""Whether a person wrote a URL in the conversation, or one of the web tools showed it."""


def web_fetch(downloader: Downloader | None = None, given: Given | None = None) -> Tool:
    """The tool over a downloader; the default one reaches public addresses alone.

    With `given` it reads no page whose URL the model made up: whoever talks a model into one could have it
    put in what it knows.
    """
    downloads = downloader or Downloader()

    async def run(arguments: Arguments, context: Context) -> str:
        if given is not None and not await given(context, _bare(arguments["url"])):
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


def _bare(url: str) -> str:
    """A URL as people write it down: without its scheme, its fragment and a slash at its end."""
    return url.strip().partition("://")[2].partition("#")[0].rstrip("/")


def _render_page(url: str, title: str, text: str, offset: int) -> str:
    part = text[offset : offset + _SHOWN_CHARACTERS]
    rest = len(text) - offset - len(part)
    head = [f"# {title}"] if title and not offset else []
    page = wrapped("web_page", "\n\n".join([*head, part or "(no text)"]), url=url)
    if rest <= 0:
        return page
    return f"{page}\n{rest:,} more characters: call again with offset={offset + len(part)}."
