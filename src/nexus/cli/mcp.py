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
    help="Write the file of the project in this folder, instead of your own.",
)


@click.group()
def mcp() -> None:
    """Give other agents this memory, over the Model Context Protocol."""


@mcp.command()
@click.pass_context
def serve(ctx: click.Context) -> None:
    """Serve the memory over standard input and output, for the program that starts this.

    Clients start it by themselves after `nexus mcp install`. It works beside `nexus up`, and without it. Over
    HTTP the same is served by `nexus up`, at /mcp.
    """
    home, settings = opened_home(ctx)
    # Imported here, because the libraries behind it take longer than `nexus mcp --help` may.
    from nexus.gateway.mcp.server import serve as serving

    asyncio.run(serving(home, settings))


@mcp.command()
@click.argument("client")
@_project
@click.option("--print", "only_print", is_flag=True, help="Show the entry, and write nothing.")
@click.pass_context
def install(ctx: click.Context, client: str, project: Path | None, only_print: bool) -> None:
    """Write this home's memory into the settings of CLIENT; `nexus mcp clients` lists those that are known.

    Everything else in its file stays. The file as it was is kept beside it. Running it again changes nothing.
    """
    from nexus.cli import mcp_clients as clients
    from nexus.cli import mcp_listing as listing

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
        click.echo(f"{found.title} has this memory already, in {file}.")
        return
    _written(file, listing.write(file, text))
    click.echo(f"{found.title} has this memory now. {found.after}")


@mcp.command()
@click.argument("client")
@_project
def uninstall(client: str, project: Path | None) -> None:
    """Take this memory out of the settings of CLIENT again."""
    from nexus.cli import mcp_clients as clients
    from nexus.cli import mcp_listing as listing

    found = clients.client(client)
    file = clients.place(found, project)
    text = listing.unlisted(found, file)
    if text is None:
        click.echo(f"{found.title} does not have this memory: {file}.")
        return
    _written(file, listing.write(file, text))
    click.echo(f"{found.title} has this memory no more. It ends with the next start of the program.")


@mcp.command("clients")
def list_clients() -> None:
    """List the programs that can be given this memory, and where each keeps its settings."""
    from nexus.cli.mcp_clients import CLIENTS

    rows = [(each.name, each.title, str(each.file()), each.project_file or "") for each in CLIENTS.values()]
    print_table(("client", "program", "your file", "file of a project"), rows)


def _written(file: Path, kept: Path | None) -> None:
    click.echo(f"Wrote {file}" + (f"; what it was is in {kept.name}" if kept else ""))


def _program() -> str:
    """Where this program is: clients start it without a shell, and often without its PATH."""
    beside = Path(sys.executable).with_name("nexus")
    return str(beside) if beside.exists() else shutil.which("nexus") or "nexus"
