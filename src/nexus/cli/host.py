"""`nexus host`: many homes in one process, for a team or a company."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from nexus import heap
from nexus.errors import HomeBusyError, UsageError
from nexus.home import Home
from nexus.serving import serving

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from nexus.hosting.fleet.records import FleetHost
    from nexus.hosting.fleet.registry import FleetRegistry
    from nexus.hosting.registry import HostedHome, Registry, TokenScope

_PAGE = 1_000
_TOKEN_CHARACTERS = 20
_root = click.option(
    "--root",
    metavar="DIR",
    envvar="NEXUS_HOST",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the host: its homes, its engine, its list. Default: $NEXUS_HOST.",
)
_fleet = click.option(
    "--fleet",
    metavar="URL",
    envvar="NEXUS_FLEET",
    default="",
    help="Postgres that several hosts share: postgresql://…. Default: $NEXUS_FLEET.",
)

_POLL_S = 0.5
_shared_fleet = click.option(
    "--fleet",
    metavar="URL",
    envvar="NEXUS_FLEET",
    required=True,
    help="Postgres that the hosts share. Default: $NEXUS_FLEET.",
)
_audit_root = click.option(
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


@click.group()
def host() -> None:
    """Serve many homes in one process."""


@host.command()
@_root
@click.option("--address", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Listen address.")
@click.option(
    "--port",
    metavar="NUMBER",
    type=click.IntRange(0, 65_535),
    default=0,
    help="Port; 0 means 7807 or a free one.",
)
@click.option(
    "--public-url", metavar="URL", default="", help="URL of the TLS proxy in front; homes are its subdomains."
)
@click.option(
    "--homes",
    metavar="NUMBER",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="How many homes stay open; beyond it, the longest unused is closed first.",
)
@click.option(
    "--memory-mib",
    metavar="MIB",
    type=click.IntRange(256),
    default=4096,
    show_default=True,
    help="Memory beyond which idle homes are closed, and none is opened without that.",
)
@click.option(
    "--idle-s",
    metavar="SECONDS",
    type=float,
    default=60.0,
    show_default=True,
    help="When an unused home is closed.",
)
@click.option(
    "--copies",
    metavar="URL",
    default="",
    help="Keep copies of the homes at file:///… or s3://…, and bring back from there what is missing.",
)
@click.option(
    "--scrape-token-file",
    metavar="FILE",
    type=click.File(),
    help="File with a token that Prometheus reads /metrics with.",
)
@click.option(
    "--otlp-url",
    metavar="URL",
    default="",
    help="Collector for traces of all homes, such as http://localhost:4318/v1/traces.",
)
@click.option(
    "--evict-after-hours",
    metavar="HOURS",
    type=click.FloatRange(0.0),
    default=0.0,
    help="Delete folders of homes closed for so long; they return from copies. 0: never.",
)
@_fleet
@click.option("--name", metavar="NAME", default="", help="Name of this host in its fleet.")
@click.option(
    "--internal-url",
    metavar="URL",
    default="",
    help="Where the other hosts reach this one. Default: where it listens.",
)
@click.option(
    "--lease-s",
    metavar="SECONDS",
    type=click.FloatRange(1.0),
    default=15.0,
    show_default=True,
    help="How long a host may be silent before others take its homes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print status as one line of JSON.")
def serve(
    root: Path,
    address: str,
    port: int,
    public_url: str,
    homes: int,
    memory_mib: int,
    idle_s: float,
    copies: str,
    scrape_token_file: TextIO | None,
    otlp_url: str,
    evict_after_hours: float,
    fleet: str,
    name: str,
    internal_url: str,
    lease_s: float,
    as_json: bool,
) -> None:
    """Serve every home below DIR until Ctrl-C.

    Each is at NAME.localhost, or at a subdomain of the public URL.
    A home is opened when a request, a message or a schedule needs it, and closed when it is idle.
    """
    heap.limit()
    # Imported here, because the libraries behind it take longer than a refusal or `--help` may.
    with heap.import_libraries():
        from nexus.cli.host_running import run
        from nexus.hosting.fleet.fleet import FleetSettings
        from nexus.hosting.host import HostSettings
        from nexus.hosting.pool import Bounds

    if evict_after_hours and not copies:
        raise click.UsageError("--evict-after-hours needs --copies.")
    if bool(fleet) != bool(name):
        raise click.UsageError("--fleet and --name go together.")
    member = FleetSettings(url=fleet, name=name, internal_url=internal_url, lease_s=lease_s)
    bounds = Bounds(homes=homes, memory_mib=memory_mib, idle_s=idle_s, evict_after_hours=evict_after_hours)
    settings = HostSettings(
        root=root.absolute(),
        bounds=bounds,
        copies=copies,
        scrape_token=_read_scrape_token(scrape_token_file),
        otlp_url=otlp_url,
        fleet=member if fleet else None,
    )
    asyncio.run(run(settings, address, port, public_url, as_json=as_json))


@host.command()
@click.argument("name")
@_root
@_fleet
@click.option(
    "--settings",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Use a copy of FILE as the home's config.toml.",
)
def add(name: str, root: Path, fleet: str, settings: Path | None) -> None:
    """Create a home and print its API token, which is shown once."""
    from nexus.hosting import audit, homes

    with _open_registry(root, fleet) as registry:
        with audit.Audit(registry.root).act("home.add", who=audit.by_user(), home=name):
            made = homes.add(registry, name, settings)
        token = _create_token(registry, made, "full")
        place = "in the fleet" if fleet else f"at {registry.home(name).root}"
        click.echo(f"Created {name} {place}", err=True)
        click.echo(token)


@host.command(name="list")
@_root
@_fleet
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per home.")
def list_(root: Path, fleet: str, as_json: bool) -> None:
    """List the homes, whether each is open, and what is wrong with it."""
    with _open_registry(root, fleet) as registry:
        after = ""
        while found := registry.list_homes(after, _PAGE):
            for each in found:
                if as_json:
                    click.echo(json.dumps(asdict(each)))
                else:
                    state = each.problem or ("open" if each.is_open else "closed")
                    click.echo(f"{each.name:<24} {each.added_at[:10]}  {state}")
            after = found[-1].name


@host.command()
@click.argument("name")
@_root
@_fleet
@click.option(
    "--copies",
    metavar="URL",
    default="",
    help="Also delete its copies at file:///… or s3://…. By default they stay.",
)
@click.option("--yes", is_flag=True, help="Don't ask.")
def remove(name: str, root: Path, fleet: str, copies: str, yes: bool) -> None:
    """Delete a home with everything in it. This can't be undone."""
    from nexus.hosting import audit, homes, replication

    with _open_registry(root, fleet) as registry:
        found = registry.get_named(name)
        if found.host is not None or serving(Home(root.absolute())) is not None:
            raise HomeBusyError(
                "The host is running", hint=f"Stop it, or send DELETE /api/homes/{name} with an admin token."
            )
        if not yes:
            click.confirm(f"Delete the home {name} with everything in it?", abort=True)
        with audit.Audit(registry.root).act("home.remove", who=audit.by_user(), home=name):
            if copies:
                replication.drop(copies, found.id)
            homes.remove(registry, found)
    kept = "" if copies else f" Copies, if the host keeps any, are still there, below {found.id}/."
    click.echo(f"Deleted {name}.{kept}", err=True)


