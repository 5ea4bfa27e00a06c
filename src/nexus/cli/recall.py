"""`nexus recall`: ask the memory, and see why it answers as it does."""

import asyncio
import json
from dataclasses import asdict
from typing import Any, Final, cast

import click

from nexus import config
from nexus.cli.place import moment, opened_home
from nexus.cli.recall_report import show
from nexus.errors import ModelFileError
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.memory.embedding import Vectors, embed_new, opened
from nexus.memory.recall import Answer, Budget, Query, Recall, kinds
from nexus.memory.recall.reranker import installed_reranker
from nexus.memory.succession import derive

# The program has just started and nothing is warm; a person waits longer than an agent may.
_DEADLINE_MS: Final = 10_000


@click.command()
@click.argument("text")
@click.option("--explain", is_flag=True, help="Say for each result why it is there.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer for a program to read.")
@click.option("--budget", type=click.Choice(["low", "mid", "high"]), default="mid", show_default=True)
@click.option("--limit", type=click.IntRange(1, 200), default=10, show_default=True, help="The most results.")
@click.option("--max-tokens", type=click.IntRange(1), default=4000, show_default=True)
@click.option(
    "--scope",
    metavar="KINDS",
    help="Only these kinds: events, facts, observations, mental_models, episodes, entities.",
)
@click.option("--entity", help="Only what is about this entity: its id, any of its names, `me` or `my boss`.")
@click.option("--channel", help="Only what was said on this channel.")
@click.option("--after", metavar="TIME", help="Only what is from then on, as 2026-05-01.")
@click.option("--before", metavar="TIME", help="Only what is from before then.")
@click.pass_context
def recall(ctx: click.Context, text: str, explain: bool, as_json: bool, **options: Any) -> None:
    """Find what the memory holds about TEXT, the best first.

    Searches events, facts, observations, mental models, episodes and entities. Results that may not answer
    the question are listed under "Weak matches". No language model is called.
    """
    home, settings = opened_home(ctx)
    query = Query(
        text=text,
        deadline_ms=_DEADLINE_MS,
        kinds=kinds(options["scope"]),
        entity_id=options["entity"],
        budget=cast("Budget", options["budget"]),
        max_results=options["limit"],
        max_tokens=options["max_tokens"],
        channel=options["channel"],
        time_after=moment(options["after"]),
        time_before=moment(options["before"]),
    )
    answer, notes = asyncio.run(_ask(home, settings, query))
    if as_json:
        click.echo(json.dumps({"notes": notes, **asdict(answer)}, indent=2, default=_plain))
        return
    for note in notes:
        click.echo(note, err=True)
    show(answer, explain=explain)


def _plain(value: object) -> object:
    return sorted(cast("frozenset[str]", value)) if isinstance(value, frozenset) else str(value)


async def _ask(home: Home, settings: config.Config, query: Query) -> tuple[Answer, list[str]]:
    notes: list[str] = []
    async with Ledgers(home, settings.ledgers) as ledgers:
        vectors: Vectors | None = None
        try:
            vectors = await opened(ledgers, settings.memory)
            await embed_new(ledgers, vectors)
            await derive(ledgers, vectors)
            await vectors.mirror.refresh()
        except ModelFileError as error:
            notes.append(f"Searching by words alone: {error.message}. {error.hint}")
        reranker = await asyncio.to_thread(installed_reranker)
        return await Recall(ledgers, vectors, reranker=reranker).find(query), notes
