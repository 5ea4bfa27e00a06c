"""`nexus backfill`: learn from imported histories, within limits of pace and cost."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nexus import clock
from nexus.cli.display import show_progress
from nexus.cli.place import (
    json_option,
    open_answering_home,
    open_home,
    print_json,
    print_unicode_json,
    printable,
)
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.memory import backfills
from nexus.ledgers.memory.backfills import Backfill, Limits
from nexus.runs import MICRO, money
from nexus.text import join_lines, pluralize

if TYPE_CHECKING:
    from nexus.app import App
    from nexus.roles.backfill import Sampled
    from nexus.roles.backfill.plan import Estimate

T = TypeVar("T")
_SHOWN = 160
_MINUTE_S = 60
_POLL_S = 0.5


def _limit_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--budget-tokens", type=click.IntRange(1), help="Pause after this many tokens."),
        click.option(
            "--budget", type=click.FloatRange(0, min_open=True), help="Pause after this many US dollars."
        ),
        click.option(
            "--per-hour", type=click.IntRange(1), help="Maximum episodes per hour. Default: no limit."
        ),
    ):
        command = option(command)
    return command


def _read_limits(per_hour: int | None, budget: float | None, budget_tokens: int | None) -> Limits:
    return Limits(
        episodes_an_hour=per_hour,
        budget_microusd=None if budget is None else round(budget * MICRO),
        budget_tokens=budget_tokens,
    )


@click.group()
def backfill() -> None:
    """Learn from imported histories.

    Imported messages can be searched without this. A backfill cuts them into episodes and lets the memory
    writer read each one, so that people, facts and changes over time become memory. It runs in the background
    of a served home, after your own messages, and can be paused and resumed.
    """


@backfill.command()
@click.argument("import_id", metavar="[IMPORT]", required=False)
@_limit_options
@json_option
@click.pass_context
def estimate(ctx: click.Context, import_id: str | None, as_json: bool, **limits: Any) -> None:
    """Estimate episodes, tokens, cost and time. No model is called.

    After `nexus backfill sample`, the estimate is projected from what the sample really took.
    """
    found = _run(ctx, lambda app: app.backfill.estimate(import_id, _read_limits(**limits)), serve=False)
    if as_json:
        print_unicode_json(found.to_json())
        return
    _show_estimate(found)


@backfill.command()
@click.argument("import_id", metavar="[IMPORT]", required=False)
@click.option(
    "--count", type=click.IntRange(1, 100), default=20, show_default=True, help="How many episodes."
)
@json_option
@click.pass_context
def sample(ctx: click.Context, import_id: str | None, count: int, as_json: bool) -> None:
    """Show what the model would store of a few random episodes.

    Nothing is stored. The answers are kept: a backfill doesn't pay for these episodes again.
    """
    found = _run(ctx, lambda app: app.backfill.sample(import_id, count))
    if as_json:
        print_unicode_json([asdict(each) for each in found])
        return
    for each in found:
        _show_sampled(each)
    if not found:
        click.echo("Nothing left to read.")
        return
    facts = sum(len(each.facts) for each in found)
    click.echo(f"{pluralize(facts, 'fact')} from {pluralize(len(found), 'episode')}. Nothing was stored.")
    click.echo("Next: `nexus backfill estimate`, then `nexus backfill start`.")


@backfill.command()
@click.argument("import_id", metavar="[IMPORT]", required=False)
@click.option(
    "--order",
    type=click.Choice(["newest", "oldest", "relevant"]),
    default="newest",
    show_default=True,
    help="Which episodes come first; relevant: those in which you wrote most.",
)
@_limit_options
@click.option("--wait", is_flag=True, help="Run it here and wait until it is done or paused.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@json_option
@click.pass_context
def start(
    ctx: click.Context, import_id: str | None, order: Any, wait: bool, yes: bool, as_json: bool, **limits: Any
) -> None:
    """Start reading one IMPORT, or all of them."""
    chosen = _read_limits(**limits)
    if not yes:
        expected = _run(ctx, lambda app: app.backfill.estimate(import_id, chosen), serve=False)
        _show_estimate(expected, err=as_json)
        if not sys.stdin.isatty():
            click.echo("Nothing started: no terminal to confirm. Pass --yes to skip the prompt.", err=True)
            sys.exit(1)
        click.confirm("Start?", abort=True, err=True)

    async def begin(app: "App") -> Backfill:
        begun = await app.backfill.start(import_id, sort=order, limits=chosen)
        return await _wait_until_done(app, begun) if wait else begun

    _show(_run(ctx, begin, serve=wait), as_json=as_json)


@backfill.command()
@json_option
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show how far the last backfill has come."""
    home, settings = open_home(ctx)

    async def read() -> list[Backfill]:
        async with Ledgers(home, settings.ledgers) as ledgers:
            return await ledgers.memory.read(backfills.list_backfills)

    found = asyncio.run(read())
    if not found:
        click.echo("[]" if as_json else "No backfill yet. Start one with `nexus backfill start`.")
        return
    _show(found[-1], as_json=as_json)


