"""Channels: their state, what they couldn't process or send, and what can be done about it."""

import asyncio
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urlencode

import apsw
from starlette.requests import Request
from starlette.responses import Response

from nexus import config_file, secrets
from nexus.app import App
from nexus.automations import when
from nexus.channels import kinds
from nexus.channels.setup import KINDS, check_installed, check_login, check_name, propose_value
from nexus.config import ChannelConfig, Config
from nexus.config_file import Change
from nexus.errors import ConfigError, MissingError, NexusError, UsageError
from nexus.gateway.dashboard.render import Form, get, page, post, read_form, read_period, redirect
from nexus.gateway.dependencies import served_by
from nexus.gateway.errors import status_of
from nexus.gateway.views import address
from nexus.ledgers.identity import access
from nexus.ledgers.runtime import channels as ledger


async def list_channels(request: Request, app: App) -> Response:
    """List every channel of the settings, and the messages that were set aside."""
    found = await app.ledgers.runtime.read(_load_states, config=app.config)
    days = read_period(request)
    aside = await app.ledgers.runtime.read(ledger.list_set_aside, since=days.since, until=days.until)
    asking = len(await app.ledgers.identity.read(access.list_pairings))
    return await page(request, "channels.html", active="settings", channels=found, aside=aside, asking=asking)


async def show_channel(request: Request, app: App) -> Response:
    """Show a channel, its settings, and what it couldn't send."""
    name = _require_channel(request, app)
    state = await app.ledgers.runtime.read(ledger.state, name=name)
    days = read_period(request)
    failed = await app.ledgers.runtime.read(
        ledger.deliveries, channel=name, status="failed", since=days.since, until=days.until
    )
    states = await app.ledgers.runtime.read(_load_states, config=app.config)
    return await page(
        request,
        "channel.html",
        active="settings",
        it=next(each for each in states if each["name"] == name),
        chosen=kinds.apply_state(app.config.channels[name], state),
        overrides=(state.answer, state.quiet_hours, state.zone) != (None, None, None),
        zone=app.config.automations.zone or when.local_zone(),
        failed=failed,
    )


async def show_kinds(request: Request, app: App) -> Response:
    """Show the kinds of channels that can be added here."""
    return await page(request, "channel_new.html", active="settings", kinds=KINDS, kind=None)


async def show_form(
    request: Request, app: App, given: Form | None = None, error: Exception | None = None
) -> Response:
    """Ask for what a channel of a kind needs, with what was typed if it was refused."""
    kind = _read_kind(request)
    if request.method == "GET":
        try:
            check_installed(kind)
        except NexusError as missing:
            error = missing
    told = error if isinstance(error, NexusError) or error is None else UsageError(str(error))
    return await page(
        request,
        "channel_new.html",
        status_of(told) if told and request.method == "POST" else 200,
        active="settings",
        kind=kind,
        kinds=KINDS,
        given=given or Form([]),
        error=told,
    )


async def add(request: Request, app: App) -> Response:
    """Log in with what was given, write it to config.toml, and connect."""
    given, kind = await read_form(request), _read_kind(request)
    restart = served_by(request).restart
    if restart is None:
        raise UsageError("This home is set up by its host", hint="Add the channel in config.toml.")
    kept: list[str] = []
    try:
        name = given.text("name") or kind
        check_name(name, app.config.channels)
        values: dict[str, Any] = {"kind": kind}
        if given.text("url"):
            values["url"] = given.text("url")
        if given.text("no_tls"):
            values["tls"] = False
        for need in KINDS[kind].needs:
            values[need.key] = given.text(need.key) or ("" if need.is_secret else propose_value(need, values))
            if not values[need.key]:
                raise UsageError(f"{need.label} is missing")
            if need.is_secret and not secrets.is_source(values[need.key]):
                place = await asyncio.to_thread(
                    secrets.keep, values[need.key], f"{name}-{need.key}", app.home.secrets
                )
                values[need.key] = place
                kept.append(place)
        owner = [each.strip() for each in given.text("owner").split(",") if each.strip()]
        checked = await check_login(app.home, name, ChannelConfig(**values, owner=tuple(owner)))
        if kind == "email":
            values["auth_server"] = given.text("auth_server").strip()
            if not values["auth_server"]:
                raise UsageError(
                    "The name of your mail server is missing",
                    hint=f"{checked.said[-1]} Enter the name only if it is that of your own server.",
                )
        values["owner"] = owner or [each for each in [checked.owner] if each]
        changes = [Change(section=f"channels.{name}", key=key, value=value) for key, value in values.items()]
        await asyncio.to_thread(config_file.save, app.home.config_file, changes)
        restart()
    except (NexusError, ValueError) as error:
        for each in kept:
            await asyncio.to_thread(secrets.delete, each)
        return await show_form(request, app, given, error)
    said = urlencode({"added": name, "said": " ".join(checked.said), "owner": ", ".join(values["owner"])})
    return redirect(f"/channels?{said}")


