"""`nexus channels add`: asks for what a channel needs, tries it, and writes it to config.toml."""

import asyncio
import json
from typing import Any

import click

from nexus import secrets
from nexus.channels.kinds import Adapters
from nexus.cli.init_settings import write
from nexus.cli.place import opened_home
from nexus.config import ChannelConfig
from nexus.errors import ConfigError, UsageError
from nexus.home import Home


@click.command()
@click.argument("kind", type=click.Choice(["email", "matrix", "telegram"]))
@click.option("--name", help="Name of the channel.  [default: its kind]")
@click.option("--no-tls", is_flag=True, help="email: don't encrypt. For mail servers on this machine.")
@click.option(
    "--url",
    default="",
    help="telegram: a server of the Bot API other than Telegram's. matrix: the homeserver.",
)
@click.pass_context
def add(ctx: click.Context, kind: str, name: str | None, no_tls: bool, url: str) -> None:
    """Set up a channel step by step: email, Matrix or Telegram. Logs in and sends nothing."""
    home, config = opened_home(ctx)
    name = name or kind
    if name in config.channels:
        raise UsageError(f"There is a channel {name} already", hint="Choose another name with `--name`.")
    if kind == "email":
        asked = _email(home, name, not no_tls)
    else:
        asked = _matrix(home, name, url) if kind == "matrix" else _telegram(url)
    values = {"kind": kind, **asked}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    text = home.config_file.read_text(encoding="utf-8").rstrip("\n")
    write(home.config_file, "\n".join([text, "", f"[channels.{json.dumps(name)}]", *lines, ""]))
    click.echo(f"Saved to {home.config_file}. Restart `nexus up` to connect the channel.")


def _telegram(url: str) -> dict[str, Any]:
    from nexus.channels.telegram import Telegram

    click.echo("Create a bot with @BotFather in Telegram, and put its token into a variable or a file.")
    source = _source("Where is the token", "env:TELEGRAM_TOKEN")
    bot = Telegram(token=secrets.read(source), url=url)
    click.echo(f"Connected as @{asyncio.run(bot.me())['username']}.")
    click.prompt("Write something to the bot, then press Enter", default="", show_default=False)
    found = asyncio.run(bot.newest_sender())
    owner: list[str] = []
    if found is None:
        click.echo("No message received. Add your numeric id to `owner` later.")
    elif click.confirm(f"{found[1]} wrote (id {found[0]}). Is that you?", default=True):
        owner = [found[0]]
    return {"secret": source, "owner": owner} | ({"url": url} if url else {})


def _matrix(home: Home, name: str, url: str) -> dict[str, Any]:
    user = _asked("The agent's Matrix id, such as @agent:example.org")
    values: dict[str, Any] = {
        "user": user,
        "url": url or _asked("Homeserver", f"https://{user.partition(':')[2]}"),
        "secret": _source("Where is the password", "env:MATRIX_PASSWORD"),
    }
    adapters = Adapters(home=home)
    adapters.add(name, ChannelConfig(kind="matrix", **values))
    adapter: Any = adapters.made[name]
    try:
        own_id = asyncio.run(adapter.own_id())
    except ConnectionError as error:
        raise ConfigError(f"Can't log in: {error}", hint="Check the homeserver, id and password.") from error
    click.echo(f"Logged in as {own_id}.")
    values["owner"] = [each.strip() for each in _asked("Your own Matrix ids, with commas").split(",")]
    return values


def _email(home: Home, name: str, tls: bool) -> dict[str, Any]:
    address = _asked("The agent's mail address")
    domain = address.rpartition("@")[2]
    values: dict[str, Any] = {
        "address": address,
        "secret": _source("Where is the password", "env:MAIL_PASSWORD"),
        "imap": _asked("IMAP server", f"imap.{domain}"),
        "smtp": _asked("SMTP server", f"smtp.{domain}"),
    }
    if not tls:
        values["tls"] = False
    adapters = Adapters(home=home)
    adapters.add(name, ChannelConfig(kind="email", **values))
    adapter: Any = adapters.made[name]
    found = str(asyncio.run(_tried(adapter)))
    click.echo("Logged in to both servers.")
    click.echo(
        "Your mail server checks who sends a mail, and signs what it found with its name."
        if found
        else "The newest mail has no Authentication-Results. Without them nobody can be verified."
    )
    values["auth_server"] = _asked("Name of the server in Authentication-Results", found)
    values["owner"] = [each.strip() for each in _asked("Your own addresses, with commas").split(",")]
    return values


async def _tried(adapter: Any) -> str:
    try:
        found = await adapter.newest_auth_server()
    except Exception as error:  # whatever the server or the library says about a login
        raise ConfigError(
            f"The mailbox can't be read: {error}", hint="Check the address and password."
        ) from error
    await adapter.check_sending()
    return str(found)


def _asked(question: str, default: str = "") -> str:
    return str(click.prompt(question, default=default or None)).strip()


def _source(question: str, default: str) -> str:
    source = _asked(f"{question} kept (env:NAME, file:PATH or keyring:SERVICE/USER)", default)
    if not secrets.is_source(source):
        raise UsageError(
            "That is not a place where a secret is kept",
            hint="config.toml never holds secrets: name a variable.",
        )
    return source
