"""`nexus acp`: use the agent in an editor."""

import asyncio
import sys

import click

from nexus import extras
from nexus.cli.place import note, open_answering_home
from nexus.errors import NexusError, UsageError


@click.command()
@click.option("--model", metavar="PROVIDER/MODEL", default="", help="Model to use instead of [models].")
@click.pass_context
def acp(ctx: click.Context, model: str) -> None:
    """Serve the agent to an editor over the Agent Client Protocol.

    Zed, JetBrains IDEs and other editors start it and talk with it on stdin and stdout. It connects to
    `nexus up` if that is running.
    """
    extras.require("acp", "`nexus acp`", UsageError, modules=("acp",))
    # Imported here, because the libraries behind it take longer than `nexus acp --help` may.
    from nexus.cli.acp_agent import refuse, serve

    if sys.stdin.isatty():
        note("Editors start `nexus acp` and talk with it. To chat in the terminal, run `nexus chat`.")
    try:
        home, settings = open_answering_home(ctx, model)
    except NexusError as error:
        # Editors show what a request is answered with, and hide what a program writes before it ends.
        asyncio.run(refuse(error))
        return
    asyncio.run(serve(home, settings, model))
