"""`nexus mcp`: connect other agents to this memory, and this agent to servers with tools."""

import asyncio
import shutil
import sys
from pathlib import Path

import click

from nexus import extras
from nexus.cli.place import locate_home, open_home, printable
from nexus.errors import MissingError, UsageError

_project = click.option(
    "--project",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Configure the project in this folder instead of your user account.",
)


_browser = click.option(
    "--browser/--no-browser", default=True, help="Open the link in a browser, or only print it."
)


@click.group()
def mcp() -> None:
    """Connect other agents to this memory over the Model Context Protocol, and this agent to MCP servers."""


@mcp.command()
@click.pass_context
def serve(ctx: click.Context) -> None:
    """Serve the memory over MCP on stdin and stdout.

    Clients start it after `nexus mcp install`. It works with or without `nexus up`,
    which also serves MCP over HTTP at /mcp.
    """
    home, settings = open_home(ctx)
    extras.require("mcp", "Serving the memory over MCP")
    # Imported here, because the libraries behind it take longer than `nexus mcp --help` may.
    from nexus.gateway.mcp.server import serve as serving

    asyncio.run(serving(home, settings))


@mcp.command()
@click.argument("client")
@_project
@click.option("--print", "only_print", is_flag=True, help="Print the entry without writing it.")
@click.option("--replace", is_flag=True, help="Replace the entry of another home without asking.")
@click.pass_context
def install(ctx: click.Context, client: str, project: Path | None, only_print: bool, replace: bool) -> None:
    """Connect CLIENT to this memory.

    `nexus connect` shows supported clients. The rest of its configuration is kept, with a backup next
    to it. Running it again changes nothing. If it uses the memory of another home, you are asked first.
    """
    from nexus.cli import mcp_clients as clients

    if not only_print:
        extras.require("mcp", "Serving the memory over MCP")
    found, home = clients.get(client), str(locate_home(ctx).require().root)
    launch = clients.Launch(command=locate_program(), args=("--home", home, "mcp", "serve"))
    file = clients.locate_file(found, project)
    if only_print:
        click.echo(f"In {file}:", err=True)
        click.echo(clients.format_entry(found, launch), nl=False)
        return
    text = clients.add_entry(found, file, launch)
    if text is None:
        click.echo(f"{found.title} is already connected ({file}).")
        return
    other = clients.find_home(found, file)
    if other not in {None, home} and not replace:
        question = f"{found.title} uses the memory of {other}. Use {home} instead?"
        if not sys.stdin.isatty():
            raise UsageError(
                f"{found.title} uses the memory of {other}",
                hint=f"Connect it to {home} with `nexus --home {home} mcp install {client} --replace`.",
            )
        if not click.confirm(question, default=False):
            click.echo("Nothing changed.")
            return
    _print_written(file, clients.write(file, text))
    click.echo(f"Connected {found.title}. {found.after}")


@mcp.command()
@click.argument("client")
@_project
def uninstall(client: str, project: Path | None) -> None:
    """Disconnect CLIENT."""
    from nexus.cli import mcp_clients as clients

    found = clients.get(client)
    file = clients.locate_file(found, project)
    text = clients.remove_entry(found, file)
    if text is None:
        click.echo(f"{found.title} is not connected ({file}).")
        return
    _print_written(file, clients.write(file, text))
    click.echo(f"Disconnected {found.title}. Restart it to apply.")


@mcp.command()
@click.argument("url")
@click.option("--name", default="", help="What to call it in config.toml. Default: by its host.")
@_browser
@click.pass_context
def add(ctx: click.Context, url: str, name: str, *, browser: bool) -> None:
    """Add the MCP server at URL, so that agents have its tools. Signs in with OAuth if it wants that.

    The link can be opened on any machine: if the browser ends at a page that it can't show, paste the address
    of that page.
    """
    home, settings = open_home(ctx)
    extras.require("mcp", "`nexus mcp add`")
    from nexus.cli import mcp_login

    mcp_login.add_server(home, settings, url, name, opens_browser=browser)


@mcp.command()
@click.argument("name")
@_browser
@click.pass_context
def login(ctx: click.Context, name: str, *, browser: bool) -> None:
    """Sign in again to the MCP server NAME. A running `nexus up` uses the new sign-in from then on."""
    _, settings = open_home(ctx)
    extras.require("mcp", "`nexus mcp login`")
    from nexus.cli import mcp_login

    mcp_login.login(settings, name, opens_browser=browser)


@mcp.command()
@click.argument("name")
@click.pass_context
def logout(ctx: click.Context, name: str) -> None:
    """Revoke the tokens of the MCP server NAME, and remove them. Its settings stay."""
    _, settings = open_home(ctx)
    extras.require("mcp", "`nexus mcp logout`")
    from nexus.cli import mcp_login

    mcp_login.logout(settings, name)


@mcp.command(short_help="End the access of a remote client.")
@click.argument("client", required=False, default="")
@click.option("--all", "everybody", is_flag=True, help="End the access of every remote client.")
@click.pass_context
def revoke(ctx: click.Context, client: str, *, everybody: bool) -> None:
    """End the access of CLIENT, a remote client that signed in with OAuth.

    CLIENT is its name or id. Without it, the clients are listed. It works with and without `nexus up`.
    """
    from nexus.gateway.mcp import Grants

    home, _ = open_home(ctx)
    with Grants(home).change() as grants:
        chosen = [id_ for id_, each in grants.items() if everybody or client in {id_, each.name}]
        if client and not chosen:
            raise MissingError(f"No remote client {client!r:.80}", hint="`nexus mcp revoke` lists them.")
        if not client and not everybody:
            for each in grants.values():
                click.echo(printable(f"{each.name}  returns to {each.returns_to}  {each.client_id}"))
            if not grants:
                click.echo("No remote client has access.")
            return
        for id_ in chosen:
            click.echo(printable(f"{grants.pop(id_).name} has no access any more."))


def _print_written(file: Path, backup: Path | None) -> None:
    click.echo(f"Wrote {file}" + (f"; backup in {backup.name}" if backup else ""))


def locate_program() -> str:
    """Locate this program: clients start it without a shell, and often without its PATH."""
    beside = Path(sys.executable).with_name("nexus")
    return str(beside) if beside.exists() else shutil.which("nexus") or "nexus"