@host.command()
@click.argument("name", required=False)
@_root
@_fleet
@click.option("--admin", is_flag=True, help="A token that manages the host and reads no home.")
@click.option("--read-only", is_flag=True, help="A token that can change nothing.")
@click.option("--rotate", is_flag=True, help="Revoke the earlier tokens of the same home, or of the host.")
def token(name: str | None, root: Path, fleet: str, admin: bool, read_only: bool, rotate: bool) -> None:
    """Create an API token for a home, or for the host, and print it. It is shown once."""
    if admin == (name is not None):
        raise click.UsageError("Give either the name of a home or --admin.")
    if admin and read_only:
        raise click.UsageError("--read-only is for tokens of homes.")
    with _open_registry(root, fleet) as registry:
        home = None if name is None else registry.get_named(name)
        scope = "admin" if admin else "read" if read_only else "full"
        click.echo(_create_token(registry, home, scope, rotate=rotate))


@host.command()
@click.argument("name")
@_root
@_fleet
@click.option("--rate-per-s", metavar="NUMBER", type=int, help="Requests per second.")
@click.option("--requests", metavar="NUMBER", type=int, help="Requests at the same time, streams included.")
@click.option("--concurrency", metavar="NUMBER", type=int, help="Runs at the same time in each lane.")
@click.option("--day-usd", metavar="USD", type=float, help="Daily cost. 0: as its settings say.")
@click.option("--month-usd", metavar="USD", type=float, help="Monthly cost. 0: as its settings say.")
@click.option("--disk-mib", metavar="MIB", type=int, help="Size of its folder. 0: no limit.")
@click.option("--memory-mib", metavar="MIB", type=int, help="Memory of its tools and scripts. 0: no limit.")
@click.option("--processes", metavar="NUMBER", type=int, help="Processes of these. 0: no limit.")
@click.option("--cpus", metavar="NUMBER", type=float, help="Processors for these. 0: no limit.")
def limit(name: str, root: Path, fleet: str, **given: Any) -> None:
    """Show the limits of a home, or change some. Changes apply when it is next opened."""
    from nexus.hosting import audit

    with _open_registry(root, fleet) as registry:
        found = registry.get_named(name)
        changes = {key: value for key, value in given.items() if value is not None}
        limits = found.limits.change(changes)
        if changes:
            with audit.Audit(registry.root).act("home.limit", who=audit.by_user(), home=name, limits=changes):
                registry.set_limits(found.id, limits)
        for key, value in asdict(limits).items():
            click.echo(f"{key:<12} {value:g}")


