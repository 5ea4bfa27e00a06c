"""From settings to adapters. What an adapter needs is imported when a channel of its kind is set up."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, cast

import httpx

from nexus import secrets, signatures
from nexus.automations import when
from nexus.channels.adapter import THIS_MACHINE, Adapter, Message, kind_of
from nexus.config import CHANNEL_KINDS, ChannelConfig
from nexus.errors import ConfigError, UsageError
from nexus.history.mail_addresses import normalize_address
from nexus.home import Home
from nexus.ledgers.runtime.channels import ChannelState

if TYPE_CHECKING:
    from nexus.channels.email import Server

GROUP: Final = "nexus.channels"
"""The entry points of packages that offer kinds of channels."""
TAKEN: Final = frozenset({"api", "cli", "schedule", "web"})
"""Names of what Nexus offers itself."""
_IMAP_PORT: Final = 993
_SMTP_PORT: Final = 465


@dataclass(kw_only=True)
class Adapters:
    """The adapters of a home, and the secrets that were read for them."""

    home: Home
    by_name: dict[str, Adapter] = field(default_factory=dict[str, Adapter])
    secrets: set[str] = field(default_factory=set[str])

    def add(self, name: str, settings: ChannelConfig) -> None:
        """Make the adapter of a channel. Blocking: secrets are read from files or the keyring."""
        if name in TAKEN:
            raise ConfigError(f"A channel can't be called {name}", hint="Nexus uses that name itself.")
        make = {
            "program": self._program,
            "webhook": self._webhook,
            "email": self._email,
            "telegram": self._telegram,
            "matrix": self._matrix,
            "slack": self._slack,
            "discord": self._discord,
            "notify": self._notify,
        }
        when.parse_hours(settings.quiet_hours, settings.zone)
        self.by_name[name] = make.get(settings.kind, self._installed)(name, settings)

    def redact(self, text: str) -> str:
        """The text without any of the secrets."""
        return secrets.redact(text, self.secrets)

    def _installed(self, name: str, settings: ChannelConfig) -> Adapter:
        """The adapter of a package. Its module is imported because a person set up a channel of its kind."""
        offered = {entry.name: entry for entry in entry_points(group=GROUP)}
        if settings.kind not in offered:
            known = ", ".join((*CHANNEL_KINDS, *sorted(offered)))
            raise ConfigError(
                f"[channels.{name}] has an unknown kind `{settings.kind}`",
                hint=f"Known: {known}. Install the package that offers another one.",
            )
        options = {key: self._fill_secret(value) for key, value in settings.options.items()}
        where = f"[channels.{name}] {settings.kind} ({offered[settings.kind].value})"
        try:
            adapter = offered[settings.kind].load()
            if kind_of(adapter) != settings.kind:
                raise UsageError(f'is not decorated with `@channel("{settings.kind}")`')
            return cast("Adapter", adapter(**signatures.read(adapter, options)))
        except UsageError as error:
            raise ConfigError(f"{where}: {self.redact(error.message)}", hint="Fix its `options`.") from None
        except Exception as error:  # code of a package may raise anything
            raise ConfigError(self.redact(f"{where}: {type(error).__name__}: {error}")) from error

    def _program(self, name: str, settings: ChannelConfig) -> Adapter:
        from nexus.channels.program import Program

        env = {key: self._fill_secret(value) for key, value in settings.env.items()}
        return Program(name, settings.command, env=env, folder=self.home.root)

    def _webhook(self, name: str, settings: ChannelConfig) -> Adapter:
        from nexus.channels.webhook import Webhook

        return Webhook(
            name,
            secret=self._read(name, settings.secret, "secret"),
            url=settings.url,
            signature=settings.signature,
            header=settings.signature_header,
            fields=settings.fields,
            body=settings.body,
        )

    def _email(self, name: str, settings: ChannelConfig) -> Adapter:
        try:
            from nexus.channels.email import Account, Email
        except ImportError as error:
            raise _missing_package(name, error, "email") from error

        for key in ("address", "imap", "smtp"):
            if not getattr(settings, key):
                raise ConfigError(
                    f"[channels.{name}] needs `{key}`", hint="See docs/how-to/connect-a-channel."
                )
        password = "" if settings.token_command else self._read(name, settings.secret, "secret")
        account = Account(
            address=settings.address,
            user=settings.user or settings.address,
            password=password,
            token_command=settings.token_command,
            imap=_read_server(name, settings, "imap", _IMAP_PORT),
            smtp=_read_server(name, settings, "smtp", _SMTP_PORT),
            folder=settings.folder,
            auth_server=settings.auth_server,
        )
        return Email(account)

    def _telegram(self, name: str, settings: ChannelConfig) -> Adapter:
        from nexus.channels.telegram import Telegram

        return Telegram(token=self._read(name, settings.secret, "secret"), url=settings.url)

    def _matrix(self, name: str, settings: ChannelConfig) -> Adapter:
        try:
            from nexus.channels.matrix import Matrix
        except ImportError as error:
            raise _missing_package(name, error, "matrix") from error

        url = httpx.URL(settings.url)
        if url.scheme not in {"http", "https"} or not url.host:
            raise ConfigError(
                f"[channels.{name}] needs `url`, the homeserver", hint="Write `https://matrix.example.org`."
            )
        if url.scheme == "http" and url.host not in THIS_MACHINE:
            raise ConfigError(
                f"[channels.{name}] would send the password to {url.host} unencrypted",
                hint="Write `https://`; `http://` is allowed only for servers on this machine.",
            )
        secret = self._read(name, settings.secret, "secret")
        return Matrix(url=settings.url, secret=secret, user=settings.user)

    def _slack(self, name: str, settings: ChannelConfig) -> Adapter:
        try:
            from nexus.channels.slack import Slack
        except ImportError as error:
            raise _missing_package(name, error, "slack") from error

        token = self._read(name, settings.secret, "secret")
        app_token = self._read(name, settings.app_token, "app_token")
        return Slack(token=token, app_token=app_token, url=settings.url)

    def _discord(self, name: str, settings: ChannelConfig) -> Adapter:
        try:
            from nexus.channels.discord import Discord
        except ImportError as error:
            raise _missing_package(name, error, "discord") from error

        return Discord(token=self._read(name, settings.secret, "secret"), url=settings.url)

    def _notify(self, name: str, settings: ChannelConfig) -> Adapter:
        try:
            from nexus.channels.notify import Notify
        except ImportError as error:
            raise _missing_package(name, error, "notify") from error

        return Notify(name, urls=self._read(name, settings.secret, "secret"))

    def _fill_secret(self, text: str) -> str:
        source = secrets.source_in(text)
        if not source:
            return text
        secret = secrets.read(source)
        self.secrets.add(secret)
        return text.removesuffix(source) + secret

    def _read(self, name: str, source: str, setting: str) -> str:
        if not source:
            raise ConfigError(
                f"[channels.{name}] needs `{setting}`",
                hint="Name where it is, such as `env:HOOK_SECRET`.",
            )
        secret = secrets.read(source)
        self.secrets |= secrets.pieces(secret)
        return secret


def apply_state(settings: ChannelConfig, state: ChannelState) -> ChannelConfig:
    """The settings of a channel, with what was changed while it ran."""
    changed = {"answer": state.answer, "quiet_hours": state.quiet_hours, "zone": state.zone}
    return replace(settings, **{name: value for name, value in changed.items() if value is not None})


def is_owner(settings: ChannelConfig, message: Message) -> bool:
    """Whether a message comes from the owner: the channel vouches for a sender that the settings name."""
    return message.is_verified and is_owner_address(settings, message.sender)


def is_owner_address(settings: ChannelConfig, sender: str) -> bool:
    """Whether the settings name a sender as the owner."""
    if settings.kind == "email":
        return sender != "" and sender in map(normalize_address, settings.owner)
    return sender in settings.owner


def _missing_package(name: str, error: ImportError, extra: str) -> ConfigError:
    return ConfigError(
        f"[channels.{name}] needs a package that isn't installed: {error.name}",
        hint=f"Run `pip install 'nexus-runtime[{extra}]'`.",
    )


def _read_server(name: str, settings: ChannelConfig, key: str, default_port: int) -> "Server":
    from nexus.channels.email import Server

    host, separator, port = getattr(settings, key).rpartition(":")
    if not separator:
        host, port = port, str(default_port)
    if not host or not port.isdecimal():
        raise ConfigError(
            f"[channels.{name}] {key} is not a server",
            hint="Write `mail.example.org` or `mail.example.org:587`.",
        )
    if not settings.tls and host not in THIS_MACHINE:
        raise ConfigError(
            f"[channels.{name}] would send the password to {host} unencrypted",
            hint="Only a server on this machine may be used without encryption.",
        )
    return Server(host=host, port=int(port), tls=settings.tls, starttls=int(port) != default_port)


def build_adapters(settings: Mapping[str, ChannelConfig], home: Home) -> Adapters:
    """The adapters of all channels that are set up. Blocking: see `Adapters.add`."""
    built = Adapters(home=home)
    for name, each in settings.items():
        built.add(name, each)
    return built
