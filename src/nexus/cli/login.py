"""`nexus login`: a dashboard login link, or the API token."""

import asyncio

import click

from nexus.cli.place import note, open_home
from nexus.serving import serving


@click.command()
@click.option("--token", is_flag=True, help="Print the API token instead.")
@click.pass_context
def login(ctx: click.Context, token: bool) -> None:
    """Print a dashboard login link that works once, within ten minutes.

    Nexus must be running: `nexus up`.
    """
    home, _ = open_home(ctx)
    if token:
        click.echo(home.token())
        return
    if (service := serving(home)) is not None:
        service.await_response(note)
    # Imported here, because it takes longer than `nexus login --token` may.
    from nexus.client import Client

    async def print_link() -> None:
        async with Client.connect(home, notify=note) as client:
            click.echo(await client.login_url())

    asyncio.run(print_link())
