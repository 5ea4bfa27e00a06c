"""This browser and the others: which get notifications, and logging out, which ends them."""

import asyncio
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from nexus import clock
from nexus.app import App
from nexus.errors import MissingError, UsageError
from nexus.gateway import push
from nexus.gateway.dashboard.render import get, keys_of, page, post, read_form, redirect
from nexus.gateway.errors import plain_page
from nexus.ledgers.runtime import push as subscriptions
from nexus.secrets import digest

_WORKER: Final = Path(__file__).parent.parent / "static" / "sw.js"
_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Mac OS", "macOS"),
    ("Windows", "Windows"),
    ("Linux", "Linux"),
)
# The more special name first: Edge calls itself Chrome too.
_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("Firefox", "Firefox"),
    ("Chrome", "Chrome"),
    ("CriOS", "Chrome"),
    ("Safari", "Safari"),
)


async def show_notifications(request: Request, app: App) -> Response:
    """Show the browsers that are notified, and a switch for this one."""
    available = push.is_available()
    return await page(
        request,
        "notifications.html",
        active="settings",
        available=available,
        key=await asyncio.to_thread(lambda: _make_sender(app).public_key) if available else "",
        browsers=await app.ledgers.runtime.read(subscriptions.subscriptions),
        extra=push.EXTRA,
        own=digest_session(request),
    )


async def subscribe(request: Request, app: App) -> Response:
    """Notify this browser from now on."""
    given = await read_form(request)
    keys = push.parse_subscription(given.text("endpoint"), given.text("p256dh"), given.text("auth"))
    if app.is_hosted:
        push.refuse_internal(keys)
    await app.ledgers.runtime.write(
        subscriptions.subscribe,
        keys,
        session=digest_session(request),
        browser=name_browser(request.headers.get("user-agent", "")),
        now=clock.timestamp(clock.now()),
    )
    return redirect("/notifications")


async def revoke(request: Request, app: App) -> Response:
    """Notify a browser no longer."""
    if not await app.ledgers.runtime.write(subscriptions.unsubscribe, request.path_params["id"]):
        raise MissingError(
            "This browser gets no notifications", hint="The page Notifications lists who does."
        )
    return redirect("/notifications")


async def turn_off(request: Request, app: App) -> Response:
    """A browser has turned its notifications off."""
    endpoint = (await read_form(request)).text("endpoint")
    await app.ledgers.runtime.write(subscriptions.unsubscribe_endpoint, endpoint)
    return redirect("/notifications")


async def test(request: Request, app: App) -> Response:
    """Send a notification to every browser now."""
    if not push.is_available():
        raise UsageError(
            "Notifications need more packages", hint=f"pip install 'nexus-runtime[{push.EXTRA}]'"
        )
    browsers = await app.ledgers.runtime.read(subscriptions.subscriptions)
    told = push.Notification(title="Nexus", body="Notifications work.", url="/notifications", tag="test")
    async with push.client(is_hosted=app.is_hosted) as client:
        await push.Notifier(app.ledgers, _make_sender(app), client).send(browsers, told)
    return redirect("/notifications")


async def send_worker_script(request: Request, app: App) -> Response:
    """The script that shows notifications while no page is open; at the root, to serve every page."""
    return FileResponse(_WORKER, media_type="text/javascript", headers={"cache-control": "no-cache"})


def digest_session(request: Request) -> str:
    """A digest of this browser's login, by which its subscription ends when it logs out."""
    secret = request.cookies.get(keys_of(request).cookie, "")
    return digest(secret).hex() if secret else ""


def name_browser(agent: str) -> str:
    """Name a browser as people call it."""
    browser = next((name for sign, name in _BROWSERS if sign in agent), "A browser")
    system = next((name for sign, name in _SYSTEMS if sign in agent), "")
    return f"{browser} on {system}" if system else browser


def _make_sender(app: App) -> push.Sender:
    return push.Sender(app.home, app.config.gateway.public_url)


async def log_out(request: Request, app: App) -> Response:
    """End the session of this browser, and with `everywhere` those of all others too."""
    keys = keys_of(request)
    if (await read_form(request)).text("everywhere"):
        await asyncio.to_thread(keys.browsers.end_all)
        await app.ledgers.runtime.write(subscriptions.forget_login, None)
        message = "All browsers logged out"
    else:
        await asyncio.to_thread(keys.browsers.end, request.cookies.get(keys.cookie, ""))
        await app.ledgers.runtime.write(subscriptions.forget_login, digest_session(request))
        message = "Logged out"
    answer = plain_page(200, message, "Run `nexus login` to log in again.")
    answer.delete_cookie(keys.cookie)
    return answer


ROUTES = (
    get("/sw.js", send_worker_script),
    get("/notifications", show_notifications),
    post("/notifications", subscribe),
    post("/notifications/off", turn_off),
    post("/notifications/test", test),
    post("/notifications/{id}/revoke", revoke),
    post("/logout", log_out),
)
