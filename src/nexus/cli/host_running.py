"""A host while it runs, and what a person is told about it."""

import asyncio
import json
import logging
import os
import socket
from dataclasses import replace
from typing import Any

import click

from nexus import __version__
from nexus.broker.tools import sandbox
from nexus.cli.up_running import STOPPING, asked_to_stop, exposure_warnings
from nexus.gateway.hosted import HostGateway
from nexus.gateway.listener import bind_socket, raise_descriptor_limit
from nexus.home import Home
from nexus.hosting import cgroups
from nexus.hosting.cgroups import CgroupError, Cgroups
from nexus.hosting.host import Host, HostSettings
from nexus.logs import Logging

_log = logging.getLogger("nexus.host")


async def run(settings: HostSettings, address: str, port: int, public_url: str, *, as_json: bool) -> None:
    """Run until a signal asks for the end; a second one ends the process at once."""
    stop = asked_to_stop()
    raise_descriptor_limit()
    settings.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    (settings.root / "logs").mkdir(mode=0o700, exist_ok=True)
    found, lacking = await asyncio.to_thread(_cgroups)
    with bind_socket(address, port) as listening:
        host = Host(replace(_reachable(settings, listening), cgroups=found))
        await _run(host, listening, address, public_url, stop, lacking, as_json=as_json)


def _cgroups() -> tuple[Cgroups | None, str]:
    """The cgroups of the homes, and what can't be limited with them."""
    try:
        found = cgroups.take_over(cgroups.own())
    except CgroupError as error:
        return None, f"a home's limits on memory, processes and processors. {error.message}. {error.hint}"
    missing = ", ".join(each for each in cgroups.CONTROLLERS if each not in found.controllers)
    return found, missing and f"some limits of homes. Controllers that were not delegated: {missing}."


def _reachable(settings: HostSettings, listening: socket.socket) -> HostSettings:
    """With the URL that the other hosts of a fleet reach this one at."""
    if settings.fleet is None or settings.fleet.internal_url:
        return settings
    address, port = listening.getsockname()[:2]
    at = f"[{address}]" if ":" in address else address
    return replace(settings, fleet=replace(settings.fleet, internal_url=f"http://{at}:{port}"))


async def _run(
    host: Host,
    listening: socket.socket,
    address: str,
    public_url: str,
    stop: asyncio.Event,
    lacking: str,
    *,
    as_json: bool,
) -> None:
    settings = host.settings
    with Logging(Home(settings.root), host.pool.redact):
        async with host, HostGateway(host, listening, public_url) as gateway:
            host.tell(gateway.address.url)
            _log.info("the host runs", extra={"version": __version__, "pid": os.getpid()})
            if lacking:
                _log.warning("off: %s", lacking)
            picture = {
                "root": str(settings.root),
                "pid": os.getpid(),
                "url": gateway.address.url,
                "port": gateway.port,
                "homes": host.registry.count(),
                "off": [*await _off(), *filter(None, [lacking])],
                "warnings": [] if public_url else exposure_warnings(address),
            }
            _tell(picture, gateway.address.of_home("NAME"), as_json=as_json)
            await stop.wait()
            _log.info("stopping")
            if not as_json:
                click.echo(STOPPING)
            await host.step_down()


async def _off() -> list[str]:
    """What doesn't work here, and why: without a sandbox a host runs no code of its homes at all."""
    missing = await sandbox.availability()
    if missing is None:
        return []
    reason = f"tools and scripts: {missing.reason}"
    return [f"{reason} A host runs no code of homes outside the sandbox. {missing.hint}"]


def _tell(picture: dict[str, Any], home_url: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(picture))
        return
    click.secho(f"Nexus is hosting {picture['root']} (pid {picture['pid']}).", bold=True)
    click.echo(f"  homes        {picture['homes']}, each at {home_url}")
    click.echo(f"  admin        {picture['url']}/api/homes")
    for off in picture["off"]:
        click.secho(f"  off          {off}", fg="yellow")
    for warning in picture["warnings"]:
        click.secho(f"Warning: {warning}", fg="red", err=True)
    click.echo("Press Ctrl-C to stop.")
