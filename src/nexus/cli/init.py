"""`nexus init`: make a home, or complete one."""

import click

from nexus import ledgers
from nexus.cli.place import chosen_home
from nexus.ledgers import attach


@click.command()
@click.pass_context
def init(ctx: click.Context) -> None:
    """Make a home: its folders, a commented config.toml and the six databases.

    Running it again completes what is missing and changes nothing else.
    """
    home = chosen_home(ctx)
    made = home.create()
    databases = ledgers.create(home)
    made += attach.ensure(home)
    if not made and not databases:
        click.echo(f"The home at {home.root} is complete; nothing was changed.")
        return
    click.echo(f"Made a home at {home.root}" if home.root in made else f"Completed the home at {home.root}")
    for path in made:
        if path != home.root:
            click.echo(f"  {path.relative_to(home.root)}{'/' if path.is_dir() else ''}")
    for name in databases:
        click.echo(f"  data/{name}.db")
    click.echo("Next: `nexus doctor` checks it, `nexus status` shows it.")
