"""What every page's function is wrapped in: the home it is about, and errors as a page."""

from collections.abc import Awaitable, Callable
from functools import wraps
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from nexus.app import App
from nexus.errors import NexusError
from nexus.gateway.browsers import Keys
from nexus.gateway.dashboard.render import is_part, page
from nexus.gateway.dependencies import served_by
from nexus.gateway.errors import status_of

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
