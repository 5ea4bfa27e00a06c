"""`nexus host hosts|move|drain|evacuate`: the hosts of a fleet, and which of them has which home."""

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nexus.errors import HomeBusyError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from nexus.hosting.fleet.records import FleetHost
    from nexus.hosting.fleet.registry import FleetRegistry

_POLL_S = 0.5
_fleet = click.option(
    "--fleet",
    metavar="URL",
    envvar="NEXUS_FLEET",
    required=True,
    help="Postgres that the hosts share. Default: $NEXUS_FLEET.",
)
_root = click.option(
    "--root",
    metavar="DIR",
    envvar="NEXUS_HOST",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of a host, for its audit log. Default: $NEXUS_HOST.",
)
_wait = click.option(
    "--wait-s",
    metavar="SECONDS",
    type=click.FloatRange(0),
    default=600.0,
    show_default=True,
    help="How long to wait for it. 0: don't wait.",
)


@click.command()
@_fleet
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per host.")
def hosts(fleet: str, as_json: bool) -> None:
    """List the hosts of the fleet and their load."""
    with _registry(fleet) as registry:
        found = registry.hosts()
    if not as_json and found:
        click.echo(f"{'host':<16} {'state':<9} {'homes':>6} {'open':>5} {'cpu':>5} {'memory':>9}  version")
    for each in found:
        click.echo(json.dumps(asdict(each)) if as_json else _line(each))


@click.command()
@click.argument("name")
@click.option("--to", "host", metavar="HOST", required=True, help="The host that is to have it.")
@_fleet
@_root
@_wait
def move(name: str, host: str, fleet: str, root: Path | None, wait_s: float) -> None:
    """Move a home to another host once nobody uses it. No request fails."""
    with _registry(fleet) as registry:
        home = registry.get_named(name)
        with _recorded(root, "home.move", home=name, host=host):
            registry.place(home.id, host)
        _wait_until(lambda: registry.get_named(name).host == host, wait_s, f"{name} is still in use")
    click.echo(f"{name} is on {host}." if wait_s else f"{name} moves to {host}.", err=True)


@click.command()
@click.argument("host")
@_fleet
@_root
@_wait
@click.option("--undo", is_flag=True, help="Let the host take homes again.")
def drain(host: str, fleet: str, root: Path | None, wait_s: float, undo: bool) -> None:
    """Move all homes off a host, before it is upgraded or removed. No request fails."""
    from nexus.hosting.fleet import moves

    with _registry(fleet) as registry:
        if undo:
            with _recorded(root, "host.resume", host=host):
                moves.resume(registry, host)
            click.echo(f"{host} takes homes again.", err=True)
            return
        with _recorded(root, "host.drain", host=host):
            count = moves.drain(registry, host)
        # What a host that died in the meantime was to have goes to another one.
        _wait_until(lambda: moves.drain(registry, host) == 0, wait_s, f"{host} still has homes in use")
    click.echo(f"{count} homes moved off {host}." if wait_s else f"{count} homes move off {host}.", err=True)


@click.command()
@click.argument("host")
@_fleet
@click.option("--force", is_flag=True, help="Wait for the host's lease to end if it is still alive.")
@_root
@_wait
def evacuate(host: str, fleet: str, force: bool, root: Path | None, wait_s: float) -> None:
    """Give all homes of a dead host to the others."""
    from nexus.hosting.fleet import moves

    with _registry(fleet) as registry:
        if force:
            _wait_until(lambda: not registry.host_named(host).is_alive, wait_s, f"{host} renews its lease")
        with _recorded(root, "host.evacuate", host=host):
            count = moves.evacuate(registry, host)
    click.echo(f"{count} homes moved off {host}.", err=True)


def _line(host: "FleetHost") -> str:
    state = "dead" if not host.is_alive else "draining" if host.is_draining else "alive"
    load = host.load
    return (
        f"{host.name:<16} {state:<9} {host.homes:>6} {load.open_homes:>5} {load.cpu_share:>5.0%} "
        f"{load.resident_mib:>5} MiB  {host.version}"
    )


def _recorded(root: Path | None, what: str, **about: str) -> "AbstractContextManager[None]":
    """Record what is done in the audit log of a host, if one was given."""
    from nexus.hosting import audit

    return audit.Audit(root.absolute()).act(what, who=audit.by_user(), **about) if root else nullcontext()


def _wait_until(met: Callable[[], bool], wait_s: float, otherwise: str) -> None:
    until = time.monotonic() + wait_s
    while wait_s and not met():
        if time.monotonic() > until:
            raise HomeBusyError(otherwise, hint="It goes on by itself; `nexus host hosts` shows how far.")
        time.sleep(_POLL_S)


def _registry(fleet: str) -> "AbstractContextManager[FleetRegistry]":
    from nexus.hosting.fleet.registry import FleetRegistry

    # Commands have no folder of homes.
    return FleetRegistry(Path(), fleet)
