"""`nexus up` and `nexus login`: run the home in the foreground, and let a browser into its dashboard."""

import asyncio
import sys
from dataclasses import replace

import click

from nexus import heap
from nexus.cli.place import note, open_home
from nexus.serving import Serving, serving

_SWITCH_S = 0.0005


@click.command()
@click.option("--host", metavar="ADDRESS", help="Address to listen on instead of [gateway] host.")
@click.option(
    "--port", metavar="NUMBER", type=click.IntRange(0, 65_535), help="Port; 0 means 7807 or a free one."
)
@click.option("--json", "as_json", is_flag=True, help="Print status as one line of JSON.")
@click.pass_context
def up(ctx: click.Context, host: str | None, port: int | None, as_json: bool) -> None:
    """Run Nexus until Ctrl-C: agents, API, dashboard and the socket for agents' scripts.

    When stopped, running work is finished or requeued. A second Ctrl-C stops immediately; the next `nexus up`
    resumes the work.
    """
    home, config = open_home(ctx)
    gateway = replace(
        config.gateway,
        host=config.gateway.host if host is None else host,
        port=config.gateway.port if port is None else port,
    )
    heap.limit()
    # A thread that computes, such as one that ranks memories, would keep the event loop waiting for 5 ms each
    # time that the loop looks for something to do: with ten messages under way, half of the time.
    sys.setswitchinterval(_SWITCH_S)
    # Imported here, because the web server takes longer than `--help` may.
    from nexus.gateway.listener import bind_socket

    with Serving(home) as claim, bind_socket(gateway.host, gateway.port) as listening:
        # The libraries behind it take seconds: a port that is taken is reported before.
        with heap.import_libraries():
            from nexus.cli.up_running import run

        asyncio.run(run(home, replace(config, gateway=gateway), claim, listening, as_json=as_json))


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
