"""The home while it runs: all of its parts, what a person is told about them, and the stop."""

import asyncio
import json
import logging
import os
import signal
from contextlib import suppress
from dataclasses import replace
from socket import socket
from typing import Any, Final

import click

from nexus import __version__, secrets
from nexus.app import App
from nexus.broker.agent.roles import models_of
from nexus.broker.tools import sandbox
from nexus.cli import model_checks
from nexus.cli.model_checks import troubled
from nexus.cli.place import counted
from nexus.cli.terminal import printable
from nexus.config import Config, load
from nexus.engine.owner import find_owner
from nexus.errors import ConfigError, NexusError
from nexus.gateway.listener import PORT, is_loopback, raise_descriptor_limit
from nexus.gateway.server import Gateway
from nexus.home import Home
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.channels import Status
from nexus.logs import Logging
from nexus.roles.memory_writer import describe_cost
from nexus.serving import Serving
from nexus.skills.memory_socket import OWNER, SOCKET

_ROLES: Final = ("manager", "worker", "fast", "writer")
_STATUSES: Final = {"starting": "connecting", "waiting": "reconnecting"}
STOPPING: Final = "Stopping: running work is finished or requeued. Press Ctrl-C again to stop immediately."
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger("nexus.up")


async def run(home: Home, config: Config, serving: Serving, listening: socket, *, as_json: bool) -> None:
    """Run until a signal asks for the end; a second one ends the process at once.

    The dashboard can have the home opened again with the settings that it saved. Requests wait meanwhile.
    """
    stop, is_first = asked_to_stop(), True
    raise_descriptor_limit()
    while not stop.is_set():
        restart = asyncio.Event()
        await _run_once(home, config, serving, listening, stop, restart, is_told=is_first, as_json=as_json)
        is_first = False
        if not stop.is_set():
            stored = load(home.config_file)
            # What the command line said of the address stays, and so does the socket.
            address = {"host": config.gateway.host, "port": config.gateway.port}
            config = replace(stored, gateway=replace(stored.gateway, **address))


async def _run_once(
    home: Home,
    config: Config,
    serving: Serving,
    listening: socket,
    stop: asyncio.Event,
    restart: asyncio.Event,
    *,
    is_told: bool,
    as_json: bool,
) -> None:
    app, token = App(home, config, memory_socket=True), home.token()

    def reopen() -> None:
        load(home.config_file)  # an error is the person's to see, and the home goes on as it is
        restart.set()

    with Logging(home, lambda text: secrets.redact(app.redact(text), [token])), listening.dup() as own:
        async with app, Gateway(app, own, reopen) as gateway:
            serving.tell(gateway.url)
            _log.info("the home runs", extra={"version": __version__, "pid": os.getpid(), "url": gateway.url})
            if is_told:
                picture = await _picture(app, gateway)
                _tell({**picture, "channels": app.channels.statuses()}, as_json=as_json)
            elif not as_json:
                click.echo("Running with the new settings.")
            if not as_json:
                app.channels.changed = _tell_connected
            await _wait_for_either(stop, restart)
            _log.info("stopping" if stop.is_set() else "restarting with new settings")
            if not as_json:
                click.echo(STOPPING if stop.is_set() else "Restarting with new settings…")
        _log.info("stopped")


