"""`nexus recall`: ask the memory, and see why it answers as it does."""

import asyncio
import json
from dataclasses import asdict
from datetime import datetime
from typing import Any, cast

import click

from nexus import clock, config
from nexus.cli.place import opened_home
from nexus.errors import UsageError
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.memory.embedding import Vectors, embed_new, opener
from nexus.memory.embedding.files import ModelError
from nexus.memory.recall import Answer, Budget, Query, Recall, Result


@click.command()
@click.argument("text")
@click.option("--explain", is_flag=True, help="Say for each result why it is there.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer for a program to read.")
@click.option("--budget", type=click.Choice(["low", "mid", "high"]), default="mid", show_default=True)
@click.option("--limit", type=click.IntRange(1, 200), default=10, show_default=True, help="The most results.")
@click.option("--max-tokens", type=click.IntRange(1), default=4000, show_default=True)
@click.option("--channel", help="Only what was said on this channel.")
@click.option("--after", metavar="TIME", help="Only what is from then on, as 2026-05-01.")
@click.option("--before", metavar="TIME", help="Only what is from before then.")
@click.pass_context
def recall(ctx: click.Context, text: str, explain: bool, as_json: bool, **options: Any) -> None:
    """Find what the memory holds about TEXT: events and facts, the best first.

    Nothing relevant means nothing is printed. No language model is called.
    """
    home, settings = opened_home(ctx)
    query = Query(
        text=text,
        budget=cast("Budget", options["budget"]),
        max_results=options["limit"],
        max_tokens=options["max_tokens"],
        channel=options["channel"],
        time_after=_moment(options["after"]),
        time_before=_moment(options["before"]),
    )
    answer, notes = asyncio.run(_ask(home, settings, query))
    if as_json:
        click.echo(json.dumps({"notes": notes, **asdict(answer)}, indent=2, default=str))
        return
    for note in notes:
        click.echo(note, err=True)
    if not answer.results:
        click.echo("Nothing relevant.")
    for place, result in enumerate(answer.results, start=1):
        _print(place, result, explain=explain)
    if explain:
        _print_course(answer)


async def _ask(home: Home, settings: config.Config, query: Query) -> tuple[Answer, list[str]]:
    notes: list[str] = []
    async with Ledgers(home, settings.ledgers) as ledgers:
        vectors: Vectors | None = None
        try:
            vectors = Vectors(ledgers.embeddings, opener(settings.memory)(None))
            await embed_new(ledgers, vectors)
        except ModelError as error:
            notes.append(f"Searching by words alone: {error.message}. {error.hint}")
        return await Recall(ledgers, vectors).find(query), notes


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return clock.parse(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a time", hint="Write it as 2026-05-01 or 2026-05-01T10:00Z."
        ) from None


def _print(place: int, result: Result, *, explain: bool) -> None:
    item = result.item
    who = f"{item.speaker}: " if item.speaker else ""
    click.echo(f"{place:>3}. {click.style(item.at[:10], dim=True)} {who}{' '.join(item.text.split())[:300]}")
    if not explain:
        return
    reasons = result.reasons
    seen = ", ".join(f"{arm} #{rank}" if rank else arm for arm, (rank, _) in reasons.arms.items())
    click.echo(
        f"     {item.kind} {item.id}, relevant with probability {result.probability:.2f}; seen by {seen}"
    )
    if reasons.matched_words:
        click.echo(f"     says {', '.join(reasons.matched_words)}")
    if reasons.matched_names:
        click.echo(f"     is by or about {', '.join(reasons.matched_names)}")
    if reasons.neighbour_of:
        click.echo(f"     stands beside {reasons.neighbour_of}")
    if reasons.stale_since:
        click.echo(f"     stale since {reasons.stale_since}")
    click.echo(f"     {reasons.age_days:.0f} days old, from event {reasons.source_event_id or 'unknown'}")


def _print_course(answer: Answer) -> None:
    if answer.window:
        start, end = answer.window
        click.echo(f"Time meant: {start.date()} to {end.date()}")
    if answer.late_arms:
        click.echo(f"Too late for the deadline: {', '.join(answer.late_arms)}")
    spent = ", ".join(f"{name} {ms:.0f}" for name, ms in answer.timings_ms.items())
    click.echo(f"{answer.considered} candidates; milliseconds: {spent}")
