"""Answers that say why nothing is done: problem details (RFC 9457) or, for a person's browser, a plain page.

Whoever is not logged in gets no style sheet either, so the page brings the little that it needs. Under /v1,
whose clients read nothing else, the same is said as OpenAI says it.
"""

import hashlib
import re
from base64 import b64encode
from html import escape
from http import HTTPStatus
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import Receive, Scope, Send

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
