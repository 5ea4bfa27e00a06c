"""`--preview`: show which recorded prompts a change of the memory would have made different."""

import asyncio
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from nexus.cli.place import open_home, print_unicode_json
from nexus.cli.progress import steps_shown
from nexus.cli.terminal import printable
from nexus.runs import money
from nexus.text import pluralize

if TYPE_CHECKING:
    from nexus.evaluation.preview import Change, Difference, Preview

F = TypeVar("F", bound=Callable[..., Any])

_SHOWN: Final = 6
_CUT: Final = 160
_LEAST_MICROUSD: Final = 100
"""Less a day is shown in tokens."""


def preview_option(command: F) -> F:
    """Add `--preview`."""
    text = "Show which prompts of the last 30 days would have been different. Changes nothing."
    return click.option("--preview", is_flag=True, help=text)(command)


def print_preview(ctx: click.Context, change: "Change", *, as_json: bool) -> None:
    """Preview a change in a private copy of the home, and print what it would have done."""
    # Imported here, because the libraries behind it take longer than `nexus memory --help` may.
    from nexus.evaluation import preview
    from nexus.ledgers import backup

    home, config = open_home(ctx)
    with _exit_on_terminate(), backup.private_copy(home) as copy, steps_shown("Asking again") as progress:
        found = asyncio.run(preview.preview(copy, config, change, progress=progress))
    if as_json:
        print_unicode_json(found.to_json())
    else:
        _print_preview(found, preview.choose_examples(found.differences, _SHOWN))


@contextmanager
def _exit_on_terminate() -> Generator[None]:
    """Exit on SIGTERM as on Ctrl-C, so that the copy is deleted."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_preview(found: "Preview", examples: "list[Difference]") -> None:
    days = f"the last {found.days} days"
    if not found.prompts:
        click.echo(f"Nothing to compare: no prompts in {days}.")
    elif not found.differences:
        click.echo(f"None of {days}' {pluralize(found.prompts, 'prompt')} would have had other memories.")
    else:
        click.secho(
            f"{len(found.differences):,} of {days}' {pluralize(found.prompts, 'prompt')} "
            f"would have been different{_describe_cost(found)}.",
            bold=True,
        )
    if found.forgotten:
        click.echo(f"{found.forgotten:,} of them would be deleted.")
    if found.profile_before != found.profile_after:
        click.echo("The owner profile, part of each of your prompts, would change:")
        before, after = found.profile_before.splitlines(), found.profile_after.splitlines()
        _print_lines([line for line in before if line not in after], "-", "red")
        _print_lines([line for line in after if line not in before], "+", "green")
    for each in examples:
        click.echo()
        said = click.style(f"{each.at[:16].replace('T', ' ')}", dim=True)
        click.echo(f"{said}  {_cut(each.text)}")
        _print_lines(each.removed, "-", "red")
        _print_lines(each.added, "+", "green")
        if each.kept:
            same = "1 memory" if len(each.kept) == 1 else f"{len(each.kept)} memories"
            click.secho(f"    and {same} as before", dim=True)
        if each.has_other_history:
            click.secho("    Messages before it would be different or missing.", dim=True)
    if len(found.differences) > len(examples):
        click.echo(f"\nand {len(found.differences) - len(examples):,} more: pass --json")
    click.echo("Nothing was changed.")


def _print_lines(lines: Sequence[str], mark: str, color: str) -> None:
    for line in lines:
        click.secho(f"  {mark} {_cut(line.removeprefix('- '))}", fg=color)


def _cut(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _CUT else f"{line[: _CUT - 1]}…"


def _describe_cost(found: "Preview") -> str:
    cost, tokens = round(found.cost_microusd / found.days), round(found.tokens / found.days)
    if abs(cost) >= _LEAST_MICROUSD and not found.unpriced_tokens:
        return f", at about {money(abs(cost))} a day {'more' if cost > 0 else 'less'}"
    if tokens:
        return f", with about {pluralize(abs(tokens), 'token')} a day {'more' if tokens > 0 else 'less'}"
    return ""
