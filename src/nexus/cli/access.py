"""`nexus access`: who may talk to the agent, and what they may reach."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, ParamSpec, TypeVar

import apsw
import click

from nexus import clock
from nexus.cli.place import with_ledgers
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.database import Work
from nexus.ledgers.identity import access as grants
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.access import Granted, Pairing

P = ParamSpec("P")
T = TypeVar("T")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _granting(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option("--tool", "tools", multiple=True, help="Allow this tool. Repeatable."),
            click.option(
                "--directory",
                "directories",
                multiple=True,
                help="Allow a directory, such as ~/notes or ~/notes:rw. Repeatable.",
            ),
            click.option("--network", is_flag=True, help="Allow network access."),
            click.option("--session", "sessions", multiple=True, help="Allow another session. Repeatable."),
            click.option("--memory", type=click.Choice(["none", "own", "all"]), default="own"),
        )
    ):
        command = option(command)
    return command


@click.group()
def access() -> None:
    """Manage who may talk to the agent.

    Unknown senders get a pairing code and nothing else. The owner's access is in config.toml.
    """


@access.command("list")
@click.option("--ids", is_flag=True, help="Show the ids of people.")
@_json
@click.pass_context
def list_(ctx: click.Context, ids: bool, as_json: bool) -> None:
    """List pending requests and people with access."""
    asking, known = _with(ctx, lambda c: (grants.asking(c), grants.known(c)))
    if as_json:
        told = {"asking": [asdict(each) for each in asking], "known": [asdict(each) for each in known]}
        click.echo(json.dumps(told, indent=2))
        return
    for each in asking:
        until = f"{clock.parse(each.expires_at).astimezone():%Y-%m-%d %H:%M}"
        click.echo(f"pending  {each.code}  {_sender(each)}, until {until}")
    for someone in known:
        id_ = f"  {someone.entity_id}" if ids else ""
        click.echo(f"allowed  {someone.name}: {_told(someone.granted)}{id_}")
    if not asking and not known:
        click.echo("No pending requests. Only you have access.")


@access.command()
@click.argument("code")
@_granting
@click.pass_context
def approve(ctx: click.Context, code: str, **options: Any) -> None:
    """Approve the sender with this CODE. By default they may only talk to the agent."""
    asked = next((each for each in _with(ctx, grants.asking) if each.code == code.upper()), None)
    found = _with(ctx, grants.approve, code=code.upper(), granted=_granted(options), by="owner")
    if found is None or asked is None:
        raise UsageError(
            f"Unknown or expired code: {code}", hint="Run `nexus access list` to see pending requests."
        )
    click.echo(f"{_sender(asked)} may now talk to the agent ({_told(_granted(options))}).")


@access.command()
@click.argument("code")
@click.pass_context
def refuse(ctx: click.Context, code: str) -> None:
    """Reject CODE."""
    asked = next((each for each in _with(ctx, grants.asking) if each.code == code.upper()), None)
    if asked is None or not _with(ctx, grants.refuse, code=code.upper()):
        raise UsageError(
            f"Unknown or expired code: {code}", hint="Run `nexus access list` to see pending requests."
        )
    click.echo(f"Rejected {_sender(asked)}.")


@access.command()
@click.argument("who")
@_granting
@click.pass_context
def grant(ctx: click.Context, who: str, **options: Any) -> None:
    """Replace what WHO (an entity's name or id) may access."""

    def put(connection: apsw.Connection) -> str:
        entity_id, name = _meant(connection, who)
        grants.grant(connection, entity_id, _granted(options), "owner")
        return name

    click.echo(f"{_with(ctx, put)}: {_told(_granted(options))}.")


@access.command()
@click.argument("who")
@click.pass_context
def revoke(ctx: click.Context, who: str) -> None:
    """Revoke all of WHO's access."""

    def take(connection: apsw.Connection) -> str:
        entity_id, name = _meant(connection, who)
        if not grants.revoke(connection, entity_id):
            raise UsageError(f"{name} has no access")
        return name

    click.echo(f"{_with(ctx, take)} no longer has access.")


def _with(ctx: click.Context, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    async def run(ledgers: Ledgers) -> T:
        return await ledgers.identity.write(work, *args, **kwargs)

    return with_ledgers(ctx, run)


def _meant(connection: apsw.Connection, who: str) -> tuple[str, str]:
    found = senders.named(connection, who)
    if len(found) == 1:
        return found[0]
    hint = "Pass one of these ids: " + ", ".join(id_ for id_, _ in found) if found else "Pass a name or id."
    raise UsageError(f"{who!r} names {len(found) or 'no'} entities", hint=hint)


def _sender(asked: Pairing) -> str:
    """Who asks, and from where."""
    name = asked.display_name or asked.identifier
    place = asked.channel if name == asked.identifier else f"{asked.channel} {asked.identifier}"
    return f"{name} ({place})"


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
