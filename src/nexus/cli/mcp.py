"""`nexus mcp`: the memory for agents elsewhere."""

import asyncio
import shutil
import sys
from pathlib import Path

import click

from nexus.cli.place import chosen_home, opened_home
from nexus.cli.tables import print_table

_project = click.option(
    "--project",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Configure the project in this folder instead of your user account.",
)


@click.group()
def mcp() -> None:
    """Connect other agents to this memory over the Model Context Protocol."""


@mcp.command()
@click.pass_context
def serve(ctx: click.Context) -> None:
    """Serve the memory over MCP on stdin and stdout.

    Clients start it after `nexus mcp install`. It works with or without `nexus up`,
    which also serves MCP over HTTP at /mcp.
    """
    home, settings = opened_home(ctx)
    # Imported here, because the libraries behind it take longer than `nexus mcp --help` may.
    from nexus.gateway.mcp.server import serve as serving

    asyncio.run(serving(home, settings))


@mcp.command()
@click.argument("client")
@_project
@click.option("--print", "only_print", is_flag=True, help="Print the entry without writing it.")
@click.pass_context
def install(ctx: click.Context, client: str, project: Path | None, only_print: bool) -> None:
    """Connect CLIENT to this memory.

    `nexus mcp clients` lists supported clients. The rest of its configuration is kept, with a backup next
    to it. Running it again changes nothing.
    """
    from nexus.cli import mcp_clients as clients
    from nexus.cli import mcp_clients as listing

    found = clients.client(client)
    launch = clients.Launch(
        command=_program(), args=("--home", str(chosen_home(ctx).require().root), "mcp", "serve")
    )
    file = clients.place(found, project)
    if only_print:
        click.echo(f"In {file}:", err=True)
        click.echo(listing.alone(found, launch), nl=False)
        return
    text = listing.listed(found, file, launch)
    if text is None:
        click.echo(f"{found.title} is already connected ({file}).")
        return
    _written(file, listing.write(file, text))
    click.echo(f"Connected {found.title}. {found.after}")


@mcp.command()
@click.argument("client")
@_project
def uninstall(client: str, project: Path | None) -> None:
    """Disconnect CLIENT."""
    from nexus.cli import mcp_clients as clients
    from nexus.cli import mcp_clients as listing

    found = clients.client(client)
    file = clients.place(found, project)
    text = listing.unlisted(found, file)
    if text is None:
        click.echo(f"{found.title} is not connected ({file}).")
        return
    _written(file, listing.write(file, text))
    click.echo(f"Disconnected {found.title}. Restart it to apply.")


@mcp.command("clients")
def list_clients() -> None:
    """List supported programs and their configuration files."""
    from nexus.cli.mcp_clients import CLIENTS

    rows = [(each.name, each.title, str(each.file()), each.project_file or "") for each in CLIENTS.values()]
    print_table(("client", "program", "your file", "file of a project"), rows)


def _written(file: Path, kept: Path | None) -> None:
    click.echo(f"Wrote {file}" + (f"; backup in {kept.name}" if kept else ""))


def _program() -> str:
    """Where this program is: clients start it without a shell, and often without its PATH."""
    beside = Path(sys.executable).with_name("nexus")
    return str(beside) if beside.exists() else shutil.which("nexus") or "nexus"
