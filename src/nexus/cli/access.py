"""`nexus access`: who may talk to the agent, and what they may reach."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, ParamSpec, TypeVar

import apsw
import click

from nexus.cli.place import json_option, print_json, with_ledgers
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.database import Work
from nexus.ledgers.identity import access as grants
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.access import Granted, Pairing

P = ParamSpec("P")
T = TypeVar("T")


def _grant_options(command: Callable[..., None]) -> Callable[..., None]:
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
@json_option
@click.pass_context
def list_(ctx: click.Context, ids: bool, as_json: bool) -> None:
    """List pending requests and people with access."""
    pending, allowed = _write(ctx, lambda c: (grants.list_pairings(c), grants.list_grantees(c)))
    if as_json:
        document = {"asking": [asdict(each) for each in pending], "known": [asdict(each) for each in allowed]}
        print_json(document)
        return
    for each in pending:
        click.echo(f"pending  {each.code}  {_describe_sender(each)}, until {each.expires_at}")
    for person in allowed:
        id_ = f"  {person.entity_id}" if ids else ""
        click.echo(f"allowed  {person.name}: {_describe_grant(person.granted)}{id_}")
    if not pending and not allowed:
        click.echo("No pending requests. Only you have access.")


@access.command()
@click.argument("code")
@_grant_options
@click.pass_context
def approve(ctx: click.Context, code: str, **options: Any) -> None:
    """Approve the sender with this CODE. By default they may only talk to the agent."""
    pairing, granted = _find_pairing(ctx, code), Granted(**options)
    if _write(ctx, grants.approve, code=pairing.code, granted=granted, by="owner") is None:
        raise _unknown_code(code)
    click.echo(f"{_describe_sender(pairing)} now has access: {_describe_grant(granted)}.")


@access.command()
@click.argument("code")
@click.pass_context
def refuse(ctx: click.Context, code: str) -> None:
    """Reject CODE."""
    pairing = _find_pairing(ctx, code)
    if not _write(ctx, grants.refuse, code=pairing.code):
        raise _unknown_code(code)
    click.echo(f"Rejected {_describe_sender(pairing)}.")


@access.command()
@click.argument("who")
@_grant_options
@click.pass_context
def grant(ctx: click.Context, who: str, **options: Any) -> None:
    """Replace what WHO (an entity's name or id) may access."""
    granted = Granted(**options)

    def replace_grant(connection: apsw.Connection) -> str:
        entity_id, name = _find_entity(connection, who)
        grants.grant(connection, entity_id, granted, "owner")
        return name

    click.echo(f"{_write(ctx, replace_grant)}: {_describe_grant(granted)}.")


@access.command()
@click.argument("who")
@click.pass_context
def revoke(ctx: click.Context, who: str) -> None:
    """Revoke all of WHO's access."""

    def revoke_grant(connection: apsw.Connection) -> str:
        entity_id, name = _find_entity(connection, who)
        if not grants.revoke(connection, entity_id):
            raise UsageError(f"{name} has no access")
        return name

    click.echo(f"{_write(ctx, revoke_grant)} no longer has access.")


def _write(ctx: click.Context, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    async def run(ledgers: Ledgers) -> T:
        return await ledgers.identity.write(work, *args, **kwargs)

    return with_ledgers(ctx, run)


def _find_entity(connection: apsw.Connection, who: str) -> tuple[str, str]:
    found = senders.find_named(connection, who)
    if len(found) == 1:
        return found[0]
    hint = "Pass one of these ids: " + ", ".join(id_ for id_, _ in found) if found else "Pass a name or id."
    raise UsageError(f"{who!r} names {len(found) or 'no'} entities", hint=hint)


def _find_pairing(ctx: click.Context, code: str) -> Pairing:
    pairing = next((each for each in _write(ctx, grants.list_pairings) if each.code == code.upper()), None)
    if pairing is None:
        raise _unknown_code(code)
    return pairing


def _unknown_code(code: str) -> UsageError:
    return UsageError(
        f"Unknown or expired code: {code}", hint="Run `nexus access list` to see pending requests."
    )


def _describe_sender(pairing: Pairing) -> str:
    return f"{pairing.display_name or pairing.identifier} ({pairing.channel} {pairing.identifier})"


def _describe_grant(granted: Granted) -> str:
    parts = [f"memory {granted.memory}"]
    parts += [f"tools {', '.join(granted.tools)}"] if granted.tools else []
    parts += [f"directories {', '.join(granted.directories)}"] if granted.directories else []
    parts += ["network"] if granted.network else []
    parts += [f"sessions {', '.join(granted.sessions)}"] if granted.sessions else []
    return "; ".join(parts)