@backfill.command()
@json_option
@click.pass_context
def run(ctx: click.Context, as_json: bool) -> None:
    """Work on the active backfill here until it is done or paused."""

    async def work(app: "App") -> Backfill | None:
        found = await app.backfill.latest()
        return None if found is None else await _wait_until_done(app, found)

    found = _run(ctx, work)
    if found is None:
        raise UsageError("No backfill yet", hint="Start one with `nexus backfill start`.")
    _show(found, as_json=as_json)


@backfill.command()
@json_option
@click.pass_context
def pause(ctx: click.Context, as_json: bool) -> None:
    """Pause after the episodes that are being read."""
    _show(_run(ctx, lambda app: app.backfill.pause(), serve=False), as_json=as_json)


@backfill.command()
@_limit_options
@click.option("--wait", is_flag=True, help="Run it here and wait until it is done or paused.")
@json_option
@click.pass_context
def resume(ctx: click.Context, wait: bool, as_json: bool, **limits: Any) -> None:
    """Resume a paused backfill, and retry episodes that failed. Given limits replace all earlier ones."""
    chosen = _read_limits(**limits) if any(limits.values()) else None

    async def resume_backfill(app: "App") -> Backfill:
        begun = await app.backfill.resume(chosen)
        return await _wait_until_done(app, begun) if wait else begun

    _show(_run(ctx, resume_backfill, serve=wait), as_json=as_json)


@backfill.command()
@json_option
@click.pass_context
def cancel(ctx: click.Context, as_json: bool) -> None:
    """End the backfill. What was learned stays; unread episodes can be started again."""
    _show(_run(ctx, lambda app: app.backfill.cancel(), serve=False), as_json=as_json)


async def _wait_until_done(app: "App", begun: Backfill) -> Backfill:
    with show_progress("Reading episodes") as progress:
        while (found := await app.backfill.get(begun.id)).status == "running":
            done = found.progress
            read = done.done + done.skipped + done.failed
            progress(read, read + done.waiting)
            await asyncio.sleep(_POLL_S)
    return found


def _run(ctx: click.Context, work: "Callable[[App], Awaitable[T]]", *, serve: bool = True) -> T:
    home, settings = open_answering_home(ctx, "", "writer")

    async def run() -> T:
        # Imported here, because the libraries behind it take longer than `--help` may.
        from nexus.app import App

        async with App(home, settings, serve=serve) as app:
            return await work(app)

    return asyncio.run(run())


def _show_estimate(found: "Estimate", *, err: bool = False) -> None:
    cost = "unknown: no price for this model; set [prices]"
    if found.cost_microusd is not None:
        cost = money(found.cost_microusd)
    time = "unknown: the model's speed isn't measured yet"
    if found.seconds is not None:
        is_short = found.seconds < _MINUTE_S
        time = f"about {found.seconds} s" if is_short else f"about {timedelta(seconds=found.seconds)}"
    lines = [
        f"{pluralize(found.episodes, 'episode')} with {pluralize(found.messages, 'message')} to read:",
        f"  model   {found.model}",
        f"  calls   {found.calls:,}",
        f"  tokens  {found.input_tokens:,} in ({found.cached_tokens:,} cached), {found.output_tokens:,} out",
        f"  cost    {cost}",
        f"  time    {time}",
    ]
    if found.measured:
        lines.append(f"Projected from {pluralize(found.measured, 'episode')} that the model has read.")
    elif found.calls:
        lines.append("Run `nexus backfill sample` first for a closer estimate.")
    click.echo("\n".join(lines), err=err)


def _show_sampled(each: "Sampled") -> None:
    click.echo(f"{clock.minute(each.start)}  {each.channel}  {printable(each.title or '')}")
    for message in each.messages[:3]:
        text = join_lines(str(message["text"]))
        click.echo(f"  > {printable(str(message['sender']))}: {printable(text[:_SHOWN])}")
    if len(each.messages) > 3:
        click.echo(f"  > … {pluralize(len(each.messages) - 3, 'more message')}")
    for fact in each.facts:
        click.echo(f"  + {printable(str(fact['fact']))}  ({fact['event']})")
    for reason in each.refused:
        click.echo(f"  - {printable(reason)}")


def _show(found: Backfill, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(found))
        return
    done = found.progress
    read, total = done.done + done.skipped, done.waiting + done.done + done.skipped + done.failed
    reason = f": {printable(found.reason)}" if found.reason else ""
    click.echo(f"{found.id}  {found.status}{reason}")
    click.echo(f"  {read:,} of {pluralize(total, 'episode')} read, {pluralize(done.facts, 'fact')} stored")
    if done.failed:
        click.echo(f"  {done.failed:,} failed; `nexus backfill resume` retries them")
    expected = found.estimate.get("cost_microusd")
    estimated = f" of an estimated {money(expected)}" if expected else ""
    click.echo(f"  {done.tokens:,} tokens, {money(done.cost_microusd)}{estimated}")
    if found.status == "running":
        click.echo("It runs while the home is served (`nexus up`), or here with `nexus backfill run`.")
