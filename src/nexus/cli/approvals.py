"""`nexus approvals`: tool calls that wait for the owner."""

import asyncio
import json
from dataclasses import asdict

import click

from nexus.cli.place import opened_home
from nexus.cli.terminal import printable
from nexus.config import Config
from nexus.home import Home


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def approvals(ctx: click.Context, as_json: bool) -> None:
    """List tool calls that wait for your approval; allow or deny them.

    Which calls wait is set by `ask` in [tools] in config.toml.
    """
    if ctx.invoked_subcommand is not None:
        return
    from nexus.broker.approvals import Approvals, subject
    from nexus.ledgers import Ledgers

    async def waiting(home: Home, settings: Config) -> None:
        async with Ledgers(home, settings.ledgers) as ledgers:
            found = await Approvals(ledgers, ()).waiting()
        if as_json:
            click.echo(json.dumps([asdict(each) for each in found], indent=2))
            return
        for each in found:
            click.echo(f"{each.id}  {each.session_label}  {each.tool}: {printable(subject(each.arguments))}")
        if not found:
            click.echo("No calls are waiting.")

    asyncio.run(waiting(*opened_home(ctx)))


@approvals.command()
@click.argument("approval_id", metavar="ID")
@click.option("--session", "scope", flag_value="session", help="Allow the tool in this session.")
@click.option("--always", "scope", flag_value="always", help="Always allow calls like this one.")
@click.pass_context
def allow(ctx: click.Context, approval_id: str, scope: str | None) -> None:
    """Allow a call: once, or with --session or --always."""
    _decide(ctx, approval_id, scope or "once")


@approvals.command()
@click.argument("approval_id", metavar="ID")
@click.pass_context
def deny(ctx: click.Context, approval_id: str) -> None:
    """Deny a call."""
    _decide(ctx, approval_id, "deny")


def _decide(ctx: click.Context, approval_id: str, decision: str) -> None:
    from nexus.broker.approvals import Approvals, told
    from nexus.ledgers import Ledgers

    async def decide(home: Home, settings: Config) -> None:
        async with Ledgers(home, settings.ledgers) as ledgers:
            decided = await Approvals(ledgers, ()).decide(approval_id, decision)  # pyright: ignore[reportArgumentType] - one of its words
        click.echo(told(decided))

    asyncio.run(decide(*opened_home(ctx)))
