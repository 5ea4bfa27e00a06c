"""`nexus remind`: reminders in words, listed, paused and deleted."""

import json
import sys
from dataclasses import asdict

import click

from nexus import clock
from nexus.automations import reminders
from nexus.automations.reminders import Place, Reminder
from nexus.cli.automations_place import opened
from nexus.cli.place import opened_home

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_words = click.argument("words", nargs=-1, required=True)
_OWNER = "owner"


class _Words(click.Group):
    """Takes what is not a command for a reminder: `nexus remind in two hours call Anna`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_reminder = args and args[0] not in {*self.commands, *ctx.help_option_names}
        return super().parse_args(ctx, ["add", *args] if is_reminder else args)


@click.group(cls=_Words)
def remind() -> None:
    """Set, list, pause and delete reminders: `nexus remind "in two hours call Anna"`.

    In `nexus chat`, type /remind.
    """


@remind.command()
@_words
@click.option(
    "--session", metavar="LABEL", default="main", show_default=True, help="Session to deliver it in."
)
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@_json
@click.pass_context
def add(ctx: click.Context, words: tuple[str, ...], session: str, yes: bool, as_json: bool) -> None:
    """Set a reminder. The word `add` can be left out.

    Nexus sends the text at its time. If the text begins with "tell me", "show me", "what" and the like, it is
    a question, and the agent answers it then. Both arrive in the session, in the terminal and the browser.
    """
    _, config = opened_home(ctx)
    now = clock.now()
    draft = reminders.read_draft(" ".join(words), now, reminders.find_zone(config.automations))
    for line in () if as_json else draft.describe(now):
        click.echo(line)
    if not yes and sys.stdin.isatty() and not click.confirm("Save it?", default=True):
        click.echo("Not saved.")
        return
    place = Place(channel="cli", thread=session, session=session, sender=_OWNER, is_owner=True)
    with opened(ctx) as home:
        made = reminders.save(home.home, home.write, draft, place)
    if as_json:
        click.echo(json.dumps(asdict(reminders.describe_row(made, now)), indent=2))
    else:
        click.echo("Saved. It arrives while `nexus up` or `nexus chat` is running.")


@remind.command("list")
@click.option("--ids", is_flag=True, help="Show the names under which they are automations.")
@_json
@click.pass_context
def list_(ctx: click.Context, ids: bool, as_json: bool) -> None:
    """List reminders."""
    with opened(ctx) as home:
        found = [reminders.describe_row(row, clock.now()) for row in home.write(reminders.load_rows)]
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
        return
    for each in found:
        click.echo(f"{line(each)}{f'  {each.name}' if ids else ''}")
    if not found:
        click.echo('No reminders. Set one: `nexus remind "in two hours call Anna"`.')


@remind.command()
@_words
@click.pass_context
def pause(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Pause a reminder until you resume it. WORDS: its text, a part of it, or its name."""
    _change(ctx, words, "pause", "Paused")


@remind.command()
@_words
@click.pass_context
def resume(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Resume a paused reminder. WORDS: its text, a part of it, or its name."""
    _change(ctx, words, "resume", "Resumed")


@remind.command()
@_words
@click.pass_context
def delete(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Delete a reminder. WORDS: its text, a part of it, or its name."""
    _change(ctx, words, "delete", "Deleted")


def line(reminder: Reminder) -> str:
    """A reminder on one line."""
    state = "" if reminder.state == "active" else f" ({reminder.state})"
    by = "" if reminder.made_by == _OWNER else f", by {reminder.made_by}"
    return f"{reminder.when}{state}: {reminder.text} [{reminder.session}{by}]"


def _change(ctx: click.Context, words: tuple[str, ...], to: str, done: str) -> None:
    now = clock.now()
    with opened(ctx) as home:
        name = home.write(reminders.find, said=" ".join(words))
        changed = reminders.describe_row(reminders.change(home.home, home.write, name, to, now), now)
    click.echo(f"{done}: {changed.when}: {changed.text}")
