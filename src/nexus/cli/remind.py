"""`nexus remind`: set, list, pause and delete reminders."""

import sys
from dataclasses import asdict

import click

from nexus import clock
from nexus.automations import reminders
from nexus.automations.reminders import Place, Reminder
from nexus.cli.automations_place import open_automations
from nexus.cli.place import json_option, open_home, print_json

_words = click.argument("words", nargs=-1, required=True)
_OWNER = "owner"


class _RemindGroup(click.Group):
    """Take words that aren't a command as a reminder: `nexus remind in two hours call Anna`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_reminder = args and args[0] not in {*self.commands, *ctx.help_option_names}
        return super().parse_args(ctx, ["add", *args] if is_reminder else args)


@click.group(cls=_RemindGroup)
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
@json_option
@click.pass_context
def add(ctx: click.Context, words: tuple[str, ...], session: str, yes: bool, as_json: bool) -> None:
    """Set a reminder. The word `add` can be left out.

    Nexus sends the text at its time. If the text begins with "tell me", "show me", "what" and the like, it is
    a question, and the agent answers it then. Both arrive in the session, in the terminal and the browser.
    """
    _, config = open_home(ctx)
    now = clock.now()
    draft = reminders.draft(" ".join(words), now, reminders.zone_of(config.automations))
    for line in () if as_json else draft.described(now):
        click.echo(line)
    if not yes and sys.stdin.isatty() and not click.confirm("Save it?", default=True):
        click.echo("Not saved.")
        return
    target = Place(channel="cli", thread=session, session=session, sender=_OWNER, is_owner=True)
    with open_automations(ctx) as place:
        made = reminders.save(place.home, place.write, draft, target)
    if as_json:
        print_json(asdict(reminders.reminder(made, now)))
    else:
        click.echo("Saved. It arrives while `nexus up` or `nexus chat` is running.")


@remind.command("list")
@click.option("--ids", is_flag=True, help="Show the names under which they are automations.")
@json_option
@click.pass_context
def list_(ctx: click.Context, ids: bool, as_json: bool) -> None:
    """List reminders."""
    with open_automations(ctx) as place:
        found = [reminders.reminder(row, clock.now()) for row in place.write(reminders.listed)]
    if as_json:
        print_json([asdict(each) for each in found])
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
    """Describe a reminder on one line."""
    state = "" if reminder.state == "active" else f" ({reminder.state})"
    by = "" if reminder.made_by == _OWNER else f", by {reminder.made_by}"
    return f"{reminder.when}{state}: {reminder.text} [{reminder.session}{by}]"


def _change(ctx: click.Context, words: tuple[str, ...], to: str, done: str) -> None:
    now = clock.now()
    with open_automations(ctx) as place:
        name = place.write(reminders.find, said=" ".join(words))
        changed = reminders.reminder(reminders.change(place.home, place.write, name, to, now), now)
    click.echo(f"{done}: {changed.when}: {changed.text}")