def _create_token(
    registry: "Registry", home: "HostedHome | None", scope: "TokenScope", *, rotate: bool = False
) -> str:
    from nexus.hosting import audit

    what, name = "token.rotate" if rotate else "token.create", home.name if home else None
    with audit.Audit(registry.root).act(what, who=audit.by_user(), home=name, scope=scope):
        return registry.new_token(home.id if home else None, scope, rotate=rotate)


def _read_scrape_token(file: TextIO | None) -> str:
    token = "" if file is None else file.read().strip()
    if file is not None and len(token) < _TOKEN_CHARACTERS:
        raise UsageError(
            f"The scrape token has fewer than {_TOKEN_CHARACTERS} characters",
            hint="Make one with `openssl rand -hex 32`.",
        )
    return token


def _open_registry(root: Path, fleet: str) -> "Registry":
    from nexus.hosting.fleet.registry import FleetRegistry
    from nexus.hosting.local import LocalRegistry

    if fleet:
        return FleetRegistry(root.absolute(), fleet)
    return LocalRegistry(root.absolute())


@host.command()
@_shared_fleet
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per host.")
def hosts(fleet: str, as_json: bool) -> None:
    """List the hosts of the fleet and their load."""
    with _open_fleet(fleet) as registry:
        found = registry.hosts()
    if not as_json and found:
        click.echo(f"{'host':<16} {'state':<9} {'homes':>6} {'open':>5} {'cpu':>5} {'memory':>9}  version")
    for each in found:
        click.echo(json.dumps(asdict(each)) if as_json else _format_host(each))


@host.command()
@click.argument("name")
@click.option("--to", "host", metavar="HOST", required=True, help="The host that is to have it.")
@_shared_fleet
@_audit_root
@_wait
def move(name: str, host: str, fleet: str, root: Path | None, wait_s: float) -> None:
    """Move a home to another host once nobody uses it. No request fails."""
    with _open_fleet(fleet) as registry:
        home = registry.get_named(name)
        with _record_act(root, "home.move", home=name, host=host):
            registry.place(home.id, host)
        _wait_until(lambda: registry.get_named(name).host == host, wait_s, f"{name} is still in use")
    click.echo(f"{name} is on {host}." if wait_s else f"{name} moves to {host}.", err=True)


@host.command()
@click.argument("host")
@_shared_fleet
@_audit_root
@_wait
@click.option("--undo", is_flag=True, help="Let the host take homes again.")
def drain(host: str, fleet: str, root: Path | None, wait_s: float, undo: bool) -> None:
    """Move all homes off a host, before it is upgraded or removed. No request fails."""
    from nexus.hosting.fleet import moves

    with _open_fleet(fleet) as registry:
        if undo:
            with _record_act(root, "host.resume", host=host):
                moves.resume(registry, host)
            click.echo(f"{host} takes homes again.", err=True)
            return
        with _record_act(root, "host.drain", host=host):
            count = moves.drain(registry, host)
        # What a host that died in the meantime was to have goes to another one.
        _wait_until(lambda: moves.drain(registry, host) == 0, wait_s, f"{host} still has homes in use")
    click.echo(f"{count} homes moved off {host}." if wait_s else f"{count} homes move off {host}.", err=True)


@host.command()
@click.argument("host")
@_shared_fleet
@click.option("--force", is_flag=True, help="Wait for the host's lease to end if it is still alive.")
@_audit_root
@_wait
def evacuate(host: str, fleet: str, force: bool, root: Path | None, wait_s: float) -> None:
    """Give all homes of a dead host to the others."""
    from nexus.hosting.fleet import moves

    with _open_fleet(fleet) as registry:
        if force:
            _wait_until(lambda: not registry.host_named(host).is_alive, wait_s, f"{host} renews its lease")
        with _record_act(root, "host.evacuate", host=host):
            count = moves.evacuate(registry, host)
    click.echo(f"{count} homes moved off {host}.", err=True)


def _format_host(host: "FleetHost") -> str:
    state = "dead" if not host.is_alive else "draining" if host.is_draining else "alive"
    load = host.load
    return (
        f"{host.name:<16} {state:<9} {host.homes:>6} {load.open_homes:>5} {load.cpu_share:>5.0%} "
        f"{load.resident_mib:>5} MiB  {host.version}"
    )


def _record_act(root: Path | None, what: str, **about: str) -> "AbstractContextManager[None]":
    """Record what is done in the audit log of a host, if one was given."""
    from nexus.hosting import audit

    return audit.Audit(root.absolute()).act(what, who=audit.by_user(), **about) if root else nullcontext()


def _wait_until(met: Callable[[], bool], wait_s: float, otherwise: str) -> None:
    until = time.monotonic() + wait_s
    while wait_s and not met():
        if time.monotonic() > until:
            raise HomeBusyError(otherwise, hint="It goes on by itself; `nexus host hosts` shows how far.")
        time.sleep(_POLL_S)


def _open_fleet(fleet: str) -> "AbstractContextManager[FleetRegistry]":
    from nexus.hosting.fleet.registry import FleetRegistry

    # Commands have no folder of homes.
    return FleetRegistry(Path(), fleet)
