"""`nexus channels add`: asks for what a channel needs, tries it, and writes it to config.toml."""

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any

import click

from nexus import secrets
from nexus.channels.setup import KINDS, LoginCheck, check_login, propose_value
from nexus.cli.place import opened_home
from nexus.config import ChannelConfig
from nexus.config_file import write
from nexus.errors import UsageError
from nexus.home import Home


@dataclass(frozen=True, kw_only=True)
class _Setup:
    home: Home
    kind: str
    name: str
    given: dict[str, Any]
    """The options."""

    def ask(self, option: str, question: str, default: str = "") -> str:
        """What was passed, or what somebody answers."""
        if self.given.get(option.replace("-", "_")):
            return str(self.given[option.replace("-", "_")]).strip()
        return str(self._prompted(question, default or None, option)).strip()

    def source(self, option: str, question: str, default: str) -> str:
        """Where a secret is."""
        source = self.ask(
            option, f"{question}: where is it? (env:NAME, file:PATH, keyring:SERVICE/USER)", default
        )
        if not secrets.is_source(source):
            raise UsageError(
                "Invalid secret source. Use env:NAME, file:PATH or keyring:SERVICE/USER.",
                hint="config.toml never holds secrets: name a variable.",
            )
        return source

    def owners(self, question: str, default: str | None) -> list[str]:
        """The owner's own addresses."""
        if self.given["owner"]:
            return list(self.given["owner"])
        asked = str(self._prompted(f"{question}, with commas", default, "owner"))
        return [each.strip() for each in asked.split(",") if each.strip()]

    def wait(self, request: str) -> None:
        """Until Enter is pressed."""
        self._prompted(request, "", "owner")

    def _prompted(self, question: str, default: str | None, option: str) -> Any:
        try:
            return click.prompt(question, default=default, show_default=bool(default))
        except click.Abort:
            raise self._unanswered(option) from None

    def _unanswered(self, option: str) -> Exception:
        if sys.stdin.isatty():
            return click.Abort()
        needed = [*(each.key.replace("_", "-") for each in KINDS[self.kind].needs), "owner"]
        options = ", ".join(f"`--{each}`" for each in needed)
        return UsageError(
            f"No terminal to ask for --{option}", hint=f"Without a terminal, {self.kind} takes {options}."
        )


@click.command()
@click.argument("kind", type=click.Choice(sorted(KINDS)))
@click.option("--name", help="Name of the channel.  [default: its kind]")
@click.option(
    "--secret",
    default="",
    help="Where the password or the bot's token is, such as env:NAME. The secret itself is never saved.",
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
    home, config = opened_home(ctx)
    setup = _Setup(home=home, kind=kind, name=name or kind, given=given)
    if setup.name in config.channels:
        raise UsageError(
            f"There is a channel {setup.name} already", hint="Choose another name with `--name`."
        )
    known = KINDS[kind]
    click.echo(known.steps)
    values: dict[str, Any] = {"kind": kind} | ({"tls": False} if given["no_tls"] else {})
    if given["url"]:
        values["url"] = given["url"]
    for need in known.needs:
        ask = setup.source if need.is_secret else setup.ask
        values[need.key] = ask(need.key.replace("_", "-"), need.label, propose_value(need, values))
    checked = _check(setup, values)
    if kind == "telegram" and not given["owner"] and checked.owner is None:
        setup.wait("Write something to the bot, then press Enter")
        checked = _check(setup, values)
    if kind == "email":
        values["auth_server"] = setup.ask(
            "auth-server", "Name of the server in Authentication-Results", checked.auth_server
        )
    values["owner"] = setup.owners(known.owner, checked.owner or ("" if kind == "telegram" else None))
    if known.names_owner:
        _check(setup, values, told=checked.said)
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    text = home.config_file.read_text(encoding="utf-8").rstrip("\n")
    write(home.config_file, "\n".join([text, "", f"[channels.{json.dumps(setup.name)}]", *lines, ""]))
    click.echo(f"Saved to {home.config_file}. Restart `nexus up` to connect the channel.")


def _check(setup: _Setup, values: dict[str, Any], told: tuple[str, ...] = ()) -> LoginCheck:
    checked = asyncio.run(check_login(setup.home, setup.name, ChannelConfig(**values)))
    for line in checked.said:
        if line not in told:
            click.echo(line)
    return checked
