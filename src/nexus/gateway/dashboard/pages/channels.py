"""Channels: their state, what they couldn't process or send, and what can be done about it."""

from dataclasses import asdict, replace
from typing import Any

import apsw
from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.automations import when
from nexus.channels import kinds, quiet
from nexus.config import Config
from nexus.errors import ConfigError, MissingError, UsageError
from nexus.gateway.dashboard.endpoint import back, form, get, post
from nexus.gateway.dashboard.periods import period
from nexus.gateway.dashboard.render import page
from nexus.gateway.views.page import address
from nexus.ledgers.identity import access
from nexus.ledgers.runtime import channels as ledger


async def listed(request: Request, app: App) -> Response:
    """Every channel of the settings, and the messages that were set aside."""
    found = await app.ledgers.runtime.read(_states, config=app.config)
    days = period(request)
    aside = await app.ledgers.runtime.read(ledger.those_set_aside, since=days.since, until=days.until)
    asking = len(await app.ledgers.identity.read(access.asking))
    return await page(request, "channels.html", active="settings", channels=found, aside=aside, asking=asking)


async def one(request: Request, app: App) -> Response:
    """A channel, its settings, and what it couldn't send."""
    name = _known(request, app)
    state = await app.ledgers.runtime.read(ledger.state, name=name)
    days = period(request)
    failed = await app.ledgers.runtime.read(
        ledger.deliveries, channel=name, status="failed", since=days.since, until=days.until
    )
    states = await app.ledgers.runtime.read(_states, config=app.config)
    return await page(
        request,
        "channel.html",
        active="settings",
        it=next(each for each in states if each["name"] == name),
        chosen=kinds.effective(app.config.channels[name], state),
        overrides=(state.answer, state.quiet_hours, state.zone) != (None, None, None),
        zone=app.config.automations.zone or when.local_zone(),
        failed=failed,
    )


async def change(request: Request, app: App) -> Response:
    """Change a channel's settings, pause or resume it, or send again what failed."""
    name, to = _known(request, app), request.path_params["to"]
    if to in {"settings", "reset"}:
        await _set(request, app, name, reset=to == "reset")
        return back(address("channels", name))
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


async def _set(request: Request, app: App, name: str, *, reset: bool) -> None:
    given, state = await form(request), ledger.ChannelState(name=name)
    if not reset:
        answer = given.text("answer")
        if answer not in {"addressed", "always", "never"}:
            raise UsageError(f"Unknown answer in groups: `{answer}`")
        state = replace(state, answer=answer, quiet_hours=given.text("quiet_hours"), zone=given.text("zone"))
        try:
            quiet.parsed(given.text("quiet_hours"), given.text("zone"))
        except ConfigError as error:
            raise UsageError(error.message, hint=error.hint) from error
    await app.ledgers.runtime.write(
        ledger.set_, name=name, answer=state.answer, quiet_hours=state.quiet_hours, zone=state.zone
    )
    app.channels.wake(name)


def _known(request: Request, app: App) -> str:
    name = str(request.path_params["name"])
    if name not in app.config.channels:
        raise MissingError(f"Unknown channel {name}", hint="The page Channels lists them.")
    return name


def _states(connection: apsw.Connection, config: Config) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, settings in config.channels.items():
        state = ledger.state(connection, name)
        chosen = kinds.effective(settings, state)
        picture = {"kind": settings.kind, **asdict(state), "quiet_hours": chosen.quiet_hours}
        found.append({**picture, **asdict(ledger.counts(connection, name))})
    return found


ROUTES = (
    get("/channels", listed),
    get("/channels/{name}", one),
    post("/channels/{name}/{to}", change),
    post("/set-aside/{id}/{to}", settle),
)
