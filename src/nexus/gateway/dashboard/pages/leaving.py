"""Logging out: this browser, or all of them."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard.endpoint import form, keys_of, post
from nexus.gateway.refusals import told


async def leave(request: Request, app: App) -> Response:
    """End the session of this browser, and with `everywhere` those of all others too."""
    keys = keys_of(request)
    if (await form(request)).text("everywhere"):
        await asyncio.to_thread(keys.browsers.end_all)
        message = "All browsers logged out"
    else:
        await asyncio.to_thread(keys.browsers.end, request.cookies.get(keys.cookie, ""))
        message = "Logged out"
    answer = told(200, message, "Run `nexus login` to log in again.")
    answer.delete_cookie(keys.cookie)
    return answer


ROUTES = (post("/logout", leave),)
