"""Pages from templates. Whatever comes from a ledger is escaped: it is other people's text.

A page is made on a thread, because Markdown takes its time; few at once, so that what waits for the ledgers
finds a thread too.
"""

import asyncio
import json
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse

from nexus import __version__
from nexus.gateway.dashboard import parts, periods, words
from nexus.memory.recall import item
from nexus.text import pluralize, strip_citations

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES: Final = Path(__file__).parent / "templates"
# No script or style inside of a page, nothing from elsewhere, no frame around it, no form to elsewhere.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {"content-security-policy": POLICY, "cache-control": "no-store"}
_FILTERS: Final = (
    "age", "amount", "argument_values", "code_spans", "count", "day", "link_citations", "markdown",
    "plain_words", "preview", "records", "short", "shorten_times", "size", "status_word",
    "tone", "took", "unit", "until", "when", "why",
)  # fmt: skip
_THEMES: Final = frozenset({"light", "dark"})
MOST_AT_ONCE: Final = 2
"""How many pages are made at the same moment; further ones wait."""
_PRETTIER: Final = 2


@cache
def environment() -> "Environment":
    """The templates with what they may call."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # a home starts sooner without it

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in _FILTERS:
        made.filters[name] = getattr(words, name)
    made.filters["strip_citations"] = strip_citations
    known = cast("dict[str, Any]", made.globals)
    known.update(
        most_calls=parts.MOST_CALLS, call_characters=parts.CALL_CHARACTERS, period_choices=periods.CHOICES
    )
    made.filters["label"] = item.label
    cast("dict[str, Any]", made.filters)["plural"] = pluralize
    made.filters["segment"] = segment
    made.filters["pretty"] = pretty
    made.filters["outcome"] = outcome
    return made


async def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A whole page, or the part of one that a template holds."""
    theme = request.cookies.get("theme", "")
    render = partial(
        environment().get_template(template).render,
        path=request.url.path,
        query=dict(request.query_params),
        link=partial(_link, request),
        theme=theme if theme in _THEMES else "",
        version=__version__,
        **values,
    )
    async with cast("asyncio.Semaphore", request.app.state.making):
        text = await asyncio.to_thread(render)
    return HTMLResponse(text, status, headers=_HEADERS)


def is_part(request: Request) -> bool:
    """Whether the script of a page asks for a part of it."""
    return request.headers.get("hx-request") == "true"


def segment(text: str) -> str:
    """Any text as one part of a path."""
    return quote(text, safe="")


def pretty(value: Any) -> str:
    """A value as people read JSON; as it came where indenting would make much more of it."""
    given = value if isinstance(value, str) else ""
    try:
        read = json.loads(value) if given else value
    except (ValueError, RecursionError):
        return given
    text = json.dumps(read, indent=2, ensure_ascii=False, default=str)
    return given if given and len(text) > _PRETTIER * len(given) + 200 else text


def outcome(result: str) -> str:
    """What came of an automation's run: what its log says in words, or all that it returned."""
    try:
        log = json.loads(result)["log"]
        return str(log.get("said") or log["waits"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return pretty(result)


def _link(request: Request, **changed: object) -> str:
    """This page with other values in its query; an empty one leaves it out."""
    values = {**request.query_params, **changed}
    kept = {name: value for name, value in values.items() if value not in (None, "")}
    return f"{request.url.path}?{urlencode(kept)}" if kept else request.url.path
