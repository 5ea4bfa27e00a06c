"""Where the key of a provider is: named, found, or typed once; never shown, and never in config.toml."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click

from nexus import secrets
from nexus.cli.init_providers import Provider, key_found
from nexus.cli.init_questions import Asking
from nexus.config import ProviderConfig
from nexus.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class KeyWish:
    """What the command line says about the key. Empty: it is asked."""

    env: str = ""
    file: str = ""
    stdin: bool = False

    @property
    def any(self) -> bool:
        return bool(self.env or self.file or self.stdin)


@dataclass(frozen=True, kw_only=True)
class EarlierKey:
    """What is known of the key from before the trial failed."""

    typed: str = ""
    """One that was typed, and not refused."""
    is_source_refused: bool = False
    """Whether the one at the place that the settings name was."""


def keyed(
    provider: Provider, config: ProviderConfig, wish: KeyWish, asking: Asking, earlier: EarlierKey
) -> tuple[ProviderConfig, str]:
    """The provider with the place of its key, or with a key that was typed and has no place yet."""
    if wish.stdin:
        return config, _from_stdin()
    if wish.env:
        return _at(config, f"env:{wish.env}"), ""
    if wish.file:
        return _at(config, f"file:{Path(wish.file).expanduser().absolute()}"), ""
    if not provider.needs_key or not asking.is_person:
        return config, ""
    if earlier.typed and asking.yes("Use the API key you entered before?", default=True):
        return config, earlier.typed
    source = key_found(config)
    if source and asking.yes(f"Use the API key in {source}?", default=not earlier.is_source_refused):
        return config, ""
    return _asked(config, asking)


def _from_stdin() -> str:
    # At a terminal, what is typed there would be shown.
    typed = click.prompt("API key", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not str(typed).strip():
        raise UsageError("No API key on standard input", hint="Pipe it in: `… --key-stdin < FILE`.")
    return str(typed).strip()


def _asked(config: ProviderConfig, asking: Asking) -> tuple[ProviderConfig, str]:
    kept = "this machine's keyring" if secrets.keyring_usable() else "a file that only you can read"
    click.echo(f"Your API key is not shown and is stored in {kept}.")
    typed = asking.secret("API key (press Enter to skip)")
    if typed:
        return config, typed
    while True:
        question = "Where is the API key? (env:NAME, file:PATH, keyring:SERVICE/USER or none)"
        source = asking.text(question, config.api_key or "none")
        if source == "none":
            return _at(config, ""), ""
        if secrets.is_source(source):
            return _at(config, source), ""
        click.echo("Use env:MY_KEY, file:/path/to/key or keyring:service/user.")


def _at(config: ProviderConfig, source: str) -> ProviderConfig:
    return replace(config, api_key=source, auth_token="")
