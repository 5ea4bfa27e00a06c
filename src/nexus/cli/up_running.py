"""Running a home: open all its parts, print their state, and stop on a signal."""

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
from nexus.cli.place import printable
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
from nexus.roles.bundled import switched_off
from nexus.roles.memory_writer import describe_cost
from nexus.serving import Serving
from nexus.skills.memory_socket import OWNER, SOCKET
from nexus.text import pluralize

_ROLES: Final = ("manager", "worker", "fast", "writer")
_STATUSES: Final = {"starting": "connecting", "waiting": "reconnecting"}
STOPPING: Final = "Stopping: running work is finished or requeued. Press Ctrl-C again to stop immediately."
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger("nexus.up")


async def run(home: Home, config: Config, serving: Serving, listening: socket, *, as_json: bool) -> None:
    """Run until a signal; a second one ends the process immediately.

    The dashboard can restart the home with settings that it saved. Requests wait meanwhile.
    """
    stop, is_first = stop_on_signal(), True
    raise_descriptor_limit()
    while not stop.is_set():
        restart = asyncio.Event()
        await _run_once(home, config, serving, listening, stop, restart, is_first=is_first, as_json=as_json)
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
    is_first: bool,
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
            if is_first:
                summary = await _load_summary(app, gateway)
                _print_summary({**summary, "channels": app.channels.statuses()}, as_json=as_json)
            elif not as_json:
                click.echo("Running with the new settings.")
            if not as_json:
                app.channels.changed = _print_connected
            await _wait_for_first(stop, restart)
            _log.info("stopping" if stop.is_set() else "restarting with new settings")
            if not as_json:
                click.echo(STOPPING if stop.is_set() else "Restarting with new settings…")
        _log.info("stopped")


async def _wait_for_first(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


def stop_on_signal() -> asyncio.Event:
    """Return an event that the first signal sets. A second one kills; the next process resumes the work."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def request_stop() -> None:
        for sign in _SIGNALS:
            loop.remove_signal_handler(sign)
            signal.signal(sign, signal.SIG_DFL)
        stop.set()

    for sign in _SIGNALS:
        loop.add_signal_handler(sign, request_stop)
    return stop


async def _load_summary(app: App, gateway: Gateway) -> dict[str, Any]:
    waiting = await app.embedding.backlog()
    found = await app.ledgers.runtime.read(automations.list_current)
    off = await _list_disabled(app, found)
    needs = switched_off(app.config)
    idle = {each["what"] for each in off} | {each.name for each in found if each.script_path in needs}
    return {
        "home": str(app.home.root),
        "pid": os.getpid(),
        "url": gateway.url,
        "port_taken": app.config.gateway.port == 0 and not gateway.url.endswith(f":{PORT}"),
        "login_url": gateway.login_url(),
        "socket": str(app.socket_folder(OWNER) / SOCKET),
        "models": _list_models(app.config),
        "writer": describe_cost(app.config),
        "automations": [each.name for each in found if each.status == "active" and each.name not in idle],
        "embedding_model": waiting.model_id,
        "serving_embedding_model": waiting.serving_model_id,
        "waiting_to_be_embedded": waiting.depth,
        "off": off,
        "warnings": [
            *exposure_warnings(app.config.gateway.host),
            *model_checks.describe_unlimited(app.config),
            *_owner_warnings(app),
        ],
    }


def _list_models(config: Config) -> dict[str, list[str]]:
    """Return the models of each role; a role without one is left out."""
    found: dict[str, list[str]] = {}
    for role in _ROLES:
        with suppress(ConfigError):
            found[role] = list(models_of(config.models, role))
    return found


async def _list_disabled(app: App, registered: list[Automation]) -> list[dict[str, str]]:
    """List what doesn't work, and why."""
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
        {"what": name, "why": state.text, "hint": state.remedy}
        for name, state in await asyncio.to_thread(model_checks.find_troubled, app.home, registered)
    ]
    return off


def _owner_warnings(app: App) -> list[str]:
    """Warn if another process does this home's work, such as a suspended `nexus chat`."""
    if app.engine.serving:
        return []
    owner = find_owner(app.engine.settings)
    pid = f" (pid {owner.pid})" if owner is not None and owner.pid else ""
    return [f"Another process{pid} runs this home's work. This one takes over when it ends."]


def exposure_warnings(host: str) -> list[str]:
    """Warn about an address that other machines can reach."""
    if is_loopback(host):
        return []
    return [
        f"Other machines can reach {host}. Traffic is unencrypted: put a TLS proxy in front "
        "and set `[gateway] public_url`."
    ]


def _print_summary(summary: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(summary))
        return
    click.secho(f"Nexus is running at {summary['home']} (pid {summary['pid']}).", bold=True)
    _print_line("address", summary["url"])
    if summary["port_taken"]:
        _print_line("", f"Port {PORT} is in use by another program. Pass `--port` for a fixed one.")
    _print_line("dashboard", f"{summary['login_url']}")
    _print_line("", "The link works once within ten minutes. Run `nexus login` for another.")
    for models, roles in _group_roles(summary["models"]).items():
        _print_line("models", f"{models} ({', '.join(roles)})")
    if summary["channels"]:
        found = summary["channels"].items()
        _print_line(
            "channels", ", ".join(f"{name} ({_STATUSES.get(status, status)})" for name, status in found)
        )
    _print_line("automations", ", ".join(summary["automations"]) or "none")
    model, waiting = summary["embedding_model"].partition("@")[0], summary["waiting_to_be_embedded"]
    queued = f", {pluralize(waiting, 'text')} waiting to be embedded" if waiting else ""
    _print_line("memory", f"{model}{queued}")
    if summary["writer"]:
        _print_line("", f'{summary["writer"]}. `writer = "none"` in [models] turns this off.')
    if summary["serving_embedding_model"] not in {None, summary["embedding_model"]}:
        _print_line(
            "", f"Searches use {summary['serving_embedding_model']} until everything is embedded again."
        )
    _print_line("socket", summary["socket"])
    for off in summary["off"]:
        _print_line("off", f"{off['what']}: {off['why']}", fg="yellow")
        if off["hint"]:
            _print_line("", off["hint"])
    for warning in summary["warnings"]:
        click.secho(f"Warning: {warning}", fg="red", err=True)
    click.echo("Press Ctrl-C to stop. `nexus logs` shows the log.")


def _print_connected(name: str, status: Status) -> None:
    """Print that a channel is connected. The log prints that one reconnects."""
    if status == "connected":
        click.echo(f"Connected to {printable(name)}.")


def _group_roles(models: dict[str, list[str]]) -> dict[str, list[str]]:
    """Group the roles that have the same models."""
    found: dict[str, list[str]] = {}
    for role, names in models.items():
        found.setdefault(", then ".join(names), []).append(role)
    return found


def _print_line(name: str, text: str, fg: str | None = None) -> None:
    click.secho(f"  {name:<12} {printable(text)}", fg=fg)
