"""`nexus forget`: remove an entity, a thread, a time range or an import for good."""

import asyncio
import getpass
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import apsw
import click

from nexus.cli import forget_report
from nexus.cli.place import opened_home
from nexus.errors import UsageError
from nexus.ledgers import Ledgers, forgetting
from nexus.ledgers.forgetting import Beside, Target

T = TypeVar("T")
Resolve = Callable[[apsw.Connection], Target]


def _choices(command: Callable[..., None]) -> Callable[..., None]:
    """What every kind of forgetting can be asked for."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print it for a program to read."),
        click.option("--dry-run", is_flag=True, help="Show what would go, and change nothing."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
    ):
        command = option(command)
    return command


@click.group()
def forget() -> None:
    """Remove an entity, a thread, a time range or an import for good, with all that was learned from it.

    First it shows how much would go, and asks. What goes, goes from all six databases, their indexes
    and the bytes of their files. Tokens and costs stay, and a record that holds counts, no content.
    """


@forget.command()
@click.argument("id_or_name")
@click.option("--keep-mentions", is_flag=True, help="Keep texts of others that only name it.")
@click.option(
    "--without-name",
    multiple=True,
    metavar="NAME",
    help="A name of it that is also a common word: do not look for it in texts. May be repeated.",
)
@_choices
@click.pass_context
def entity(
    ctx: click.Context, id_or_name: str, keep_mentions: bool, without_name: tuple[str, ...], **choices: bool
) -> None:
    """Forget a person, a company, a project, …, under all its names.

    What it said, and what was said to it alone, goes; so do the facts about it, and every text that
    names it, unless you keep those.
    """
    _forget(
        ctx,
        lambda connection: forgetting.entity(
            connection, id_or_name, mentions=not keep_mentions, without=without_name
        ),
        **choices,
    )


@forget.command(short_help="Forget a thread, and what was learned from it.")
@click.argument("thread_id", metavar="ID")
@_choices
@click.pass_context
def thread(ctx: click.Context, thread_id: str, **choices: bool) -> None:
    """Forget a thread: its events, the sessions that served it, and what was learned from it."""
    _forget(ctx, lambda connection: forgetting.thread(connection, thread_id), **choices)


@forget.command(name="range", short_help="Forget what was said in a time, and what was learned from it.")
@click.argument("start")
@click.argument("end")
@_choices
@click.pass_context
def range_(ctx: click.Context, start: str, end: str, **choices: bool) -> None:
    """Forget what was said from START until just before END, and what was learned from it.

    A time is written as 2026-02-13 (midnight, UTC) or 2026-02-13T10:00:00+01:00.
    """
    target = forgetting.time_range(start, end)
    _forget(ctx, lambda _: target, **choices)


@forget.command(
    name="import", short_help="Undo an import: forget what it brought, and what was learned from it."
)
@click.argument("import_id", metavar="ID")
@_choices
@click.pass_context
def import_(ctx: click.Context, import_id: str, **choices: bool) -> None:
    """Undo an import: forget the messages that it recorded, and what was learned from them.

    `nexus import --list` shows the ids. The export itself isn't touched; you can import it again.
    """
    _forget(ctx, lambda connection: forgetting.import_(connection, import_id), **choices)


@forget.command()
@click.option("--json", "as_json", is_flag=True, help="Print it for a program to read.")
@click.pass_context
def resume(ctx: click.Context, as_json: bool) -> None:
    """Finish what a crash or a busy database interrupted."""
    beside = _engine(ctx)
    reports = _run(
        ctx, lambda ledgers: forgetting.resume(ledgers, tell=forget_report.progress, beside=beside)
    )
    if as_json:
        forget_report.print_json([forget_report.record(report) for report in reports])
        return
    if not reports:
        click.echo("There is nothing to finish.")
    for report in reports:
        forget_report.show(report)


def _forget(ctx: click.Context, resolve: Resolve, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    target = _run(ctx, lambda ledgers: forgetting.find(ledgers, resolve))
    if dry_run or not yes:
        plan = _run(ctx, lambda ledgers: forgetting.preview(ledgers, target))
        if dry_run and as_json:
            forget_report.print_json(forget_report.record(plan))
            return
        forget_report.show_plan(plan, err=as_json)
        if dry_run or plan.is_empty:
            return
        _confirm()
    beside = _engine(ctx)
    report = _run(ctx, lambda ledgers: _carry_out(ledgers, target, beside))
    if as_json:
        forget_report.print_json(None if report is None else forget_report.record(report))
    elif report is None:
        click.echo("There is nothing to forget.")
    else:
        forget_report.show(report)


async def _carry_out(ledgers: Ledgers, target: Target, beside: Beside) -> forgetting.Report | None:
    tell = forget_report.progress
    for report in await forgetting.resume(ledgers, tell=tell, beside=beside):
        click.echo(f"Finished {report.forget_id}, which had been interrupted.", err=True)
    return await forgetting.forget(ledgers, target, actor=_actor(), tell=tell, beside=beside)


def _engine(ctx: click.Context) -> Beside:
    """The engine's database forgets too, where there is one."""
    home, settings = opened_home(ctx)
    if not settings.engine.database and not home.engine_file.is_file():
        return forgetting.Nothing()
    from nexus.engine.forgetting import Forgetting
    from nexus.engine.settings import Settings

    return Forgetting(Settings.of_home(home, settings.engine))


def _run(ctx: click.Context, work: Callable[[Ledgers], Coroutine[Any, Any, T]]) -> T:
    home, settings = opened_home(ctx)

    async def run() -> T:
        async with Ledgers(home, settings.ledgers) as ledgers:
            return await work(ledgers)

    return asyncio.run(run())


def _confirm() -> None:
    if not sys.stdin.isatty():
        raise UsageError(
            "Nothing was removed: there is nobody to ask", hint="Add --yes to remove it without a question."
        )
    click.confirm("Remove all this for good?", abort=True)


def _actor() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A user that the system has no name for, as in some containers.
        return f"uid {os.getuid()}"
