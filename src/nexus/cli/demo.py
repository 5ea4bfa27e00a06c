"""`nexus demo`: fill a home with an invented month."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import click

from nexus import clock, config
from nexus.cli.display import show_progress
from nexus.cli.place import locate_home, parse_time
from nexus.errors import ModelFileError
from nexus.home import Home
from nexus.text import pluralize

if TYPE_CHECKING:
    from nexus.demo.filling import Demo
    from nexus.memory.embedding.embedder import Embedder, Floats

_EXAMPLES = (
    'recall "why does the Tidal Room open later?"',
    'memory show "Clara Holm"',
    "memory candidates",
    "trace",
    "automations list",
    "up",
)

_DISCLAIMER = (
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
@click.option(
    "--until",
    metavar="TIME",
    envvar="NEXUS_DEMO_UNTIL",
    show_envvar=True,
    help="End of the month, such as 2026-05-01. Default: now.",
)
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
    home = locate_home(ctx)
    end = parse_time(until) or clock.now().replace(minute=0, second=0, microsecond=0)
    # Imported here, because the libraries behind it take longer than `nexus demo --help` may.
    from nexus.demo.filling import Demo

    scenes = asyncio.run(_fill(home, Demo(seed=seed, until=end, scale=scale), embed=embed, again=again))
    click.echo(f"Wrote a month of {pluralize(scenes, 'conversation')} to {home.root}. Try:")
    for command in _EXAMPLES:
        click.echo(f"  nexus --home {home.root} {command}")
    click.echo(_DISCLAIMER)


async def _fill(home: Home, demo: "Demo", *, embed: bool, again: bool) -> int:
    from nexus.demo.filling import fill
    from nexus.demo.place import finish, prepare

    settings = config.load(home.config_file) if home.config_file.exists() else config.Config()
    await prepare(home, settings, again=again)
    with show_progress("Writing the month") as progress:
        written = asyncio.Event()
        # In parallel: the model takes one core, and writing the other.
        embedding = asyncio.create_task(_embed(home, settings, written)) if embed else None
        try:
            scenes = await fill(home, settings, demo, progress)
        finally:
            written.set()
    if embedding:
        with show_progress("Preparing search") as progress:
            progress(0, 0)
            await embedding
    finish(home)
    return scenes


async def _embed(home: Home, settings: config.Config, written: asyncio.Event) -> None:
    """Embed new texts until all are written."""
    from nexus.ledgers import Ledgers
    from nexus.memory.embedding import Vectors, embed_new, find_installed
    from nexus.memory.embedding.embedder import load
    from nexus.memory.succession import derive

    async with Ledgers(home, settings.ledgers) as ledgers:
        try:
            model = await asyncio.to_thread(load, find_installed(settings.memory))
        except ModelFileError as error:
            click.echo(f"No embeddings created: {error.message}. {error.hint}", err=True)
            return
        vectors = Vectors(ledgers.embeddings, _CachingEmbedder(model))
        is_last = False
        while not is_last:
            is_last = written.is_set()
            await embed_new(ledgers, vectors)
        await derive(ledgers, vectors)


class _CachingEmbedder:
    """An embedding model that reads each text once: many of the month's repeat every day."""

    def __init__(self, model: "Embedder") -> None:
        self._model = model
        self._vectors: dict[str, Any] = {}
        self._threads = ThreadPoolExecutor(2)
        self.model_id, self.dimensions = model.model_id, model.dimensions
        self.embed_queries = model.embed_queries

    def embed(self, texts: Sequence[str]) -> "Floats":
        import numpy as np

        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        # On two cores: by two calls, because the model's own threads spin while they wait for each other.
        halves = [half for half in (new[::2], new[1::2]) if half]
        for half, vectors in zip(halves, self._threads.map(self._model.embed, halves), strict=True):
            self._vectors |= zip(half, vectors, strict=True)
        return np.stack([self._vectors[text] for text in texts])