async def _wait_for_either(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


def asked_to_stop() -> asyncio.Event:
    """Set by the first signal. The next one is the system's: what a killed process leaves is taken over."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def asked() -> None:
        for sign in _SIGNALS:
            loop.remove_signal_handler(sign)
            signal.signal(sign, signal.SIG_DFL)
        stop.set()

    for sign in _SIGNALS:
        loop.add_signal_handler(sign, asked)
    return stop


async def _picture(app: App, gateway: Gateway) -> dict[str, Any]:
    waiting = await app.embedding.backlog()
    found = await app.ledgers.runtime.read(automations.listed)
    return {
        "home": str(app.home.root),
        "pid": os.getpid(),
        "url": gateway.url,
        "port_taken": app.config.gateway.port == 0 and not gateway.url.endswith(f":{PORT}"),
        "login_url": gateway.login_url(),
        "socket": str(app.socket_folder(OWNER) / SOCKET),
        "models": _models(app.config),
        "writer": describe_cost(app.config),
        "automations": [each.name for each in found if each.status == "active"],
        "embedding_model": waiting.model_id,
        "serving_embedding_model": waiting.serving_model_id,
        "waiting_to_be_embedded": waiting.depth,
        "off": await _off(app, found),
        "warnings": [
            *exposure_warnings(app.config.gateway.host),
            *model_checks.warnings(app.config),
            *_owner_warnings(app),
        ],
    }


def _models(config: Config) -> dict[str, list[str]]:
    """Who answers in which role; nobody, where no model is set."""
    found: dict[str, list[str]] = {}
    for role in _ROLES:
        with suppress(ConfigError):
            found[role] = list(models_of(config.models, role))
    return found


async def _off(app: App, registered: list[Automation]) -> list[dict[str, str]]:
    """What does not work, and why."""
    off: list[dict[str, str]] = []
    optional = {each.name for each in registered if each.disabled_reason == automations.OPTIONAL}
    try:
        await app.broker.check_models("manager")
    except NexusError as error:
        hint = error.hint.replace("config.toml", str(app.home.config_file))
        if not app.config.models.manager:
            hint = "Choose one in the dashboard, which opens on the setup page, or with `nexus init`."
        off.append({"what": "answers", "why": error.message, "hint": hint})
    shut = await sandbox.availability()
    if shut is not None:
        off.append({"what": "tools", "why": shut.reason, "hint": shut.hint})
    off += [{"what": "automation", "why": problem, "hint": ""} for problem in app.automations.problems]
    off += [
        {"what": name, "why": "disabled", "hint": f"Enable it with `nexus automations enable {name}`."}
        for name in (each.name for each in registered if each.status == "disabled")
        if name not in optional
    ]
    off += [
        {"what": name, "why": told.text, "hint": told.remedy}
        for name, told in await asyncio.to_thread(troubled, app.home, registered)
    ]
    return off


def _owner_warnings(app: App) -> list[str]:
    """Say that another process does the work of this home, such as a `nexus chat` that was stopped."""
    if app.engine.serving:
        return []
    owner = find_owner(app.engine.settings)
    pid = f" (pid {owner.pid})" if owner is not None and owner.pid else ""
    return [f"Another process{pid} runs this home's work. This one takes over when it ends."]


def exposure_warnings(host: str) -> list[str]:
    """What a person should know who listens on an address."""
    if is_loopback(host):
        return []
    return [
        f"Other machines can reach {host}. Traffic is unencrypted: put a TLS proxy in front "
        "and set `[gateway] public_url`."
    ]


def _tell(picture: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(picture))
        return
    click.secho(f"Nexus is running at {picture['home']} (pid {picture['pid']}).", bold=True)
    _line("address", picture["url"])
    if picture["port_taken"]:
        _line("", f"Port {PORT} is in use by another program. Pass `--port` for a fixed one.")
    _line("dashboard", f"{picture['login_url']}")
    _line("", "The link works once within ten minutes. Run `nexus login` for another.")
    for models, roles in _together(picture["models"]).items():
        _line("models", f"{models} ({', '.join(roles)})")
    if picture["channels"]:
        found = picture["channels"].items()
        _line("channels", ", ".join(f"{name} ({_STATUSES.get(status, status)})" for name, status in found))
    _line("automations", ", ".join(picture["automations"]) or "none")
    waiting = counted(picture["waiting_to_be_embedded"], "text")
    _line("memory", f"{picture['embedding_model']}, {waiting} waiting to be embedded")
    if picture["writer"]:
        _line("", f'{picture["writer"]}. `writer = "none"` in [models] turns this off.')
    if picture["serving_embedding_model"] not in {None, picture["embedding_model"]}:
        _line("", f"Searches use {picture['serving_embedding_model']} until everything is embedded again.")
    _line("socket", picture["socket"])
    for off in picture["off"]:
        _line("off", f"{off['what']}: {off['why']}", fg="yellow")
        if off["hint"]:
            _line("", off["hint"])
    for warning in picture["warnings"]:
        click.secho(f"Warning: {warning}", fg="red", err=True)
    click.echo("Press Ctrl-C to stop. `nexus logs` shows the log.")


def _tell_connected(name: str, status: Status) -> None:
    """Say that a channel is there, or there again; the log says on the terminal that one reconnects."""
    if status == "connected":
        click.echo(f"Connected to {printable(name)}.")


def _together(models: dict[str, list[str]]) -> dict[str, list[str]]:
    """Roles that the same models answer in, in one line."""
    found: dict[str, list[str]] = {}
    for role, names in models.items():
        found.setdefault(", then ".join(names), []).append(role)
    return found


def _line(name: str, text: str, fg: str | None = None) -> None:
    click.secho(f"  {name:<12} {printable(text)}", fg=fg)
