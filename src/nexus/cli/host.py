"""`nexus host`: many homes in one process, for a team or a company."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nexus import heap
from nexus.errors import HomeBusyError
from nexus.home import Home
from nexus.serving import serving

if TYPE_CHECKING:
    from nexus.hosting.registry import Registry

_PAGE = 1_000
_root = click.option(
    "--root",
    metavar="DIR",
    envvar="NEXUS_HOST",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the host: its homes, its engine, its list. Default: $NEXUS_HOST.",
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
    as_json: bool,
) -> None:
    """Serve every home below DIR until Ctrl-C.

    Each is at NAME.localhost, or at a subdomain of the public URL.
    A home is opened when a request, a message or a schedule needs it, and closed when it is idle.
    """
    heap.limit_arenas()
    # Imported here, because the libraries behind it take longer than a refusal or `--help` may.
    from nexus.cli.host_running import run
    from nexus.hosting.host import HostSettings
    from nexus.hosting.pool import Bounds

    bounds = Bounds(homes=homes, memory_mib=memory_mib, idle_s=idle_s)
    settings = HostSettings(root=root.absolute(), bounds=bounds, copies=copies)
    asyncio.run(run(settings, address, port, public_url, as_json=as_json))


@host.command()
@click.argument("name")
@_root
@click.option(
    "--settings",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Use a copy of FILE as the home's config.toml.",
)
def add(name: str, root: Path, settings: Path | None) -> None:
    """Create a home and print its API token, which is shown once."""
    from nexus.hosting import homes

    with _registry(root) as registry:
        made = homes.add(registry, name, settings)
        token = registry.new_token(made.id, "full")
        click.echo(f"Created {name} at {registry.home(name).root}", err=True)
        click.echo(token)


@host.command(name="list")
@_root
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per home.")
def list_(root: Path, as_json: bool) -> None:
    """List the homes, whether each is open, and what is wrong with it."""
    with _registry(root) as registry:
        after = ""
        while found := registry.listed(after, _PAGE):
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
@click.option("--yes", is_flag=True, help="Don't ask.")
def remove(name: str, root: Path, yes: bool) -> None:
    """Delete a home with everything in it. This can't be undone."""
    from nexus.hosting import homes

    with _registry(root) as registry:
        found = registry.named(name)
        if serving(Home(root.absolute())) is not None:
            raise HomeBusyError(
                "The host is running", hint=f"Stop it, or send DELETE /api/homes/{name} with an admin token."
            )
        if not yes:
            click.confirm(f"Delete the home {name} with everything in it?", abort=True)
        homes.remove(registry, found)
    click.echo(f"Deleted {name}.", err=True)


@host.command()
@click.argument("name", required=False)
@_root
@click.option("--admin", is_flag=True, help="A token that manages the host and reads no home.")
@click.option("--read-only", is_flag=True, help="A token that can change nothing.")
@click.option("--rotate", is_flag=True, help="Revoke the earlier tokens of the same home, or of the host.")
def token(name: str | None, root: Path, admin: bool, read_only: bool, rotate: bool) -> None:
    """Create an API token for a home, or for the host, and print it. It is shown once."""
    if admin == (name is not None):
        raise click.UsageError("Give either the name of a home or --admin.")
    if admin and read_only:
        raise click.UsageError("--read-only is for tokens of homes.")
    with _registry(root) as registry:
        home_id = None if name is None else registry.named(name).id
        scope = "admin" if admin else "read" if read_only else "full"
        click.echo(registry.new_token(home_id, scope, rotate=rotate))


@host.command()
@click.argument("name")
@_root
@click.option("--rate-per-s", metavar="NUMBER", type=int, help="Requests per second.")
@click.option("--requests", metavar="NUMBER", type=int, help="Requests at the same time, streams included.")
@click.option("--concurrency", metavar="NUMBER", type=int, help="Runs at the same time in each lane.")
@click.option("--day-usd", metavar="USD", type=float, help="Daily cost. 0: as its settings say.")
@click.option("--month-usd", metavar="USD", type=float, help="Monthly cost. 0: as its settings say.")
@click.option("--disk-mib", metavar="MIB", type=int, help="Size of its folder. 0: no limit.")
def limit(name: str, root: Path, **given: Any) -> None:
    """Show the limits of a home, or change some. Changes apply when it is next opened."""
    with _registry(root) as registry:
        found = registry.named(name)
        changes = {key: value for key, value in given.items() if value is not None}
        limits = found.limits.changed(changes)
        if changes:
            registry.set_limits(found.id, limits)
        for key, value in asdict(limits).items():
            click.echo(f"{key:<12} {value:g}")


def _registry(root: Path) -> "Registry":
    from nexus.hosting.registry import Registry

    return Registry(root.absolute())
