"""`nexus access`: who may talk to the agent, and what they may reach."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

import apsw
import click

from nexus.cli.place import opened_home
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.identity import access as grants
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.access import Granted

T = TypeVar("T")
_json = click.option("--json", "as_json", is_flag=True, help="Print it for a program to read.")


def _granting(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option("--tool", "tools", multiple=True, help="A tool they may call. May be repeated."),
            click.option("--directory", "directories", multiple=True, help="As ~/notes or ~/notes:rw."),
            click.option("--network", is_flag=True, help="Let commands use the network."),
            click.option("--session", "sessions", multiple=True, help="A session beside their own."),
            click.option("--memory", type=click.Choice(["none", "own", "all"]), default="own"),
        )
    ):
        command = option(command)
    return command


@click.group()
def access() -> None:
    """See and decide who may talk to the agent.

    Somebody unknown is told a code and nothing else. What the owner may reach is in the settings.
    """


@access.command("list")
@_json
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List those who ask to be let in, and those who were."""
    asking, known = _with(ctx, lambda c: (grants.asking(c), grants.known(c)))
    if as_json:
        told = {"asking": [asdict(each) for each in asking], "known": [asdict(each) for each in known]}
        click.echo(json.dumps(told, indent=2))
        return
    for each in asking:
        name = each.display_name or each.identifier
        click.echo(f"asks   {each.code}  {name} ({each.channel} {each.identifier}), until {each.expires_at}")
    for someone in known:
        click.echo(f"known  {someone.name} ({someone.entity_id}): {_told(someone.granted)}")
    if not asking and not known:
        click.echo("Nobody asks, and nobody but you was let in.")


@access.command()
@click.argument("code")
@_granting
@click.pass_context
def approve(ctx: click.Context, code: str, **options: Any) -> None:
    """Let in whoever was told CODE. Without options they may talk, and nothing else."""
    found = _with(ctx, partial(grants.approve, code=code.upper(), granted=_granted(options), by="owner"))
    if found is None:
        raise UsageError(f"Nobody was told the code {code}", hint="`nexus access list` shows who asks.")
    click.echo(f"{found} may talk to the agent now: {_told(_granted(options))}.")


@access.command()
@click.argument("code")
@click.pass_context
def refuse(ctx: click.Context, code: str) -> None:
    """Let CODE count no more."""
    if not _with(ctx, partial(grants.refuse, code=code.upper())):
        raise UsageError(f"Nobody was told the code {code}", hint="`nexus access list` shows who asks.")
    click.echo(f"The code {code.upper()} counts no more.")


@access.command()
@click.argument("who")
@_granting
@click.pass_context
def grant(ctx: click.Context, who: str, **options: Any) -> None:
    """Decide anew what WHO may reach: an entity's name or id."""

    def put(connection: apsw.Connection) -> str:
        entity_id, name = _meant(connection, who)
        grants.grant(connection, entity_id, _granted(options), "owner")
        return name

    click.echo(f"{_with(ctx, put)}: {_told(_granted(options))}.")


@access.command()
@click.argument("who")
@click.pass_context
def revoke(ctx: click.Context, who: str) -> None:
    """Take back everything that WHO was granted."""

    def take(connection: apsw.Connection) -> str:
        entity_id, name = _meant(connection, who)
        if not grants.revoke(connection, entity_id):
            raise UsageError(f"{name} was granted nothing")
        return name

    click.echo(f"{_with(ctx, take)} is not answered any more.")


def _with(ctx: click.Context, work: Callable[[apsw.Connection], T]) -> T:
    home, settings = opened_home(ctx)

    async def run() -> T:
        async with Ledgers(home, settings.ledgers) as ledgers:
            return await ledgers.identity.write(work)

    return asyncio.run(run())


def _meant(connection: apsw.Connection, who: str) -> tuple[str, str]:
    found = senders.named(connection, who)
    if len(found) == 1:
        return found[0]
    hint = "Give the id of one: " + ", ".join(id_ for id_, _ in found) if found else "Give a name or an id."
    raise UsageError(f"{who!r} names {len(found) or 'no'} entities", hint=hint)


def _granted(options: dict[str, Any]) -> Granted:
    return Granted(
        tools=options["tools"],
        directories=options["directories"],
        network=options["network"],
        sessions=options["sessions"],
        memory=options["memory"],
    )


def _told(granted: Granted) -> str:
    parts = [f"memory {granted.memory}"]
    parts += [f"tools {', '.join(granted.tools)}"] if granted.tools else []
    parts += [f"directories {', '.join(granted.directories)}"] if granted.directories else []
    parts += ["network"] if granted.network else []
    parts += [f"sessions {', '.join(granted.sessions)}"] if granted.sessions else []
    return "; ".join(parts)
