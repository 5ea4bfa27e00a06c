"""`nexus skills`: install the memory skill into a workspace."""

from dataclasses import asdict
from pathlib import Path

import click

from nexus.cli.place import json_option, open_home, pluralize, print_json
from nexus.errors import UsageError
from nexus.skills import folder, memory
from nexus.skills.folder import NEW
from nexus.skills.memory_socket import OWNER


@click.group()
def skills() -> None:
    """Install the memory skill into an agent's workspace."""


@skills.command()
@click.argument("workspace", type=click.Path(path_type=Path))
@json_option
@click.pass_context
def seed(ctx: click.Context, workspace: Path, as_json: bool) -> None:
    """Install or update the memory skills in WORKSPACE.

    Files changed by you or an agent are kept; the new version is written as NAME.new.
    """
    home, _ = open_home(ctx)
    if not workspace.is_dir():
        raise UsageError(f"Folder not found: {workspace}", hint=f"Create it with `mkdir -p {workspace}`.")
    done = [
        memory.install(home, workspace.absolute(), home.run / OWNER),
        *folder.install_pages(workspace.absolute()),
    ]
    if as_json:
        print_json([{**asdict(each), "folder": str(each.folder)} for each in done])
        return
    for each in done:
        changed = len(each.laid) + len(each.replaced)
        click.echo(
            f"{each.folder}: {pluralize(changed, 'file')} installed"
            if changed
            else f"{each.folder} is up to date"
        )
        for name in each.edited:
            click.echo(f"  {name} was edited and kept; see {name}{NEW}")
