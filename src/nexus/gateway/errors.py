"""How errors are told over HTTP: as problem details (RFC 9457) with a stable type and what to do next."""

import hashlib
import re
from base64 import b64encode
from html import escape
from http import HTTPStatus
from typing import Any, Final, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from nexus import errors
from nexus.engine.errors import (
    EngineBusyError,
    EngineFullError,
    EngineStateError,
    EngineUnreachableError,
    UnknownExecutionError,
)
from nexus.errors import NexusError, type_of

_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:34em;margin:18vh auto 0;"
    "padding:0 20px}h1{font-size:19px;margin:0 0 6px}p{margin:0;opacity:.75}code{font-size:13px}"
)
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Nexus</title><style>{style}</style>
<h1>{message}</h1><p>{hint}</p></html>"""
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MEDIA_TYPE: Final = "application/problem+json"
OPENAI: Final = "/v1/"
"""Below it is what speaks OpenAI's format."""
_OPENAI_CODES: Final = {401: "invalid_api_key", 404: "unknown_url", 429: "rate_limit_exceeded"}
# As RFC 9110 has them; Python's own changed from one version to the next.
_PHRASES: Final = {413: "Content Too Large", 422: "Unprocessable Content"}
_RETRY_AFTER_S: Final = 2
_TICKED: Final = re.compile(r"`([^`]+)`")


