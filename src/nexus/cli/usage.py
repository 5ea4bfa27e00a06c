"""`nexus usage`: calls, tokens and cost, the state of the budgets, and what they refused."""

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from nexus import clock, config
from nexus.cli import model_checks
from nexus.cli.display import print_table
from nexus.cli.place import json_option, open_home, print_unicode_json
from nexus.home import Home
from nexus.runs import MICRO
from nexus.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nexus.gateway.views.usage import Budget, Message, Report, Spent
    from nexus.ledgers.runtime.usage import Hit
    from nexus.runs import Totals

_COLUMNS = ("calls#", "tokens#", "cost#")
_DETAILED_COLUMNS = ("calls#", "fresh#", "cached#", "written#", "out#", "cost#")
_ASKED_CHARACTERS = 60


@click.command()
@click.option("--days", type=click.IntRange(1, 3_660), default=30, show_default=True, help="Number of days.")
@click.option(
    "--limit", type=click.IntRange(1), default=10, show_default=True, help="Maximum number of messages."
)
@click.option(
    "--details",
    is_flag=True,
    help="Split tokens into fresh input, input read from the cache, input written to it, and output.",
)
@json_option
@click.pass_context
def usage(ctx: click.Context, days: int, limit: int, details: bool, as_json: bool) -> None:
    """Show calls, tokens and cost by day, model, automation and message, and budgets.

    Set budgets in [budgets] in config.toml. Days are UTC.
    """
    home, settings = open_home(ctx)
    report = asyncio.run(_load_report(home, settings, days, limit))
    if as_json:
        print_unicode_json(asdict(report))
        return
    total = report.total
    until = "" if report.until == clock.day(clock.now()) else f" until {report.until}"
    used = f"{pluralize(total.calls, 'call')} to models, {pluralize(total.tokens, 'token')}"
    click.echo(f"{pluralize(days, 'day')}{until}: {used}, {_format_cost(total)}")
    if total.unpriced_calls:
        click.echo(
            f"Of these, {pluralize(total.unpriced_calls, 'call')} had no known price. "
            'Set one in `[prices."provider/model"]` in config.toml; 0 means free.'
        )
    if report.estimated_calls:
        click.echo(
            f"Of these, {pluralize(report.estimated_calls, 'call')} estimated: the answer was cut off or "
            "lost in a crash."
        )
    _print_parts("day", [each for each in report.days if each.total.calls], details=details)
    _print_parts("model", report.models, details=details)
    _print_parts("automation", report.automations, details=details)
    _print_messages(report.messages)
    _print_budgets(report.budgets)
    _print_hits(report.hits)
    for warning in model_checks.describe_unlimited(settings):
        click.secho(f"\nWarning: {warning}", fg="yellow", err=True)


async def _load_report(home: Home, settings: config.Config, days: int, messages: int) -> "Report":
    from nexus.gateway.views import usage as views
    from nexus.ledgers import Ledgers

    async with Ledgers(home, settings.ledgers) as ledgers:
        return await views.load_report(ledgers, settings, days=days, messages=messages)


def _print_section(columns: tuple[str, ...], lines: "Sequence[Sequence[object]]") -> None:
    if lines:
        click.echo()
        print_table(columns, lines)


def _print_parts(what: str, parts: "Iterable[Spent]", *, details: bool) -> None:
    lines = [(each.name, *_format_totals(each.total, details=details)) for each in parts]
    _print_section((what, *(_DETAILED_COLUMNS if details else _COLUMNS)), lines)


def _print_messages(messages: "Iterable[Message]") -> None:
    priced = [each for each in messages if each.total.cost_microusd]
    lines = [(each.asked[:_ASKED_CHARACTERS], _format_cost(each.total), each.request_id) for each in priced]
    _print_section(("most expensive message", "cost#", "request"), lines)


def _print_budgets(budgets: "Iterable[Budget]") -> None:
    lines = [
        (
            each.setting,
            each.automation or each.guest or "",
            _format_amount(each.used, each.unit),
            _format_amount(each.most, each.unit),
        )
        for each in budgets
    ]
    _print_section(("budget", "of", "used#", "may#"), lines)
    if not lines:
        click.echo("\nNo daily, monthly or automation budget is set; see [budgets] in config.toml.")


def _print_hits(hits: "Iterable[Hit]") -> None:
    lines = [
        (
            clock.minute(each.created_at),
            f"{each.budget}_{each.unit}",
            each.automation or "",
            f"{_format_amount(each.used, each.unit)} of {_format_amount(each.most, each.unit)}",
            each.request_id,
        )
        for each in hits
    ]
    _print_section(("refused", "budget", "of", "used#", "request"), lines)


def _format_totals(total: "Totals", *, details: bool) -> tuple[str, ...]:
    tokens = (total.tokens,)
    if details:
        tokens = (total.input_tokens, total.cache_read_tokens, total.cache_write_tokens, total.output_tokens)
    return (f"{total.calls:,}", *(f"{count:,}" for count in tokens), _format_cost(total))


def _format_cost(total: "Totals") -> str:
    if total.calls and total.unpriced_calls == total.calls:
        return "?"
    least = "at least " if total.unpriced_calls else ""
    return f"{least}${total.cost_microusd / MICRO:,.4f}"


def _format_amount(amount: float, unit: str) -> str:
    return f"${amount:,.2f}" if unit == "usd" else f"{amount:,.0f} tokens"
