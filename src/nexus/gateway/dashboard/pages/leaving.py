"""Logging out: this browser, or all of them. Notifications end with it."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard.endpoint import form, keys_of, post
from nexus.gateway.dashboard.pages.notifications import session
from nexus.gateway.refusals import told
from nexus.ledgers.runtime import push


async def leave(request: Request, app: App) -> Response:
    """End the session of this browser, and with `everywhere` those of all others too."""
    keys = keys_of(request)
    if (await form(request)).text("everywhere"):
        await asyncio.to_thread(keys.browsers.end_all)
        await app.ledgers.runtime.write(push.forget_login, None)
        message = "All browsers logged out"
    else:
        await asyncio.to_thread(keys.browsers.end, request.cookies.get(keys.cookie, ""))
        await app.ledgers.runtime.write(push.forget_login, session(request))
        message = "Logged out"
    answer = told(200, message, "Run `nexus login` to log in again.")
    answer.delete_cookie(keys.cookie)
    return answer


ROUTES = (post("/logout", leave),)
