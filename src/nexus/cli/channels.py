"""`nexus channels`: add channels, and see and change their state, queue and failed messages."""

import asyncio
import json
import os
import sys
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ParamSpec, TypeVar

import apsw
import click

from nexus import logs as written
from nexus import secrets
from nexus.automations import when
from nexus.channels import kinds
from nexus.channels.adapter import THIS_MACHINE
from nexus.channels.setup import KINDS, LoginCheck, check_installed, check_login, check_name, propose_value
from nexus.cli import logs as log
from nexus.cli.place import json_option, open_home, print_json, printable, with_ledgers
from nexus.config import ChannelConfig, Config
from nexus.config_file import write
from nexus.errors import NexusError, UsageError
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.database import Work
from nexus.ledgers.runtime import channels as ledger
from nexus.text import pluralize

P = ParamSpec("P")
T = TypeVar("T")


@click.group()
def channels() -> None:
    """See and steer the channels. They are set up in config.toml, in sections such as [channels.alerts]."""


@channels.command("list")
@json_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List channels and their state."""
    _, config = open_home(ctx)
    found = _write(ctx, lambda c: [_channel_document(c, name, config) for name in config.channels])
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("No channels yet. Add one with `nexus channels add`, or in config.toml.")
    for each in found:
        click.echo(f"{each['name']}  {each['kind']}, {each['status']}{_describe_queue(each)}")


@channels.command()
@click.argument("name")
@click.pass_context
def pause(ctx: click.Context, name: str) -> None:
    """Disconnect the channel NAME. What it has to send waits."""
    _require_channel(ctx, name)
    _write(ctx, ledger.pause, name=name, paused=True)
    click.echo(f"{name} is paused. `nexus channels resume {name}` connects it again.")


@channels.command()
@click.argument("name")
@click.pass_context
def resume(ctx: click.Context, name: str) -> None:
    """Connect the channel NAME again."""
    _require_channel(ctx, name)
    _write(ctx, ledger.pause, name=name, paused=False)
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
    _require_channel(ctx, name)
    _, config = open_home(ctx)
    if quiet_hours is not None:
        quiet_hours = "" if quiet_hours == "off" else quiet_hours

    def save(connection: apsw.Connection) -> ChannelConfig:
        state = ledger.state(connection, name) if not reset else ledger.ChannelState(name=name)
        changed = {"answer": answer, "quiet_hours": quiet_hours, "zone": zone}
        state = replace(state, **{key: value for key, value in changed.items() if value is not None})
        chosen = kinds.apply_state(config.channels[name], state)
        when.parse_hours(chosen.quiet_hours, chosen.zone)
        ledger.set_(connection, name, answer=state.answer, quiet_hours=state.quiet_hours, zone=state.zone)
        return chosen

    chosen = _write(ctx, save)
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
    _require_channel(ctx, name)
    home, _ = open_home(ctx)
    found = [line for line in written.read(home) if log.parse_line(line).get("channel") == name]
    for line in found[-lines:]:
        log.print_line(line, as_json=as_json)
    if not found:
        click.echo(f"Nothing was logged about {name}.", err=True)


@channels.command("set-aside")
@json_option
@click.pass_context
def set_aside(ctx: click.Context, as_json: bool) -> None:
    """List messages that couldn't be processed."""
    found = _write(ctx, ledger.list_set_aside, channel=None)
    if as_json:
        print_json([asdict(each) for each in found])
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
    _require_channel(ctx, name)
    sent = _write(ctx, ledger.retry, channel=name)
    click.echo(f"{pluralize(sent, 'message')} will be sent again.")


@channels.command()
@click.argument("id_", metavar="ID")
@click.pass_context
def dismiss(ctx: click.Context, id_: str) -> None:
    """Remove a message that was set aside."""
    if not _write(ctx, ledger.take, id_=id_):
        raise UsageError(f"No message {id_} was set aside", hint="`nexus channels set-aside` lists them.")
    click.echo("Removed.")


def _channel_document(connection: apsw.Connection, name: str, config: Config) -> dict[str, Any]:
    state, counts = ledger.state(connection, name), ledger.counts(connection, name)
    chosen = kinds.apply_state(config.channels[name], state)
    settings = {"answer": chosen.answer, "quiet_hours": chosen.quiet_hours, "zone": chosen.zone}
    return {**asdict(state), **settings, "kind": chosen.kind, **asdict(counts)}