class _Problem(JSONResponse):
    """Problem details, in OpenAI's words where its clients ask."""

    def __init__(self, content: dict[str, Any], headers: dict[str, str] | None) -> None:
        super().__init__(content, content["status"], headers, MEDIA_TYPE)
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(OPENAI):
            status, detail, hint = (self._content[name] for name in ("status", "detail", "hint"))
            described = describe_for_openai(status, detail, hint, code=_OPENAI_CODES.get(status))
            self.body = self.render(described)
            self.headers["content-type"] = "application/json"
            self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def describe_for_openai(
    status: int, message: str, hint: str = "", *, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Describe an error as OpenAI does."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    said = f"{message.rstrip('.')}. {hint}" if hint else message
    return {"error": {"message": said, "type": kind, "param": param, "code": code}}


def problem(
    status: int,
    detail: str,
    hint: str = "",
    *,
    kind: type[NexusError] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """Say what went wrong as problem details. Without a kind of error, its type is that of the status."""
    phrase = _PHRASES.get(status) or HTTPStatus(status).phrase
    content = {
        "type": type_of(phrase) if kind is None else kind.type,
        "title": phrase if kind is None else (kind.__doc__ or phrase).partition("\n")[0].rstrip("."),
        "status": status,
        "detail": detail,
        "hint": hint,
    }
    return _Problem(content, headers)


def refusal(status: int, message: str, hint: str, headers: Headers | None = None) -> Response:
    """Refuse, as a page where a browser asks for one. The connection ends with it."""
    closing = {"connection": "close"}
    if status == 401:
        closing["www-authenticate"] = 'Bearer realm="nexus"'
    if headers is not None and "text/html" in headers.get("accept", ""):
        return plain_page(status, message, hint, closing)
    return problem(status, message, hint, headers=closing)


def try_later(message: str, hint: str = "Try again in a moment.") -> Response:
    """Nobody can answer now, and somebody can soon."""
    refused = refusal(503, message, hint)
    refused.headers["retry-after"] = str(_RETRY_AFTER_S)
    return refused


def refuse_unsigned() -> Response:
    """Refuse a hook without the right signature, whether there is such a hook or not."""
    return refusal(
        401, "The signature is missing, wrong or too old", "Sign the body with the channel's secret."
    )


def plain_page(status: int, message: str, hint: str, headers: dict[str, str] | None = None) -> Response:
    """Make a plain page that says one thing."""
    page = _PAGE.format(
        style=_STYLE, message=escape(message), hint=_TICKED.sub(r"<code>\1</code>", escape(hint))
    )
    return HTMLResponse(page, status, {**(headers or {}), "content-security-policy": _POLICY})


def leave_for(address: str, label: str) -> Response:
    """Have the browser go on from a page of ours."""
    to = escape(address)
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="0;url={to}"><title>Nexus</title>'
        f'<a href="{to}">{escape(label)}</a></html>'
    )


class Problem(BaseModel):
    """What every answer that is no success holds, as `application/problem+json` (RFC 9457)."""

    type: str = Field(description="Names the kind of error, and stays the same: see the reference of errors.")
    title: str = Field(description="The kind of error in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What failed.")
    hint: str = Field(default="", description="What to do.")


_NOT_ALLOWED = 405
_UNAVAILABLE = 503
# The first that fits counts.
_STATUS: tuple[tuple[type[errors.NexusError], int], ...] = (
    (errors.MissingError, 404),
    (UnknownExecutionError, 404),
    (errors.UnknownAutomationError, 404),
    (errors.UsageError, 400),
    (errors.AccessError, 403),
    (errors.LedgerBusyError, 503),
    (errors.FencedError, 503),
    (errors.LedgerClosedError, 503),  # the home closes, or moves to another host
    (EngineUnreachableError, 503),
    (EngineBusyError, 503),
    (EngineFullError, 507),
    (errors.LedgerFullError, 507),
    (errors.LedgerCorruptError, 500),
    (errors.ModelError, 502),
    (EngineStateError, 409),
    (errors.NexusError, 409),
)
_PROBLEM = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
RESPONSES: dict[int | str, dict[str, Any]] = {
    401: {**_PROBLEM, "description": "Missing or invalid API token"},
    429: {**_PROBLEM, "description": "Too many requests"},
    "4XX": {**_PROBLEM, "description": "The request is invalid"},
    "5XX": {**_PROBLEM, "description": "Server error"},
}
"""What any endpoint may answer beside a success."""


def install(server: FastAPI) -> None:
    """Make every error of the application a `Problem`."""
    server.add_exception_handler(errors.NexusError, _nexus)
    server.add_exception_handler(HTTPException, _http)
    server.add_exception_handler(RequestValidationError, _invalid)
    server.add_exception_handler(Exception, _unforeseen)


def status_of(error: errors.NexusError) -> int:
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def document(schema: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document with the shape of a problem, to which every endpoint refers."""
    schema["components"]["schemas"]["Problem"] = Problem.model_json_schema()
    return schema


async def _nexus(request: Request, error: Exception) -> JSONResponse:
    told = cast("errors.NexusError", error)
    return _answer(status_of(told), told.message, told.hint, type(told))


async def _http(request: Request, error: Exception) -> JSONResponse:
    told = cast("HTTPException", error)
    answer = _answer(told.status_code, str(told.detail), "See GET /api/openapi.json.")
    answer.headers.update(told.headers or {})
    if told.status_code == _NOT_ALLOWED:
        # The route that refused it names its own methods only.
        routes = [each for each in request.app.routes if isinstance(each, Route)]
        methods = {
            method
            for each in routes
            if each.matches(request.scope)[0] is Match.PARTIAL
            for method in each.methods or ()
        }
        if methods:
            answer.headers["Allow"] = ", ".join(sorted(methods))
    return answer


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    first = cast("RequestValidationError", error).errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return _answer(422, f"{place}: {first['msg']}", "See GET /api/openapi.json for the expected format.")


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, ImportError):
        return _answer(500, f"A module can't be loaded: {error}", errors.RESTART_AFTER_UPGRADE)
    return _answer(500, "Internal error", "See `nexus logs`.")


def _answer(
    status: int, message: str, hint: str, kind: type[errors.NexusError] | None = None
) -> JSONResponse:
    headers = {"Retry-After": "5"} if status == _UNAVAILABLE else None
    return problem(status, message, hint, kind=kind, headers=headers)
