"""Answers that say why nothing is done, in JSON or, for a person's browser, in a plain page."""

from html import escape
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, Response

_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Nexus</title>
<h1>{message}</h1><p>{hint}</p></html>"""


def refusal(status: int, message: str, hint: str, headers: Headers | None = None) -> Response:
    """A refusal, as a page where a browser asks for one. The connection ends with it."""
    closing = {"connection": "close"}
    if status == 401:
        closing["www-authenticate"] = 'Bearer realm="nexus"'
    if headers is not None and "text/html" in headers.get("accept", ""):
        page = _PAGE.format(message=escape(message), hint=escape(hint))
        return HTMLResponse(page, status_code=status, headers=closing)
    return JSONResponse({"message": message, "hint": hint}, status_code=status, headers=closing)