def _describe_queue(channel: dict[str, Any]) -> str:
    parts = [f": {channel['reason']}"] if channel["reason"] else []
    waits = [f"{channel['waiting']} to send"] if channel["waiting"] else []
    waits += [f"{channel['failed']} not sent"] if channel["failed"] else []
    waits += [f"{channel['set_aside']} set aside"] if channel["set_aside"] else []
    waits += [f"quiet {channel['quiet_hours']}"] if channel["quiet_hours"] else []
    return "".join(parts) + (f" ({', '.join(waits)})" if waits else "")


def _require_channel(ctx: click.Context, name: str) -> None:
    _, config = open_home(ctx)
    if name not in config.channels:
        names = ", ".join(config.channels) or "none"
        raise UsageError(f"Unknown channel {name}", hint=f"Channels in config.toml: {names}.")


def _write(ctx: click.Context, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    async def run(ledgers: Ledgers) -> T:
        return await ledgers.runtime.write(work, *args, **kwargs)

    return with_ledgers(ctx, run)


@dataclass(frozen=True, kw_only=True)
class _Setup:
    home: Home
    kind: str
    name: str
    given: dict[str, Any]
    """The options of the command line."""
    kept: set[str] = field(default_factory=set[str])
    """Where typed secrets are stored. They are removed unless the channel is saved with them."""

    def ask(self, option: str, question: str, default: str = "") -> str:
        """Return the value of an option, or ask for it."""
        if self.given.get(option.replace("-", "_")):
            return str(self.given[option.replace("-", "_")]).strip()
        return str(self.prompt(question, default or None, option)).strip()

    def ask_secret(self, option: str, question: str, default: str) -> str:
        """Ask for a secret, or where it is; return its source. A typed one isn't shown, and is stored."""
        is_typed = sys.stdin.isatty() and not self.given.get(option.replace("-", "_"))
        if is_typed:
            is_set = default.partition(":")[2] in os.environ or not default.startswith("env:")
            question = f"{question} (not shown), or env:NAME, file:PATH or keyring:SERVICE/USER"
            found = str(click.prompt(question, default=default if is_set else None, hide_input=True)).strip()
        else:
            found = self.ask(option, f"{question}: env:NAME, file:PATH or keyring:SERVICE/USER", default)
        if secrets.is_source(found):
            return found
        if not is_typed:
            raise UsageError(
                "Invalid secret source. Use env:NAME, file:PATH or keyring:SERVICE/USER.",
                hint="config.toml never holds secrets: name a variable.",
            )
        place = secrets.keep(found, f"{self.name}-{option}", self.home.secrets)
        self.kept.add(place)
        return place

    def ask_needs(self, values: dict[str, Any]) -> LoginCheck:
        """Ask for what the kind needs until it logs in; at a terminal, a failed login asks again."""
        needs, asks = KINDS[self.kind].needs, True
        while True:
            for need in needs if asks else ():
                ask = self.ask_secret if need.is_secret else self.ask
                default = values.get(need.key) or propose_value(need, values)
                values[need.key] = ask(need.key.replace("_", "-"), need.label, default)
            try:
                return _check(self, values)
            except NexusError as error:
                if not sys.stdin.isatty():
                    raise
                click.secho(printable(f"{error.message}. {error.hint}"), err=True)
            hosts = {str(values[key]).partition(":")[0] for key in ("imap", "smtp") if key in values}
            is_here = "tls" not in values and hosts and hosts <= THIS_MACHINE
            if is_here and click.confirm("Connect to this machine's mail server without encryption?"):
                values["tls"], asks = False, False
                continue
            asks = True
            click.echo("Try again, or press Ctrl-C to stop. Press Enter to keep what you entered.")
            self.given.update(dict.fromkeys((need.key for need in needs), ""))

    def ask_auth_server(self, values: dict[str, Any], checked: LoginCheck) -> str:
        """Ask for the mail server that decides whose mail is the owner's; propose that of the newest mail."""
        self.given["auth_server"] = self.given["auth_server"].strip()
        if not (self.given["auth_server"] or checked.auth_server):
            self.prompt("Send the agent a mail from your own address, then press Enter", "", "auth-server")
            checked = _check(self, values, already=checked.said)
        if not self.given["auth_server"]:
            click.echo(
                "Anybody can write an Authentication-Results header. Enter the name that your own mail "
                "server begins it with, such as mx.google.com. Without it, the channel answers nobody."
            )
        while True:
            if name := self.ask("auth-server", "Name of your mail server", printable(checked.auth_server)):
                return name

    def ask_owners(self, question: str, default: str | None) -> list[str]:
        """Ask for the owner's own addresses."""
        if self.given["owner"]:
            return list(self.given["owner"])
        answer = str(self.prompt(f"{question}, separated by commas", default, "owner"))
        return [each.strip() for each in answer.split(",") if each.strip()]

    def prompt(self, question: str, default: str | None, option: str) -> Any:
        """Ask on the terminal; without one, raise an error that names the options to pass."""
        try:
            return click.prompt(question, default=default, show_default=bool(default))
        except click.Abort:
            if sys.stdin.isatty():
                raise
            needed = [each.key.replace("_", "-") for each in KINDS[self.kind].needs]
            needed += ["auth-server", "owner"] if self.kind == "email" else ["owner"]
            options = ", ".join(f"`--{each}`" for each in needed)
            raise UsageError(
                f"No terminal to ask for --{option}", hint=f"Without a terminal, {self.kind} takes {options}."
            ) from None


@channels.command()
@click.argument("kind", type=click.Choice(sorted(KINDS)))
@click.option("--name", help="Name of the channel.  [default: its kind]")
@click.option(
    "--secret",
    default="",
    help="Where the password or the bot's token is, such as env:NAME. config.toml never holds it.",
)
@click.option("--owner", multiple=True, help="Your own address or id on the channel. Repeatable.")
@click.option(
    "--url",
    default="",
    help="matrix: the homeserver. discord, slack, telegram: a server of the API other than the service's.",
)
@click.option("--user", default="", help="matrix: the agent's id, such as @agent:example.org.")
@click.option("--app-token", default="", help="slack: where the app-level token is, such as env:NAME.")
@click.option("--address", default="", help="email: the agent's address.")
@click.option("--imap", default="", help="email: IMAP server.")
@click.option("--smtp", default="", help="email: SMTP server.")
@click.option("--auth-server", default="", help="email: the name of your server in Authentication-Results.")
@click.option("--no-tls", is_flag=True, help="email: don't encrypt. For mail servers on this machine.")
@click.pass_context
def add(ctx: click.Context, kind: str, name: str | None, **given: Any) -> None:
    """Set up a channel step by step. Logs in and sends nothing.

    Asks for what isn't passed as an option.
    """
    home, config = open_home(ctx)
    setup = _Setup(home=home, kind=kind, name=name or kind, given=given)
    check_name(setup.name, config.channels)
    check_installed(kind)
    saved: dict[str, Any] = {}
    try:
        values = _ask_settings(setup)
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
        text = home.config_file.read_text(encoding="utf-8").rstrip("\n")
        write(home.config_file, "\n".join([text, "", f"[channels.{json.dumps(setup.name)}]", *lines, ""]))
        saved = values
    finally:
        for place in setup.kept:
            if place not in saved.values():
                secrets.delete(place)
    click.echo(f"Saved to {home.config_file}. Restart `nexus up` to connect the channel.")


def _ask_settings(setup: _Setup) -> dict[str, Any]:
    kind, given, known = setup.kind, setup.given, KINDS[setup.kind]
    click.echo(known.steps)
    values: dict[str, Any] = {"kind": kind} | ({"tls": False} if given["no_tls"] else {})
    if given["url"]:
        values["url"] = given["url"]
    checked = setup.ask_needs(values)
    if kind == "telegram" and not given["owner"] and checked.owner is None:
        setup.prompt("Write something to the bot, then press Enter", "", "owner")
        checked = _check(setup, values)
    if kind == "email":
        values["auth_server"] = setup.ask_auth_server(values, checked)
    values["owner"] = setup.ask_owners(known.owner, checked.owner or ("" if kind == "telegram" else None))
    if known.names_owner:
        _check(setup, values, already=checked.said)
    return values


def _check(setup: _Setup, values: dict[str, Any], already: tuple[str, ...] = ()) -> LoginCheck:
    checked = asyncio.run(check_login(setup.home, setup.name, ChannelConfig(**values)))
    for line in checked.said:
        if line not in already:
            click.echo(printable(line))
    return checked
