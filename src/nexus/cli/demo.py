"""`nexus demo`: a home with a month in it, to look at."""

import asyncio
from typing import TYPE_CHECKING

import click

from nexus import clock, config
from nexus.cli.place import chosen_home, counted, moment
from nexus.cli.progress import steps_shown
from nexus.errors import ModelFileError
from nexus.home import Home

if TYPE_CHECKING:
    from nexus.demo.filling import Demo

_LOOK = (
    'recall "why does the Tidal Room open later?"',
    'memory show "Clara Holm"',
    "memory candidates",
    "trace",
    "automations list",
    "up",
)

_TRUTH = (
    "Everything here is invented, including the Signal, Slack and email messages. `nexus channels add`\n"
    "connects a real home to email, Slack and others; Signal would need a program of your own.\n"
    "To get the same from your own agent, set [models] manager, [web] search_url and [tools] directories."
)


@click.command()
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the month.")
@click.option(
    "--scale",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Multiply the everyday conversations, for benchmarks.",
)
@click.option("--until", metavar="TIME", help="End of the month, such as 2026-05-01. Default: now.")
@click.option(
    "--embed/--no-embed",
    default=True,
    show_default=True,
    help="Create embeddings now, or leave it to `nexus up`.",
)
@click.option("--again", is_flag=True, help="Replace an earlier demo, including what you added to it.")
@click.pass_context
def demo(ctx: click.Context, seed: int, scale: int, until: str | None, embed: bool, again: bool) -> None:
    """Fill a new home with an invented month: Mira, her studio, her family and her agent.

    The same seed and end produce the same month. No language model is called, and nothing leaves your
    machine. A home with your own data is refused; an unchanged earlier demo is replaced.
    """
    home = chosen_home(ctx)
    end = moment(until) or clock.now().replace(minute=0, second=0, microsecond=0)
    # Imported here, because the libraries behind it take longer than `nexus demo --help` may.
    from nexus.demo.filling import Demo

    scenes = asyncio.run(_fill(home, Demo(seed=seed, until=end, scale=scale), embed=embed, again=again))
    click.echo(f"Wrote a month of {counted(scenes, 'conversation')} to {home.root}. Try:")
    for command in _LOOK:
        click.echo(f"  nexus --home {home.root} {command}")
    click.echo(_TRUTH)


async def _fill(home: Home, demo: "Demo", *, embed: bool, again: bool) -> int:
    from nexus.demo.filling import fill
    from nexus.demo.place import finish, prepare

    settings = config.load(home.config_file) if home.config_file.exists() else config.Config()
    await prepare(home, settings, again=again)
    with steps_shown("Writing the month") as told:
        scenes = await fill(home, settings, demo, told)
    finish(home)
    if embed:
        await _embed(home, settings)
    return scenes


async def _embed(home: Home, settings: config.Config) -> None:
    from nexus.ledgers import Ledgers
    from nexus.memory.embedding import Vectors, embed_new, opener
    from nexus.memory.succession import derive

    async with Ledgers(home, settings.ledgers) as ledgers:
        try:
            embedder = opener(settings.memory)(None)
        except ModelFileError as error:
            click.echo(f"No embeddings created: {error.message}. {error.hint}", err=True)
            return
        with steps_shown("Embedding") as told:
            vectors = Vectors(ledgers.embeddings, embedder)
            await embed_new(ledgers, vectors, lambda made: told(made, 0))
            await derive(ledgers, vectors)
