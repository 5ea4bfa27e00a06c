"""The commands of `nexus memory` that add, correct, pin and review facts."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click

from nexus import clock
from nexus.cli.memory_views import as_json_option, limit_option, person, print_json, print_log
from nexus.cli.place import with_ledgers
from nexus.ledgers import Ledgers
from nexus.ledgers.memory import shorten_id
from nexus.ledgers.memory.reviews import Decision, State
from nexus.memory.operations import Memory
from nexus.memory.views import plain as views


@click.command()
@click.argument("statement")
@click.option("--about", metavar="ENTITY", help="Subject: id or name.")
@as_json_option
@click.pass_context
def add(ctx: click.Context, statement: str, about: str | None, as_json: bool) -> None:
    """Add a fact in your own words."""
    arguments = {"fact": statement, **({"about": about} if about else {})}

    async def work(ledgers: Ledgers) -> dict[str, Any]:
        return await Memory(ledgers).add(arguments, person())

    answer = with_ledgers(ctx, work)
    print_json(answer) if as_json else click.echo(f"Added {shorten_id(answer['id'])}.")


@click.command()
@click.argument("fact_id", metavar="ID")
@click.argument("statement")
@click.option(
    "--how",
    type=click.Choice(["corrected", "changed", "cancelled"]),
    help="It was never true, was true until now, or was called off.",
)
@as_json_option
@click.pass_context
def correct(ctx: click.Context, fact_id: str, statement: str, how: str | None, as_json: bool) -> None:
    """Replace the fact ID by STATEMENT. Both stay in the log."""

    async def work(ledgers: Ledgers) -> dict[str, Any]:
        return await Memory(ledgers).correct(fact_id, statement, person(), how=how)

    answer = with_ledgers(ctx, work)
    told = f"{shorten_id(fact_id)} is replaced by {shorten_id(answer['id'])}: {statement}"
    print_json(answer) if as_json else click.echo(told)


@click.command("keep-both")
@click.argument("fact_id", metavar="ID")
@click.argument("other_id", metavar="[OTHER]", required=False)
@as_json_option
@click.pass_context
def keep_both(ctx: click.Context, fact_id: str, other_id: str | None, as_json: bool) -> None:
    """Keep two facts as both true.

    ID and the fact that replaced it, or OTHER, are no longer linked, and never again.
    """

    async def work(ledgers: Ledgers) -> dict[str, Any]:
        return await Memory(ledgers).keep_both(fact_id, other_id, person())

    answer = with_ledgers(ctx, work)
    told = f"Both are true: {shorten_id(fact_id)} and {shorten_id(answer['distinct_from'])}."
    print_json(answer) if as_json else click.echo(told)


@click.command()
@click.argument("fact_id", metavar="ID")
@as_json_option
@click.pass_context
def pin(ctx: click.Context, fact_id: str, as_json: bool) -> None:
    """Always consider a fact when its subject comes up."""
    _decide(ctx, fact_id, "pin", f"Pinned {fact_id}.", as_json=as_json)


@click.command()
@click.argument("fact_id", metavar="ID")
@as_json_option
@click.pass_context
def unpin(ctx: click.Context, fact_id: str, as_json: bool) -> None:
    """Unpin a fact."""
    _decide(ctx, fact_id, "unpin", f"Unpinned {fact_id}.", as_json=as_json)


@click.command()
@click.option("--days", type=click.IntRange(1), default=7, show_default=True, help="How far to look back.")
@click.option("--accept", metavar="ID", help="Accept a fact.")
@click.option("--reject", metavar="ID", help="Reject a fact: it stays in the log and is no longer used.")
@click.option("--undo", metavar="ID", help="Take back an accept or a reject.")
@limit_option
@as_json_option
@click.pass_context
def review(
    ctx: click.Context,
    days: int,
    accept: str | None,
    reject: str | None,
    undo: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List facts that nobody has reviewed, or decide about one."""
    asked: tuple[tuple[str | None, Decision, str], ...] = (
        (accept, "accept", "Accepted"),
        (reject, "reject", "Rejected"),
        (undo, "reopen", "Reopened"),
    )
    for fact_id, decision, told in asked:
        if fact_id:
            _decide(ctx, fact_id, decision, f"{told} {fact_id}.", as_json=as_json)
            return
    since = clock.timestamp(clock.now() - timedelta(days=days))
    found = with_ledgers(ctx, views.to_review, since=since, limit=limit)
    if as_json:
        print_json(found)
    elif found:
        print_log(found)
    else:
        click.echo("Nothing to review.")


def _decide(ctx: click.Context, fact_id: str, decision: Decision, told: str, *, as_json: bool) -> None:
    async def work(ledgers: Ledgers) -> State:
        return await Memory(ledgers).decide(fact_id, decision, person())

    held = with_ledgers(ctx, work)
    print_json({"id": fact_id, **asdict(held)}) if as_json else click.echo(told)
