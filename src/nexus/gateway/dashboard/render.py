"""Pages from templates. Whatever comes from a ledger is escaped: it is other people's text.

A page is made on a thread, because Markdown takes its time; few at once, so that what waits for the ledgers
finds a thread too.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, partial, wraps
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl, quote, urlencode

from markupsafe import escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from nexus import __version__, clock
from nexus.app import App
from nexus.errors import NexusError
from nexus.gateway.dashboard import words
from nexus.gateway.dependencies import served_by
from nexus.gateway.errors import status_of
from nexus.gateway.guard import Keys
from nexus.gateway.views.sessions import Message
from nexus.memory.recall import item
from nexus.memory.views.events import Said
from nexus.memory.views.page import ALWAYS, Page, Period, parse_position
from nexus.text import pluralize, strip_citations

if TYPE_CHECKING:
    from jinja2 import Environment

PART_CHARACTERS: Final = 16_000
MOST_CALLS: Final = 10
"""So many calls of tools are shown with a message."""
CALL_CHARACTERS: Final = 600
# Answers are Markdown, of which more becomes than of what is only escaped.
_MESSAGES_SIZE: Final = 60_000
_EPISODE_SIZE: Final = 120_000
_LINE_CHARACTERS: Final = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a text; `next` is where the following one begins, and None where this is the last."""

    text: str
    next: int | None
    whole: int
    """How many characters the text has."""


def cut_part(text: str, start: int = 0, most: int = PART_CHARACTERS) -> Part:
    """Cut the part of a text that begins there; it ends with a line, if lines are short enough."""
    cut = text[start : start + most]
    if start + most >= len(text):
        return Part(text=cut, next=None, whole=len(text))
    line = cut.rfind("\n", len(cut) - _LINE_CHARACTERS)
    cut = cut[: line + 1] if line > 0 else cut
    return Part(text=cut, next=start + len(cut), whole=len(text))


def read_position(request: Request, name: str = "from") -> int:
    """Read where the part that is asked for begins; 0 by default."""
    return parse_position(request.query_params.get(name) or "0")


def fit_messages(found: Page[Message]) -> Page[Message]:
    """Choose the newest of some messages that fit on a page together; the next page has the others."""
    size, kept = 0, list[Message]()
    for message in reversed(found.items):
        size += _measure(message)
        if kept and size > _MESSAGES_SIZE:
            return Page(items=tuple(reversed(kept)), next=str(kept[-1].position))
        kept.append(message)
    return found


def fit_beginning(said: Sequence[Said]) -> list[Said]:
    """Choose the first of some messages that fit on a page together."""
    sizes = accumulate(len(escape(each.content)) for each in said)
    fits = [each for each, size in zip(said, sizes, strict=True) if size <= _EPISODE_SIZE]
    return fits or list(said[:1])


def _measure(message: Message) -> int:
    calls = message.calls[:MOST_CALLS]
    texts = [message.content, message.said or "", *(call.arguments[:CALL_CHARACTERS] * 2 for call in calls)]
    texts += [(call.error or call.result or "")[:CALL_CHARACTERS] for call in calls]
    return sum(len(escape(text)) for text in texts)


CUSTOM: Final = "custom"
CHOICES: Final = (
    ("", "Any time"),
    ("1", "Today"),
    ("7", "Last 7 days"),
    ("30", "Last 30 days"),
    ("90", "Last 90 days"),
    (CUSTOM, "Custom dates…"),
)
_DAYS: Final = {"1": 1, "7": 7, "30": 30, "90": 90}


def read_period(request: Request, now: clock.Clock = clock.now) -> Period:
    """Read what a person chose. Days are UTC days; one that is no day is left out."""
    query = request.query_params
    chosen = query.get("when", "")
    if days := _DAYS.get(chosen):
        return Period(since=clock.day(now() - timedelta(days=days - 1)))
    if chosen != CUSTOM:
        return ALWAYS
    since, until = _parse_day(query.get("since")), _parse_day(query.get("until"))
    return Period(
        since=since.isoformat() if since else ALWAYS.since,
        until=(until + timedelta(days=1)).isoformat() if until and until < date.max else ALWAYS.until,
    )


def _parse_day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text or "")
    except ValueError:
        return None


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
    known.update(most_calls=MOST_CALLS, call_characters=CALL_CHARACTERS, period_choices=CHOICES)
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


Show = Callable[[Request, App], Awaitable[Response]]


class Form:
    """What a form was sent with."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that were sent."""
        return tuple(dict.fromkeys(key for key, _ in self._pairs))

    def text(self, name: str) -> str:
        """A field's text without what surrounds it; an empty one where it was not filled in."""
        return next((value.strip() for key, value in self._pairs if key == name), "")

    def raw(self, name: str) -> str:
        """A field's text as it was typed, but for how its lines end."""
        found = next((value for key, value in self._pairs if key == name), "")
        return found.replace("\r\n", "\n")

    def all(self, name: str) -> list[str]:
        return [value.strip() for key, value in self._pairs if key == name and value.strip()]


async def read_form(request: Request) -> Form:
    """Read the fields of a form that a browser sent in the usual encoding."""
    body = (await request.body()).decode("utf-8", "replace")
    return Form(parse_qsl(body, keep_blank_values=True))


def get(path: str, show: Show) -> Route:
    return Route(path, _make_endpoint(show), methods=["GET"], include_in_schema=False)


def post(path: str, act: Show) -> Route:
    return Route(path, _make_endpoint(act), methods=["POST"], include_in_schema=False)


def keys_of(request: Request) -> Keys:
    """What lets browsers in."""
    return served_by(request).keys


def redirect(path: str) -> Response:
    """Have the browser look at a page after something was done."""
    return RedirectResponse(path, status_code=303)


def read_number(request: Request, name: str, default: int, *, among: tuple[int, ...]) -> int:
    """Read a number from the query; the default, unless it is one of those offered."""
    text = request.query_params.get(name, "")
    found = int(text) if text.isdecimal() and len(text) < 10 else default
    return found if found in among else default


def _make_endpoint(show: Show) -> Callable[[Request], Awaitable[Response]]:
    @wraps(show)
    async def respond(request: Request) -> Response:
        try:
            return await show(request, served_by(request).app)
        except NexusError as error:
            template = "part_error.html" if is_part(request) else "error.html"
            return await page(request, template, status_of(error), error=error, active=None)

    return respond
