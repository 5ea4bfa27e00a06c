"""From settings to adapters. What an adapter needs is imported when a channel of its kind is set up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from nexus import secrets
from nexus.channels.adapter import Adapter
from nexus.config import ChannelConfig
from nexus.errors import ConfigError
from nexus.home import Home

_TAKEN: Final = frozenset({"api", "cli", "schedule", "web"})
"""Names of what Nexus offers itself."""


@dataclass(kw_only=True)
class Adapters:
    """The adapters of a home, and the secrets that were read for them."""

    home: Home
    made: dict[str, Adapter] = field(default_factory=dict[str, Adapter])
    secrets: set[str] = field(default_factory=set[str])

    def add(self, name: str, settings: ChannelConfig) -> None:
        """Make the adapter of a channel. Blocking: secrets are read from files or the keyring."""
        if name in _TAKEN:
            raise ConfigError(f"A channel can't be called {name}", hint="Nexus uses that name itself.")
        self.made[name] = (
            self._program(name, settings) if settings.kind == "program" else self._webhook(name, settings)
        )

    def redact(self, text: str) -> str:
        """The text without any of the secrets."""
        return secrets.redact(text, self.secrets)

    def _program(self, name: str, settings: ChannelConfig) -> Adapter:
        from nexus.channels.program import Program

        env = {key: self._filled(value) for key, value in settings.env.items()}
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

    def _filled(self, text: str) -> str:
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
                hint="Say where it is kept, such as `env:HOOK_SECRET`.",
            )
        secret = secrets.read(source)
        self.secrets.add(secret)
        return secret


def adapters(settings: Mapping[str, ChannelConfig], home: Home) -> Adapters:
    """The adapters of all channels that are set up. Blocking: see `Adapters.add`."""
    built = Adapters(home=home)
    for name, each in settings.items():
        built.add(name, each)
    return built
