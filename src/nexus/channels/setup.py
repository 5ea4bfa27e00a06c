"""Setting up a channel: what each kind needs, and whether it can log in. Sends nothing."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from nexus.channels.adapter import DeliveryError
from nexus.channels.kinds import TAKEN, Adapters
from nexus.config import ChannelConfig
from nexus.errors import ConfigError, UsageError
from nexus.home import Home

_NAME: Final = re.compile(r"(?!new$)[A-Za-z0-9_-]{1,40}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """A setting that a kind of channel needs."""

    key: str
    label: str
    example: str = ""
    """What it looks like; of a secret, where it usually is."""
    is_secret: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of channel that can be set up step by step."""

    title: str
    steps: str
    """What to do at the service first."""
    needs: tuple[Need, ...]
    owner: str
    """What the owner's own addresses are called there."""
    module: str = ""
    """What must be installed, with the extra that has the name of the kind."""
    names_owner: bool = False
    """Whether a login can say who the owner's addresses are."""


KINDS: Final[Mapping[str, Kind]] = {
    "discord": Kind(
        title="Discord",
        steps="Create a bot in the Discord Developer Portal, turn on Message Content Intent, and copy its "
        "token.",
        needs=(Need(key="secret", label="Bot token", example="env:DISCORD_TOKEN", is_secret=True),),
        owner="Your own user IDs",
        module="discord",
    ),
    "email": Kind(
        title="Email",
        steps="Give the agent its own mailbox. Many providers need an app password.",
        needs=(
            Need(key="address", label="The agent's mail address", example="agent@example.org"),
            Need(key="secret", label="Password", example="env:MAIL_PASSWORD", is_secret=True),
            Need(key="imap", label="IMAP server", example="imap.{domain}"),
            Need(key="smtp", label="SMTP server", example="smtp.{domain}"),
        ),
        owner="Your own addresses",
        module="imap_tools",
    ),
    "matrix": Kind(
        title="Matrix",
        steps="Create an account for the agent on your homeserver.",
        needs=(
            Need(key="user", label="The agent's Matrix id", example="@agent:example.org"),
            Need(key="url", label="Homeserver", example="https://{server}"),
            Need(key="secret", label="Password", example="env:MATRIX_PASSWORD", is_secret=True),
        ),
        owner="Your own Matrix ids",
        module="nio",
    ),
    "slack": Kind(
        title="Slack",
        steps="Create an app at api.slack.com/apps with socket mode and the events and scopes listed on the "
        "documentation page “Connect a channel”, install it, and copy its two tokens.",
        needs=(
            Need(key="secret", label="Bot token (xoxb-…)", example="env:SLACK_TOKEN", is_secret=True),
            Need(
                key="app_token",
                label="App-level token (xapp-…)",
                example="env:SLACK_APP_TOKEN",
                is_secret=True,
            ),
        ),
        owner="Your own member IDs (profile > More > Copy member ID)",
        module="slack_bolt",
        names_owner=True,
    ),
    "telegram": Kind(
        title="Telegram",
        steps="Create a bot with @BotFather in Telegram, copy its token, and write something to the bot.",
        needs=(Need(key="secret", label="Bot token", example="env:TELEGRAM_TOKEN", is_secret=True),),
        owner="Your own numeric ID",
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginCheck:
    """What a login showed."""

    said: tuple[str, ...]
    owner: str | None = None
    """The id of who is probably the owner."""
    auth_server: str = ""


def check_name(name: str, existing: Collection[str]) -> None:
    """Raise an error if a new channel can't have that name: addresses and files are named by it."""
    if name in existing:
        raise UsageError(f"There is a channel {name} already", hint="Choose another name.")
    if name in TAKEN or not _NAME.fullmatch(name):
        raise UsageError(
            f"A channel can't be called {name:.40}",
            hint=f"Use up to 40 letters, digits, - and _, and none of {', '.join(sorted(TAKEN))}, new.",
        )


def check_installed(kind: str) -> None:
    """Raise an error that says what to install if a kind of channel needs it."""
    module = KINDS[kind].module
    if module and find_spec(module) is None:
        raise ConfigError(
            f"{KINDS[kind].title} needs a package that isn't installed",
            hint=f"Run `pip install 'nexus-runtime[{kind}]'` and try again.",
        )


def propose_value(need: Need, given: Mapping[str, Any]) -> str:
    """What a setting usually is, by what was given before; empty if that can't be known."""
    if need.is_secret:
        return need.example
    known = {
        "domain": str(given.get("address", "")).rpartition("@")[2],
        "server": str(given.get("user", "")).partition(":")[2],
    }
    return need.example.format(**known) if "{" in need.example and any(known.values()) else ""


async def check_login(home: Home, name: str, settings: ChannelConfig) -> LoginCheck:
    """Log in with the settings of a channel; an error says what is wrong with them."""
    find = _CHECKS.get(settings.kind)
    if find is None:
        raise UsageError(f"A {settings.kind} channel can't be tested", hint="Send it a message instead.")
    adapters = Adapters(home=home)
    adapters.add(name, settings)
    try:
        return await find(adapters.by_name[name], settings)
    except ConnectionError as error:
        raise ConfigError(f"Can't log in: {error}", hint="Check the address and the secret.") from error


async def _check_telegram(adapter: Any, settings: ChannelConfig) -> LoginCheck:
    said = [f"Connected as @{(await adapter.me())['username']}."]
    newest = None
    if not settings.owner:
        with suppress(DeliveryError):  # the channel itself, if it is connected, asks the same
            newest = await adapter.newest_sender()
    if newest is not None:
        said.append(f"{newest[1]} wrote to it last (id {newest[0]}).")
    return LoginCheck(said=tuple(said), owner=newest and newest[0])


async def _check_slack(adapter: Any, settings: ChannelConfig) -> LoginCheck:
    said = [f"Connected as @{(await adapter.check()).name}."]
    for each in settings.owner:
        if (found := await adapter.find_name(each)) is None:
            raise UsageError(
                f"{each} is no member of the workspace", hint="A member ID looks like U012AB3CD."
            )
        said.append(f"{each} is {found}.")
    return LoginCheck(said=tuple(said))


async def _check_discord(adapter: Any, settings: ChannelConfig) -> LoginCheck:
    name, owner, owner_name = await adapter.check()
    return LoginCheck(said=(f"Connected as {name}. The bot belongs to {owner_name} ({owner}).",), owner=owner)


async def _check_matrix(adapter: Any, settings: ChannelConfig) -> LoginCheck:
    return LoginCheck(said=(f"Logged in as {await adapter.own_id()}.",))


async def _check_email(adapter: Any, settings: ChannelConfig) -> LoginCheck:
    found = str(await adapter.newest_auth_server())
    await adapter.check_sending()
    signed = (
        f"The newest mail says that {found} checked who sent it."
        if found
        else "The newest mail has no Authentication-Results header, so Nexus can't tell who sent it."
    )
    return LoginCheck(said=("Logged in to both servers.", signed), auth_server=found)


_CHECKS: Final[Mapping[str, Callable[[Any, ChannelConfig], Awaitable[LoginCheck]]]] = {
    "discord": _check_discord,
    "email": _check_email,
    "matrix": _check_matrix,
    "slack": _check_slack,
    "telegram": _check_telegram,
}
