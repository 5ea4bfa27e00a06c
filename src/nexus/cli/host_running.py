"""Running a host, and printing its state."""

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
from nexus.cli.up_running import STOPPING, exposure_warnings, stop_on_signal
from nexus.gateway.hosted import HostGateway
from nexus.gateway.listener import bind_socket, raise_descriptor_limit
from nexus.home import Home
from nexus.hosting import cgroups
from nexus.hosting.cgroups import CgroupError, Cgroups
from nexus.hosting.host import Host, HostSettings
from nexus.logs import Logging

_log = logging.getLogger("nexus.host")


async def run(settings: HostSettings, address: str, port: int, public_url: str, *, as_json: bool) -> None:
    """Run until a signal; a second one ends the process immediately."""
    stop = stop_on_signal()
    raise_descriptor_limit()
    settings.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    (settings.root / "logs").mkdir(mode=0o700, exist_ok=True)
    found, lacking = await asyncio.to_thread(_take_over_cgroups)
    with bind_socket(address, port) as listening:
        host = Host(replace(_add_internal_url(settings, listening), cgroups=found))
        await _run(host, listening, address, public_url, stop, lacking, as_json=as_json)


def _take_over_cgroups() -> tuple[Cgroups | None, str]:
    """Take over the cgroups of the homes; also return what can't be limited with them."""
    try:
        found = cgroups.take_over(cgroups.own())
    except CgroupError as error:
        return None, f"a home's limits on memory, processes and processors. {error.message}. {error.hint}"
    missing = ", ".join(each for each in cgroups.CONTROLLERS if each not in found.controllers)
    return found, missing and f"some limits of homes. Controllers that were not delegated: {missing}."


def _add_internal_url(settings: HostSettings, listening: socket.socket) -> HostSettings:
    """Add the URL at which the other hosts of a fleet reach this one."""
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
            summary = {
                "root": str(settings.root),
                "pid": os.getpid(),
                "url": gateway.address.url,
                "port": gateway.port,
                "homes": host.registry.count(),
                "off": [*await _list_disabled(), *filter(None, [lacking])],
                "warnings": [] if public_url else exposure_warnings(address),
            }
            _print_summary(summary, gateway.address.of_home("NAME"), as_json=as_json)
            await stop.wait()
            _log.info("stopping")
            if not as_json:
                click.echo(STOPPING)
            await host.step_down()


async def _list_disabled() -> list[str]:
    """List what doesn't work here: without a sandbox a host runs no code of its homes."""
    missing = await sandbox.availability()
    if missing is None:
        return []
    reason = f"tools and scripts: {missing.reason}"
    return [f"{reason} A host runs no code of homes outside the sandbox. {missing.hint}"]


def _print_summary(summary: dict[str, Any], home_url: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(summary))
        return
    click.secho(f"Nexus is hosting {summary['root']} (pid {summary['pid']}).", bold=True)
    click.echo(f"  homes        {summary['homes']}, each at {home_url}")
    click.echo(f"  admin        {summary['url']}/api/homes")
    for off in summary["off"]:
        click.secho(f"  off          {off}", fg="yellow")
    for warning in summary["warnings"]:
        click.secho(f"Warning: {warning}", fg="red", err=True)
    click.echo("Press Ctrl-C to stop.")
