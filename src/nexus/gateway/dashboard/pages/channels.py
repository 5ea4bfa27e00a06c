"""Channels: their state, what they couldn't process or send, and what can be done about it."""

from dataclasses import asdict
from typing import Any

import apsw
from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.config import Config
from nexus.errors import MissingError, UsageError
from nexus.gateway.dashboard.endpoint import back, get, post
from nexus.gateway.dashboard.render import page
from nexus.ledgers.runtime import channels as ledger


async def listed(request: Request, app: App) -> Response:
    """Every channel of the settings, and the messages that were set aside."""
    found = await app.ledgers.runtime.read(_states, config=app.config)
    aside = await app.ledgers.runtime.read(ledger.those_set_aside)
    return await page(request, "channels.html", active="settings", channels=found, aside=aside)


async def change(request: Request, app: App) -> Response:
    """Pause or resume a channel, or send again what failed."""
    name, to = request.path_params["name"], request.path_params["to"]
    if name not in app.config.channels:
        raise MissingError(f"Unknown channel {name}", hint="The page Channels lists them.")
    if to == "retry":
        await app.ledgers.runtime.write(ledger.retry, channel=name)
        app.channels.wake(name)
    elif to in {"pause", "resume"}:
        await app.ledgers.runtime.write(ledger.pause, name=name, paused=to == "pause")
    else:
        raise UsageError(f"Unknown action for a channel: `{to}`")
    return back("/channels")


async def settle(request: Request, app: App) -> Response:
    """Process a message again that was set aside, or remove it."""
    id_, to = request.path_params["id"], request.path_params["to"]
    if to not in {"retry", "dismiss"}:
        raise UsageError(f"Unknown action for a message: `{to}`")
    if to == "retry":
        done = await app.channels.retry(id_)
    else:
        done = await app.ledgers.runtime.write(ledger.take, id_=id_)
    if not done:
        raise MissingError(f"No message {id_} was set aside", hint="The page Channels lists them.")
    return back("/channels")


def _states(connection: apsw.Connection, config: Config) -> list[dict[str, Any]]:
    return [
        {
            "kind": settings.kind,
            **asdict(ledger.state(connection, name)),
            **asdict(ledger.counts(connection, name)),
        }
        for name, settings in config.channels.items()
    ]


ROUTES = (
    get("/channels", listed),
    post("/channels/{name}/{to}", change),
    post("/set-aside/{id}/{to}", settle),
)
