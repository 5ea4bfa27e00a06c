"""`nexus skills`: give a workspace what an agent needs to use the memory."""

import json
from pathlib import Path

import click

from nexus.cli.place import opened_home
from nexus.errors import UsageError
from nexus.skills import memory
from nexus.skills.doors import OWNER
from nexus.skills.folder import NEW


@click.group()
def skills() -> None:
    """Give a workspace what an agent needs to use the memory."""


@skills.command()
@click.argument("workspace", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print what was done for a program to read.")
@click.pass_context
def seed(ctx: click.Context, workspace: Path, as_json: bool) -> None:
    """Lay skills/memory into WORKSPACE, or bring it up to date.

    A file that you or an agent changed is kept; the new version is laid beside it as NAME.new.
    """
    home, _ = opened_home(ctx)
    if not workspace.is_dir():
        raise UsageError(f"There is no folder {workspace}", hint=f"Make it with `mkdir -p {workspace}`.")
    done = memory.lay(home, workspace.absolute(), home.run / OWNER)
    if as_json:
        told = {"laid": done.laid, "replaced": done.replaced, "edited": done.edited}
        click.echo(json.dumps({"folder": str(done.folder), **told}, indent=2))
        return
    changed = len(done.laid) + len(done.replaced)
    click.echo(f"{done.folder}: {changed} files laid" if changed else f"{done.folder} is up to date")
    for name in done.edited:
        click.echo(f"  {name} was edited and is kept; see {name}{NEW}")
