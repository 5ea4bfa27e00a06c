"""`nexus login`: a dashboard login link, or the API token."""

import asyncio
from typing import TYPE_CHECKING

import click

from nexus.cli.place import note, open_home
from nexus.serving import serving

if TYPE_CHECKING:
    from nexus.client import Client


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

    asyncio.run(_print_link(Client.connect(home, notify=note)))


async def _print_link(client: "Client") -> None:
    async with client:
        click.echo(await client.login_url())
