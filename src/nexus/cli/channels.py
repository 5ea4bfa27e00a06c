"""`nexus channels`: how each channel is doing, what it has to send, and what it could not take in."""

import json
from dataclasses import asdict, replace
from typing import Any, ParamSpec, TypeVar

import apsw
import click

from nexus import logs as written
from nexus.channels import kinds, quiet
from nexus.cli import logs as log
from nexus.cli.channels_add import add
from nexus.cli.place import counted, opened_home, with_ledgers
from nexus.config import ChannelConfig, Config
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.database import Work
from nexus.ledgers.runtime import channels as ledger

P = ParamSpec("P")
T = TypeVar("T")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def channels() -> None:
    """See and steer the channels. They are set up in config.toml, in sections such as [channels.alerts]."""


channels.add_command(add)


@channels.command("list")
@_json
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List channels and their state."""
    _, config = opened_home(ctx)
    found = _with(ctx, lambda c: [_picture(c, name, config) for name in config.channels])
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if not found:
        click.echo("No channels yet. Add one with `nexus channels add`, or in config.toml.")
    for each in found:
        click.echo(f"{each['name']}  {each['kind']}, {each['status']}{_details(each)}")


@channels.command()
@click.argument("name")
@click.pass_context
def pause(ctx: click.Context, name: str) -> None:
    """Disconnect the channel NAME. What it has to send waits."""
    _known(ctx, name)
    _with(ctx, ledger.pause, name=name, paused=True)
    click.echo(f"{name} is paused. `nexus channels resume {name}` connects it again.")


@channels.command()
@click.argument("name")
@click.pass_context
def resume(ctx: click.Context, name: str) -> None:
    """Connect the channel NAME again."""
    _known(ctx, name)
    _with(ctx, ledger.pause, name=name, paused=False)
    click.echo(f"{name} connects within a few seconds if the home is running.")


@channels.command("set")
@click.argument("name")
@click.option(
    "--answer",
    type=click.Choice(["addressed", "always", "never"]),
    help="Which messages in a group are answered.",
)
@click.option(
    "--quiet-hours",
    metavar="HOURS",
    help="When only answers are sent, such as 22:00-07:00; off: never.",
)
@click.option("--zone", help="Time zone of the quiet hours, such as Europe/Berlin.")
@click.option("--reset", is_flag=True, help="Use config.toml again.")
@click.pass_context
def set_(
    ctx: click.Context,
    name: str,
    answer: str | None,
    quiet_hours: str | None,
    zone: str | None,
    reset: bool,
) -> None:
    """Change settings of the channel NAME while it runs. They override config.toml."""
    _known(ctx, name)
    _, config = opened_home(ctx)
    if quiet_hours is not None:
        quiet_hours = "" if quiet_hours == "off" else quiet_hours

    def put(connection: apsw.Connection) -> ChannelConfig:
        state = ledger.state(connection, name) if not reset else ledger.ChannelState(name=name)
        changed = {"answer": answer, "quiet_hours": quiet_hours, "zone": zone}
        state = replace(state, **{key: value for key, value in changed.items() if value is not None})
        chosen = kinds.apply_state(config.channels[name], state)
        quiet.parse_hours(chosen.quiet_hours, chosen.zone)
        ledger.set_(connection, name, answer=state.answer, quiet_hours=state.quiet_hours, zone=state.zone)
        return chosen

    chosen = _with(ctx, put)
    hours = f"{chosen.quiet_hours} {chosen.zone}".strip() or "none"
    click.echo(f"{name}: answers in groups: {chosen.answer}; quiet hours: {hours}.")


@channels.command()
@click.argument("name")
@click.option(
    "--lines", type=click.IntRange(1), default=50, show_default=True, help="Number of lines to show."
)
@click.option("--json", "as_json", is_flag=True, help="Print the raw JSON lines.")
@click.pass_context
def logs(ctx: click.Context, name: str, lines: int, as_json: bool) -> None:
    """Show the log of channel NAME."""
    _known(ctx, name)
    home, _ = opened_home(ctx)
    found = [line for line in written.read(home) if log.parsed(line).get("channel") == name]
    for line in found[-lines:]:
        log.show(line, as_json=as_json)
    if not found:
        click.echo(f"Nothing was logged about {name}.", err=True)


@channels.command("set-aside")
@_json
@click.pass_context
def set_aside(ctx: click.Context, as_json: bool) -> None:
    """List messages that couldn't be processed."""
    found = _with(ctx, ledger.those_set_aside, channel=None)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
        return
    for each in found:
        click.echo(f"{each.id}  {each.channel}, from {each.sender or 'nobody'}: {each.reason}")
    if not found:
        click.echo("Nothing was set aside.")


@channels.command()
@click.argument("name")
@click.pass_context
def retry(ctx: click.Context, name: str) -> None:
    """Send what failed on the channel NAME again."""
    _known(ctx, name)
    sent = _with(ctx, ledger.retry, channel=name)
    click.echo(f"{counted(sent, 'message')} will be sent again.")


@channels.command()
@click.argument("id_", metavar="ID")
@click.pass_context
def dismiss(ctx: click.Context, id_: str) -> None:
    """Remove a message that was set aside."""
    if not _with(ctx, ledger.take, id_=id_):
        raise UsageError(f"No message {id_} was set aside", hint="`nexus channels set-aside` lists them.")
    click.echo("Removed.")


def _picture(connection: apsw.Connection, name: str, config: Config) -> dict[str, Any]:
    state, counts = ledger.state(connection, name), ledger.counts(connection, name)
    chosen = kinds.apply_state(config.channels[name], state)
    settings = {"answer": chosen.answer, "quiet_hours": chosen.quiet_hours, "zone": chosen.zone}
    return {**asdict(state), **settings, "kind": chosen.kind, **asdict(counts)}


def _details(picture: dict[str, Any]) -> str:
    parts = [f": {picture['reason']}"] if picture["reason"] else []
    waits = [f"{picture['waiting']} to send"] if picture["waiting"] else []
    waits += [f"{picture['failed']} not sent"] if picture["failed"] else []
    waits += [f"{picture['set_aside']} set aside"] if picture["set_aside"] else []
    waits += [f"quiet {picture['quiet_hours']}"] if picture["quiet_hours"] else []
    return "".join(parts) + (f" ({', '.join(waits)})" if waits else "")


def _known(ctx: click.Context, name: str) -> None:
    _, config = opened_home(ctx)
    if name not in config.channels:
        names = ", ".join(config.channels) or "none"
        raise UsageError(f"Unknown channel {name}", hint=f"Channels in config.toml: {names}.")


def _with(ctx: click.Context, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    async def run(ledgers: Ledgers) -> T:
        return await ledgers.runtime.write(work, *args, **kwargs)

    return with_ledgers(ctx, run)
