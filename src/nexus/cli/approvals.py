"""`nexus approvals`: tool calls that wait for the owner's approval."""

import asyncio
from dataclasses import asdict

import click

from nexus.cli.place import json_option, open_home, print_json, printable
from nexus.config import Config
from nexus.home import Home


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def approvals(ctx: click.Context, as_json: bool) -> None:
    """List tool calls that wait for your approval; allow or deny them.

    Which calls wait is set by `ask` and `ask_when_tainted` in [tools] in config.toml. Patterns and rules are
    a convenience, not a boundary: what a call can reach is decided by the sandbox.
    """
    if ctx.invoked_subcommand is None:
        _show(ctx, None, as_json=as_json)


@approvals.command()
@click.argument("approval_id", metavar="ID")
@json_option
@click.pass_context
def show(ctx: click.Context, approval_id: str, as_json: bool) -> None:
    """Show a call that waits, whole, and why it waits. ID is its code, such as A48213, or its id."""
    _show(ctx, approval_id, as_json=as_json)


@approvals.command()
@click.argument("approval_id", metavar="ID")
@click.option("--session", "scope", flag_value="session", help="Allow the tool in this session.")
@click.option("--always", "scope", flag_value="always", help="Always allow calls like this one.")
@click.pass_context
def allow(ctx: click.Context, approval_id: str, scope: str | None) -> None:
    """Allow a call: once, or with --session or --always. ID is its code, such as A48213, or its id."""
    _decide(ctx, approval_id, scope or "once")


@approvals.command()
@click.argument("approval_id", metavar="ID")
@click.pass_context
def deny(ctx: click.Context, approval_id: str) -> None:
    """Deny a call."""
    _decide(ctx, approval_id, "deny")


def _show(ctx: click.Context, name: str | None, *, as_json: bool) -> None:
    from nexus.broker.approvals import Approvals
    from nexus.broker.questions import code_of, render
    from nexus.ledgers import Ledgers

    async def show_waiting(home: Home, settings: Config) -> None:
        async with Ledgers(home, settings.ledgers) as ledgers:
            waits = Approvals(ledgers, settings.tools)
            found = await waits.waiting() if name is None else [await waits.get(name)]
        if as_json:
            documents = [{**asdict(each), "code": code_of(each)} for each in found]
            print_json(documents if name is None else documents[0])
            return
        for each in found:
            click.echo(printable(f"{render(each)}\nSession {each.session_label}, {each.id}\n"))
        if not found:
            click.echo("No calls are waiting.")

    asyncio.run(show_waiting(*open_home(ctx)))


def _decide(ctx: click.Context, approval_id: str, decision: str) -> None:
    from nexus.broker.approvals import Approvals
    from nexus.broker.questions import confirm
    from nexus.ledgers import Ledgers

    async def decide(home: Home, settings: Config) -> None:
        async with Ledgers(home, settings.ledgers) as ledgers:
            decided = await Approvals(ledgers, settings.tools).decide(approval_id, decision)  # pyright: ignore[reportArgumentType] - one of its words
        click.echo(confirm(decided))

    asyncio.run(decide(*open_home(ctx)))