def _read_kind(request: Request) -> str:
    kind = str(request.path_params["kind"])
    if kind not in KINDS:
        raise MissingError(f"Unknown kind of channel {kind:.40}", hint=f"Known: {', '.join(KINDS)}.")
    return kind


async def test(request: Request, app: App) -> Response:
    """Log in as a channel, and say what came of it. Nothing is sent."""
    name, error, told = _require_channel(request, app), None, list[str]()
    try:
        told = list((await check_login(app.home, name, app.config.channels[name])).said)
    except NexusError as refused:
        error = refused
    return await page(request, "part_model.html", told=told, error=error)


async def change(request: Request, app: App) -> Response:
    """Change a channel's settings, pause or resume it, or send again what failed."""
    name, to = _require_channel(request, app), request.path_params["to"]
    if to in {"settings", "reset"}:
        await _save_settings(request, app, name, reset=to == "reset")
        return redirect(address("channels", name))
    if to == "retry":
        await app.ledgers.runtime.write(ledger.retry, channel=name)
        app.channels.wake(name)
    elif to in {"pause", "resume"}:
        await app.ledgers.runtime.write(ledger.pause, name=name, paused=to == "pause")
    else:
        raise UsageError(f"Unknown action for a channel: `{to}`")
    return redirect("/channels")


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
    return redirect("/channels")


async def _save_settings(request: Request, app: App, name: str, *, reset: bool) -> None:
    given, state = await read_form(request), ledger.ChannelState(name=name)
    if not reset:
        answer = given.text("answer")
        if answer not in {"addressed", "always", "never"}:
            raise UsageError(f"Unknown answer in groups: `{answer}`")
        state = replace(state, answer=answer, quiet_hours=given.text("quiet_hours"), zone=given.text("zone"))
        try:
            when.parse_hours(given.text("quiet_hours"), given.text("zone"))
        except ConfigError as error:
            raise UsageError(error.message, hint=error.hint) from error
    await app.ledgers.runtime.write(
        ledger.set_, name=name, answer=state.answer, quiet_hours=state.quiet_hours, zone=state.zone
    )
    app.channels.wake(name)


def _require_channel(request: Request, app: App) -> str:
    name = str(request.path_params["name"])
    if name not in app.config.channels:
        raise MissingError(f"Unknown channel {name}", hint="The page Channels lists them.")
    return name


def _load_states(connection: apsw.Connection, config: Config) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, settings in config.channels.items():
        state = ledger.state(connection, name)
        chosen = kinds.apply_state(settings, state)
        picture = {"kind": settings.kind, **asdict(state), "quiet_hours": chosen.quiet_hours}
        found.append({**picture, **asdict(ledger.counts(connection, name))})
    return found


ROUTES = (
    get("/channels", list_channels),
    get("/channels/new", show_kinds),
    get("/channels/new/{kind}", show_form),
    post("/channels/new/{kind}", add),
    post("/channels/{name}/test", test),
    get("/channels/{name}", show_channel),
    post("/channels/{name}/{to}", change),
    post("/set-aside/{id}/{to}", settle),
)
