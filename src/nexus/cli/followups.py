"""`nexus followups`: list promises, and mark them done, later or wrong."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TypeVar

import click

from nexus.automations import reminders
from nexus.cli.place import json_option, open_home, print_unicode_json, with_ledgers
from nexus.ledgers import Ledgers
from nexus.ledgers.memory.follow_ups import FollowUp, Status
from nexus.roles.follow_ups.follow_ups import FollowUps, describe

T = TypeVar("T")
_reference = click.argument("reference", metavar="ID")


@click.group(invoke_without_command=True)
@click.pass_context
def followups(ctx: click.Context) -> None:
    """See promises made in conversations, and close them.

    Without a command, lists the open ones.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@followups.command("list")
@click.option("--all", "all_", is_flag=True, help="Include those that are done or wrong.")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of results."
)
@json_option
@click.pass_context
def list_(ctx: click.Context, all_: bool = False, limit: int = 50, as_json: bool = False) -> None:
    """List follow-ups by due date."""
    found = _work(ctx, lambda own: own.load(None if all_ else "open", limit))
    if as_json:
        print_unicode_json([asdict(each) for each in found])
        return
    for each in found:
        click.echo(_format(ctx, each))
    if not found:
        click.echo("No follow-ups.")
    _, config = open_home(ctx)
    if not config.followups.enabled:
        click.echo("Promises aren't recognized: `enabled = false` in [followups] in config.toml.", err=True)


@followups.command()
@_reference
@json_option
@click.pass_context
def done(ctx: click.Context, reference: str, as_json: bool) -> None:
    """Mark a follow-up as done. ID: the end of its id."""
    _close(ctx, reference, "done", "Done", as_json=as_json)


@followups.command()
@_reference
@json_option
@click.pass_context
def wrong(ctx: click.Context, reference: str, as_json: bool) -> None:
    """Remove a follow-up that is no promise. ID: the end of its id."""
    _close(ctx, reference, "wrong", "Removed", as_json=as_json)


@followups.command()
@_reference
@click.argument("words", metavar="[WHEN]...", nargs=-1)
@json_option
@click.pass_context
def later(ctx: click.Context, reference: str, words: tuple[str, ...], as_json: bool) -> None:
    """Raise a follow-up again later. WHEN: such as `on Friday at 9`. Default: tomorrow."""
    found = _work(ctx, lambda own: own.postpone(reference, " ".join(words) or "tomorrow"))
    print_unicode_json(asdict(found)) if as_json else click.echo(f"Later: {_format(ctx, found)}")


def _close(ctx: click.Context, reference: str, status: Status, said: str, *, as_json: bool) -> None:
    found = _work(ctx, lambda own: own.close(reference, status))
    print_unicode_json(asdict(found)) if as_json else click.echo(f"{said}: {_format(ctx, found)}")


def _format(ctx: click.Context, found: FollowUp) -> str:
    _, config = open_home(ctx)
    state = {"open": ", raised" if found.raised_at else "", "done": ", done", "wrong": ", removed"}
    return describe(found, reminders.find_zone(config.automations)) + state[found.status]


def _work(ctx: click.Context, work: Callable[[FollowUps], Awaitable[T]]) -> T:
    _, config = open_home(ctx)

    async def run(ledgers: Ledgers) -> T:
        return await work(FollowUps(ledgers, config))

    return with_ledgers(ctx, run)
