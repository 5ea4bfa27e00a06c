"""`nexus channels add`: asks for what a channel needs, tries it, and writes it to config.toml."""

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any, Final

import click

from nexus import secrets
from nexus.channels.kinds import Adapters
from nexus.cli.place import opened_home
from nexus.config import ChannelConfig
from nexus.config_file import write
from nexus.errors import ConfigError, UsageError
from nexus.home import Home

_NEEDED: Final = {
    "discord": ("secret", "owner"),
    "email": ("address", "secret", "imap", "smtp", "auth-server", "owner"),
    "matrix": ("user", "url", "secret", "owner"),
    "slack": ("secret", "app-token", "owner"),
    "telegram": ("secret", "owner"),
}
"""What each kind asks for. Whatever is passed as an option isn't asked."""


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
        source = self.ask(option, f"{question} kept (env:NAME, file:PATH or keyring:SERVICE/USER)", default)
        if not secrets.is_source(source):
            raise UsageError(
                "Invalid secret source. Use env:NAME, file:PATH or keyring:SERVICE/USER.",
                hint="config.toml never holds secrets: name a variable.",
            )
        return source

    def owners(self, question: str, default: str = "") -> list[str]:
        """The owner's own addresses."""
        if self.given["owner"]:
            return list(self.given["owner"])
        asked = str(self._prompted(f"{question}, with commas", default or None, "owner"))
        return [each.strip() for each in asked.split(",")]

    def adapter(self, values: dict[str, Any]) -> Any:
        """The adapter that these settings make."""
        adapters = Adapters(home=self.home)
        adapters.add(self.name, ChannelConfig(kind=self.kind, **values))  # pyright: ignore[reportArgumentType]
        return adapters.made[self.name]

    def confirm(self, question: str) -> bool:
        try:
            return click.confirm(question, default=True)
        except click.Abort:
            raise self._unanswered("owner") from None

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
        options = ", ".join(f"`--{each}`" for each in _NEEDED[self.kind])
        return UsageError(
            f"No terminal to ask for --{option}", hint=f"Without a terminal, {self.kind} takes {options}."
        )


@click.command()
@click.argument("kind", type=click.Choice(sorted(_NEEDED)))
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
    asking = {
        "discord": _discord,
        "email": _email,
        "matrix": _matrix,
        "slack": _slack,
        "telegram": _telegram,
    }
    values = {"kind": kind, **asking[kind](setup)}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    text = home.config_file.read_text(encoding="utf-8").rstrip("\n")
    write(home.config_file, "\n".join([text, "", f"[channels.{json.dumps(setup.name)}]", *lines, ""]))
    click.echo(f"Saved to {home.config_file}. Restart `nexus up` to connect the channel.")


def _telegram(setup: _Setup) -> dict[str, Any]:
    from nexus.channels.telegram import Telegram

    click.echo("Create a bot with @BotFather in Telegram, and put its token into a variable or a file.")
    source, url = setup.source("secret", "Where is the token", "env:TELEGRAM_TOKEN"), setup.given["url"]
    bot = Telegram(token=secrets.read(source), url=url)
    click.echo(f"Connected as @{asyncio.run(bot.me())['username']}.")
    owner = list(setup.given["owner"])
    if not owner:
        setup.wait("Write something to the bot, then press Enter")
        found = asyncio.run(bot.newest_sender())
        if found is None:
            click.echo("No message received. Add your numeric id to `owner` later.")
        elif setup.confirm(f"{found[1]} wrote (id {found[0]}). Is that you?"):
            owner = [found[0]]
    return {"secret": source, "owner": owner} | ({"url": url} if url else {})


def _slack(setup: _Setup) -> dict[str, Any]:
    click.echo(
        "Create an app at api.slack.com/apps with socket mode, events and scopes as in "
        "docs/how-to/connect-a-channel, install it, and put its two tokens into variables or files."
    )
    values: dict[str, Any] = {
        "secret": setup.source("secret", "Where is the bot token (xoxb-…)", "env:SLACK_TOKEN"),
        "app_token": setup.source(
            "app-token", "Where is the app-level token (xapp-…)", "env:SLACK_APP_TOKEN"
        ),
    } | ({"url": setup.given["url"]} if setup.given["url"] else {})
    adapter = setup.adapter(values)
    click.echo(f"Connected as @{asyncio.run(_reached(adapter.check())).name}.")
    values["owner"] = setup.owners("Your own member IDs (profile > More > Copy member ID)")
    for each in values["owner"]:
        if (found := asyncio.run(adapter.name_of(each))) is None:
            raise UsageError(
                f"{each} is no member of the workspace", hint="A member ID looks like U012AB3CD."
            )
        click.echo(f"{each} is {found}.")
    return values


def _discord(setup: _Setup) -> dict[str, Any]:
    click.echo(
        "Create a bot in the Discord Developer Portal, turn on Message Content Intent, and put its token "
        "into a variable or a file."
    )
    values: dict[str, Any] = {"secret": setup.source("secret", "Where is the token", "env:DISCORD_TOKEN")} | (
        {"url": setup.given["url"]} if setup.given["url"] else {}
    )
    name, owner, owner_name = asyncio.run(_reached(setup.adapter(values).check()))
    click.echo(f"Connected as {name}. The bot belongs to {owner_name} ({owner}).")
    values["owner"] = setup.owners("Your own user IDs", owner)
    return values


def _matrix(setup: _Setup) -> dict[str, Any]:
    user = setup.ask("user", "The agent's Matrix id, such as @agent:example.org")
    values: dict[str, Any] = {
        "user": user,
        "url": setup.ask("url", "Homeserver", f"https://{user.partition(':')[2]}"),
        "secret": setup.source("secret", "Where is the password", "env:MATRIX_PASSWORD"),
    }
    own_id = asyncio.run(_reached(setup.adapter(values).own_id()))
    click.echo(f"Logged in as {own_id}.")
    values["owner"] = setup.owners("Your own Matrix ids")
    return values


def _email(setup: _Setup) -> dict[str, Any]:
    address = setup.ask("address", "The agent's mail address")
    domain = address.rpartition("@")[2]
    values: dict[str, Any] = {
        "address": address,
        "secret": setup.source("secret", "Where is the password", "env:MAIL_PASSWORD"),
        "imap": setup.ask("imap", "IMAP server", f"imap.{domain}"),
        "smtp": setup.ask("smtp", "SMTP server", f"smtp.{domain}"),
    }
    if setup.given["no_tls"]:
        values["tls"] = False
    found = str(asyncio.run(_tried(setup.adapter(values))))
    click.echo("Logged in to both servers.")
    click.echo(
        "Your mail server checks who sends a mail, and signs what it found with its name."
        if found
        else "The newest mail has no Authentication-Results. Without them nobody can be verified."
    )
    values["auth_server"] = setup.ask("auth-server", "Name of the server in Authentication-Results", found)
    values["owner"] = setup.owners("Your own addresses")
    return values


async def _reached(call: Any) -> Any:
    try:
        return await call
    except ConnectionError as error:
        raise ConfigError(f"Can't log in: {error}", hint="Check the address and the secret.") from error


async def _tried(adapter: Any) -> str:
    found = await adapter.newest_auth_server()
    await adapter.check_sending()
    return str(found)
