"""`nexus up`: run the home in the foreground until it is told to stop."""

import asyncio
from dataclasses import replace

import click

from nexus.cli.place import opened_home
from nexus.serving import Serving


@click.command()
@click.option("--host", metavar="ADDRESS", help="Where to listen, instead of [gateway] host.")
@click.option(
    "--port", metavar="NUMBER", type=click.IntRange(0, 65_535), help="On which port; 0: 7807 or a free one."
)
@click.option("--json", "as_json", is_flag=True, help="Tell for a program to read, in one line, what runs.")
@click.pass_context
def up(ctx: click.Context, host: str | None, port: int | None, as_json: bool) -> None:
    """Run the home until Ctrl-C: its agents, the API and the dashboard, the socket for agents' scripts.

    When it is stopped, what runs is finished or put back into its queue, and nothing is lost. A second
    Ctrl-C ends it at once; what ran then is taken up again by the next `nexus up`.
    """
    home, config = opened_home(ctx)
    gateway = replace(
        config.gateway,
        host=config.gateway.host if host is None else host,
        port=config.gateway.port if port is None else port,
    )
    with Serving(home) as serving:
        # Imported here, because the libraries behind it take longer than a refusal or `--help` may.
        from nexus.cli.up_running import run

        asyncio.run(run(home, replace(config, gateway=gateway), serving, as_json=as_json))
