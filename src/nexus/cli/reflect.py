"""`nexus reflect`: answer a question from the memory, with sources, and optionally save the answer."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from nexus import config
from nexus.cli.display import print_table
from nexus.cli.memory_conclusions import print_models
from nexus.cli.place import json_option, open_answering_home, print_unicode_json
from nexus.errors import UsageError
from nexus.home import Home
from nexus.text import pluralize

if TYPE_CHECKING:
    from nexus.results import Reflection


@click.command()
@click.argument("question", nargs=-1)
@click.option("--save", "save_as", metavar="NAME", help="Save the answer as a mental model.")
@click.option("--refresh", metavar="ID", help="Answer a saved question again: id or name.")
@click.option("--list", "listing", is_flag=True, help="List saved mental models.")
@click.option("--model", metavar="PROVIDER/MODEL", default="", help="Model to use instead of [models].")
@json_option
@click.pass_context
def reflect(
    ctx: click.Context, question: tuple[str, ...], *, listing: bool, as_json: bool, **options: Any
) -> None:
    """Answer QUESTION from the memory, with sources.

    The model must search before it answers. Citations it didn't find are removed and reported.
    """
    text = " ".join(question).strip()
    if listing:
        print_models(ctx, as_json)
        return
    if bool(text) == bool(options["refresh"]):
        raise UsageError(
            "Pass a question, or --refresh with a mental model",
            hint='For example: `nexus reflect "What changed?"`.',
        )
    home, settings = open_answering_home(ctx, options["model"], "reflection")
    found = asyncio.run(_reflect(home, settings, text, **options))
    if as_json:
        print_unicode_json(found.to_json())
    else:
        _print_answer(found)


async def _reflect(
    home: Home,
    settings: config.Config,
    question: str,
    *,
    save_as: str | None,
    refresh: str | None,
    model: str,
) -> "Reflection":
    # Imported here, because the libraries behind it take longer than `nexus reflect --help` may.
    from nexus.app import App

    async with App(home, settings) as app:
        if refresh:
            return await app.refresh(refresh, model=model)
        return await app.reflect(question, save_as=save_as, model=model)


def _print_answer(found: "Reflection") -> None:
    click.echo(found.answer)
    if found.sources:
        click.echo("\nSources")
        lines = [
            (source.at[:10], source.text, source.id, "stale" if source.stale_since else "")
            for source in found.sources
        ]
        print_table(("when", "what", "id", ""), lines)
    if found.removed:
        click.echo(
            f"{pluralize(len(found.removed), 'source')} cited without a match, removed: "
            f"{', '.join(found.removed)}",
            err=True,
        )
    if found.mental_model_id:
        click.echo(f"Saved as {found.mental_model_id}.", err=True)
