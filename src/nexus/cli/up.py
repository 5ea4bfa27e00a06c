"""`nexus up`: run the home in the foreground until it is told to stop."""

import asyncio
import json
import signal
from dataclasses import replace
from typing import Any

import click

from nexus.app import App
from nexus.cli.place import opened_home
from nexus.config import Config
from nexus.gateway.listener import bound
from nexus.gateway.server import Gateway
from nexus.home import Home
from nexus.serving import Serving
from nexus.skills.doors import OWNER, SOCKET


@click.command()
@click.option("--host", metavar="ADDRESS", help="Where to listen, instead of [gateway] host.")
@click.option(
    "--port", metavar="NUMBER", type=click.IntRange(0, 65_535), help="On which port; 0: 7807 or a free one."
)
@click.option("--json", "as_json", is_flag=True, help="Tell for a program to read, in one line, what runs.")
@click.pass_context
def up(ctx: click.Context, host: str | None, port: int | None, as_json: bool) -> None:
    """Run the home until Ctrl-C: its agents, the API and the dashboard, the socket for agents' scripts.

    When it is stopped, what runs is finished or put back into its queue, and nothing is lost.
    """
    home, config = opened_home(ctx)
    gateway = replace(
        config.gateway,
        host=config.gateway.host if host is None else host,
        port=config.gateway.port if port is None else port,
    )
    asyncio.run(_run(home, replace(config, gateway=gateway), as_json=as_json))


async def _run(home: Home, config: Config, *, as_json: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sign, stop.set)
    with Serving(home) as serving, bound(config.gateway.host, config.gateway.port) as listening:
        async with App(home, config, door=True) as app, Gateway(app, listening) as gateway:
            serving.tell(gateway.url)
            _tell(await _picture(app, gateway), as_json=as_json)
            await stop.wait()
            if not as_json:
                click.echo("Stopping")


async def _picture(app: App, gateway: Gateway) -> dict[str, Any]:
    waiting = await app.embedding.backlog()
    return {
        "home": str(app.home.root),
        "url": gateway.url,
        "login_url": gateway.login_url(),
        "socket": str(app.doorway(OWNER) / SOCKET),
        "embedding_model": waiting.model_id,
        "waiting_to_be_embedded": waiting.depth,
    }


def _tell(picture: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(picture))
        return
    click.echo(f"The home at {picture['home']} runs")
    click.echo(f"  address    {picture['url']}")
    click.echo(f"  dashboard  {picture['login_url']}")
    click.echo(f"  socket     {picture['socket']}")
    click.echo(f"  embedding  {picture['embedding_model']}, {picture['waiting_to_be_embedded']} waiting")
    click.echo("Stop it with Ctrl-C.")
